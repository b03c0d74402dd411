"""What a pass over one TrainJob knows: objects from caches, and what this process remembers of its own work."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from ktrain.api import trainer as api
from ktrain.api.meta import Object, Resource
from ktrain.pipeline.errors import PluginError, PluginOverrun

if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from datetime import datetime

    from ktrain.api.jobset import JobSetStatus
    from ktrain.api.meta import Key
    from ktrain.pipeline.errors import PipelineError, PlanError
    from ktrain.pipeline.points import Context
    from ktrain.plugins.jobset import JobSetState

    from .snapshot import Snapshot

SNAPSHOT_METADATA: Final = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True, type=Object)
"""
Snapshots in the cache, by metadata only: who owns them and at which version they are. Their content is kept once for
all jobs of a runtime. (A label to select them by would show: Go's have none. So those that TrainJobs control are held.)
"""

RUNTIMES: Final = {
    (resource.group, resource.kind): resource for resource in (api.TRAINING_RUNTIMES, api.CLUSTER_TRAINING_RUNTIMES)
}


REFUSED: Final = "Refused"
"""The reason of a diagnosis: the API server did not take what was written."""
BUILD_FAILED: Final = "BuildFailed"
INTERNAL_ERROR: Final = "InternalError"
NAME_TAKEN: Final = "NameTaken"
PLUGIN_FAILED: Final = "PluginFailed"
CONDITIONS_FAILED: Final = "PluginConditionsFailed"
"""The job goes on; only the conditions of a plugin are not as they should be."""
RUNTIME_UNUSABLE: Final = "RuntimeUnusable"
HELD_BACK: Final = "HeldBack"
HINDRANCES: Final = frozenset(
    {REFUSED, BUILD_FAILED, HELD_BACK, INTERNAL_ERROR, NAME_TAKEN, PLUGIN_FAILED, RUNTIME_UNUSABLE}
)
"""Reasons with which something may not have been written. Others tell what became of what was."""
BLOCKERS: Final = frozenset({BUILD_FAILED, NAME_TAKEN, RUNTIME_UNUSABLE})
"""Reasons that users have to remove. No failure of the operator: they count as no error, and alert nobody."""
OVERRUN_AGAIN_S: Final = 60.0
"""After this time a plugin that did not return is asked about the job again."""


class Check(Flag):
    """What has to be asked of the API server itself, because no cache can tell. None in the life of a usual job."""

    NONE = 0
    SNAPSHOT = auto()
    """The content of the snapshot, after a restart."""
    JOB = auto()
    """Whether the TrainJob still exists, before a child that vanished is made again."""
    COMPONENTS = auto()
    """What the components look like, after a restart, before they are written again."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the last pass could not do its work."""

    reason: str
    """A word in CamelCase."""
    message: str
    at_once: bool = False
    """Whether the status says so at once: time alone will not mend it."""
    event: str = ""
    """The reason of its event, where it has one of its own."""
    is_final: bool = False
    """Whether nothing is tried again until something changes."""
    again_s: float | None = None
    """When to try again, if not after the usual, ever longer waits."""

    @classmethod
    def of(cls, error: PipelineError) -> Failure:
        """Say what the pipeline has to say. A plugin that makes all others wait is not asked again soon."""
        if isinstance(error, PluginOverrun):
            return cls(PLUGIN_FAILED, str(error), at_once=True, again_s=OVERRUN_AGAIN_S)
        return cls(PLUGIN_FAILED if isinstance(error, PluginError) else BUILD_FAILED, str(error))


class Standing(NamedTuple):
    """Of a JobSet what moves if it gets on."""

    suspend: bool
    status: JobSetStatus | None


class Stall(NamedTuple):
    """A JobSet whose status stands still."""

    seen: Standing | None
    """How it is; None before it was seen."""
    since: datetime
    due: datetime
    """When its events are read."""
    looks: int = 0
    failure: Failure | None = None
    """What they said."""


class Applied(NamedTuple):
    """What was written last: a digest of what was sent, and the generation it led to (0 where a kind has none)."""

    digest: bytes
    generation: int


class Memory(msgspec.Struct, frozen=True, gc=False):
    """What this process remembers of one TrainJob. Losing it costs reads, never a wrong write."""

    snapshot: Snapshot | PlanError | None = None
    """The content of the ConfigMap the job runs on, its own at `snapshot_version`, or why it cannot be used."""
    snapshot_version: str = ""
    applied: Mapping[str, Applied] = {}
    """By kind and name of the component."""
    kept: bytes = b""
    """If the JobSet is kept as Kubeflow made it: what of ours it is kept instead of."""
    job_set_version: str = ""
    status_version: str = ""
    """Resource versions of the JobSet and of the TrainJob after our last write; their events bring nothing new."""
    had_children: bool = False
    """Whether there ever was a snapshot or JobSet."""
    is_incomplete: bool | None = None
    """
    Whether some of the last plan was refused or lost, so that what comes after the JobSet is still to be written. None
    until a pass came to its end: an earlier process may have been cut short.
    """
    behind_since: datetime | None = None
    """Since when writes were refused as if our caches were behind."""
    refused_nodes: int | None = None
    """The number of nodes that the JobSet could not be given."""
    ended: JobSetState | None = None
    """The JobSet, if it was deleted after its end. With a TTL of nothing that is before any pass could see it."""
    deleted: frozenset[str] = frozenset()
    """UIDs of objects whose deletion the API server accepted."""
    undeleted: Failure | None = None
    """Why it did not accept another."""
    failure: Failure | None = None
    failing_since: datetime | None = None
    told: datetime | None = None
    """When `failure` became known as it is."""
    diagnosed: Failure | None = None
    """What was written to the status; a CRD without the field drops it, and then it must not be written for ever."""
    stall: Stall | None = None
    """If the JobSet stands still: since when, and why."""
    warned: bool = False
    """Whether fields of the job that have no effect were reported."""
    status_due_s: float | None = None
    """When counters that changed must be in the status, on the monotonic clock."""

    # What caches tell of our own writes is no news: a third of all events, whose passes had nothing to decide

    def made(self, child: Object) -> bool:
        """Whether a new JobSet or snapshot is the one that we have just made."""
        return child.metadata.resource_version in (self.job_set_version, self.snapshot_version)

    def only_wrote_status(self, old: api.TrainJob, new: api.TrainJob) -> bool:
        """Whether our last status is all that changed. A new list may tell several changes as one."""
        return new.metadata.resource_version == self.status_version and _said(old) == _said(new)


class Observed(msgspec.Struct, frozen=True):
    """Everything `decide` sees. `job_set` and `snapshot` are whatever has the name: they may be somebody else's."""

    job: api.TrainJob
    runtime: api.Runtime | None
    snapshot: Object | None
    job_set: JobSetState | None
    memory: Memory
    context: Context
    kinds: Container[Resource[Any]]
    """What `context.lookup` knows. Of any other kind nobody can say whether there is an object."""
    checked: Check = Check.NONE
    shared: Key | None = None
    """The shared snapshot that the job runs on, if it does."""
    taken: Snapshot | None = None
    """What was taken from the runtime for this job, if it is not known to be stored."""
    shares: bool = False
    """Whether it gets a shared one if it has none yet."""
    shows_state: bool = True
    """Whether the status has a state, the feature gate TrainJobState."""


def _said(obj: Object) -> tuple[object, ...]:
    """What users say of an object; its generation stands for its spec."""
    meta = obj.metadata
    return meta.generation, meta.labels, meta.annotations, meta.finalizers, meta.deletion_timestamp


def only_counted(old: JobSetState, new: JobSetState) -> bool:
    """Whether the counters of its jobs are all that changed of a JobSet."""
    return (
        old.status is not None
        and new.status is not None
        and old.spec == new.spec
        and _said(old) == _said(new)
        and old.status == msgspec.structs.replace(new.status, replicated_jobs_status=old.status.replicated_jobs_status)
    )
