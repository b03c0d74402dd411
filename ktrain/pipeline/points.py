"""
The extension points: what a plugin may implement, and what it is given.

A plugin is any object with a `name` and at least one of these methods; it is recognised by structure, not by a base
class. `before` and `after` may name other plugins, `rbac` the rights it needs, `schemas` the slots of runtimes that it
takes. Hooks are synchronous and pure: they read frozen inputs, the `Info`, and a `Context`, write through `Info` or
return values, and do no I/O. So a plan can be rendered offline, replayed, simulated and cached. A plugin that has to
talk to the outside runs a controller of its own and leaves its answer in an object that a hook can look up.

| phase | extension points | when |
|---|---|---|
| Startup | `WatchExtension` | once |
| PreExecution | `CustomValidation` | at admission, and again before a build: it works the same with webhooks off |
| PreExecution | `RuntimeValidation` | at admission of a runtime |
| Build | `EnforcePodGroupPolicy`, `EnforceMLPolicy`, `EnforcePodSpec`, `PodNetwork`, `ComponentBuilder` | to write |
| PostExecution | `TerminalCondition`, `Conditions`, `Status`, `Elasticity`, `Gangs`, `Upkeep`, `CleanUp` | always |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

from ktrain.api.meta import owner_reference
from ktrain.api.rbac import BUILT as BUILT  # noqa: PLC0414 -- plugins import it from here
from ktrain.api.rbac import WATCHED as WATCHED  # noqa: PLC0414 -- and this
from ktrain.api.rbac import Rule as Rule  # noqa: PLC0414 -- and this
from ktrain.api.trainer import API_VERSION

from .context import Context as Context  # noqa: PLC0414, TC001 -- plugins import it from here
from .context import Lookup as Lookup  # noqa: PLC0414 -- and this
from .watches import Watch as Watch  # noqa: PLC0414, TC001 -- and this

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Condition, Json, JsonValue, Key, Object, Resource
    from ktrain.api.trainer import ElasticStatus, JobStatus, RuntimeSpec, TrainJob

    from .findings import Findings
    from .info import Info

T = TypeVar("T")

PATIENCE_S: Final = 5.0
"""How long pods are on the way in any case."""


class ApplyWhen(Enum):
    """
    When a component that exists is written again.

    Components are built while the JobSet is missing, or it or the TrainJob is suspended; then one that does not exist
    is written in any case. A running job's stay as they are, and one that vanishes is not made again, since what its
    pods have read at their start does not change under them; but for what a scheduler needs of it (`Gangs`) and what
    it goes on needing (`Upkeep`).
    """

    ABSENT = "absent"
    """Never: it is made once, for example a key pair."""
    CHANGED = "changed"
    """When it is built and differs from what was written last."""


@dataclass(frozen=True, slots=True)
class Component:
    """An object to be applied for a TrainJob. Name, namespace and owner reference are already in `body`."""

    # `Any`: any kind.
    resource: Resource[Any]
    body: Json
    when: ApplyWhen = ApplyWhen.CHANGED
    awaited: bool = False
    """Whether what comes after it has to wait until it can be looked up: the next pass builds what names its UID."""
    replaces: bool = False
    """Whether the one that exists cannot become this one: it is deleted, and nothing is written until it is gone."""

    @classmethod
    def of(cls, job: TrainJob, resource: Resource[Any], name: str = "", **content: JsonValue) -> Component:
        """Return a component that the job controls, of its name unless another is given; `content` is the rest."""
        meta = job.metadata
        owner = owner_reference(API_VERSION, "TrainJob", meta.name, meta.uid)
        metadata: Json = {"name": name or meta.name, "namespace": meta.namespace, "ownerReferences": [owner]}
        head: Json = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        return cls(resource, head | content)


@dataclass(frozen=True, slots=True)
class Size:
    """How large an elastic job may be, should be and is."""

    replicated_job: str
    """The one whose Job has one pod for each node."""
    status: ElasticStatus
    is_open: bool
    """Whether it may change yet; not once the first node is done."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a scheduler does not place the pods of a job."""

    reason: str
    """A word in CamelCase; also the reason of the event."""
    message: str
    patience_s: float = PATIENCE_S
    """For so long after its start or resumption a job may well wait, and nothing is told."""


@dataclass(frozen=True, slots=True)
class Gang:
    """An object by which a scheduler places pods together."""

    # `Any`: any kind.
    resource: Resource[Any]
    key: Key
    wait: Wait | None = None
    """If it says that its pods are not placed."""


class Address(NamedTuple):
    """Where an object of a kind is."""

    # `Any`: any kind.
    resource: Resource[Any]
    key: Key


class Removal(NamedTuple):
    """An object that shall be no more."""

    # `Any`: any kind.
    resource: Resource[Any]
    key: Key
    uid: str

    @classmethod
    def of(cls, resource: Resource[Any], found: Object) -> Removal:
        """Remove what was found."""
        return cls(resource, found.key, found.metadata.uid)


class Plugin(Protocol):
    """
    What every plugin has.

    Optional class attributes: `before` and `after` (tuples of plugin names), `rbac` (a tuple of `Rule`), and `schemas`:
    a dict from a slot of runtimes (`mlPolicy`, `podGroupPolicy`) to the schema of `plugin.config` there.
    """

    @property
    def name(self) -> str:
        """A name that no other plugin has; a class attribute will do."""


@runtime_checkable
class WatchExtension(Plugin, Protocol):
    """Startup: the kinds to watch, the TrainJobs that their changes concern, and indexes."""

    def watches(self) -> Sequence[Watch]:
        """
        Return the kinds this plugin reads or builds. Asked once; a plugin that raises here is left out and reported.

        A kind that the cluster does not serve at the start, or does not let the operator list, is left out and
        reported: look-ups find nothing of it, and a TrainJob that needs an object of it says so. When its CRD is
        installed later, the operator has to be restarted.
        """


@runtime_checkable
class CustomValidation(Plugin, Protocol):
    """PreExecution: refuse a TrainJob that cannot work."""

    def validate(self, info: Info | None, job: TrainJob, old: TrainJob | None, ctx: Context) -> Findings:
        """
        Check *job*; *old* is what it replaces on an update. *info* is None if its runtime is gone or unusable.

        Runs at admission with the live runtime, and before a build with the snapshot and no *old*.
        """


@runtime_checkable
class RuntimeValidation(Plugin, Protocol):
    """PreExecution: refuse a runtime by which no TrainJob can work, when it is stored."""

    def validate_runtime(self, info: Info, ctx: Context) -> Findings:
        """
        Check the runtime of *info*, whose TrainJob is empty: it sets no field, and has no name.

        Paths of errors begin with `spec`, the runtime's. On an update, errors that the stored runtime has already do
        not count. Refuse the same in `CustomValidation`, too: a runtime may have been stored before the plugin came.
        """


@runtime_checkable
class EnforcePodGroupPolicy(Plugin, Protocol):
    """Build: what a gang scheduler wants on the pods."""

    def enforce_pod_group_policy(self, info: Info, ctx: Context) -> None:
        """Change *info*."""


@runtime_checkable
class EnforceMLPolicy(Plugin, Protocol):
    """Build: pod counts, and how the framework finds its peers."""

    def enforce_ml_policy(self, info: Info, ctx: Context) -> None:
        """Change *info*."""


@runtime_checkable
class EnforcePodSpec(Plugin, Protocol):
    """Build: anything else in pod specs, after the ML policy."""

    def enforce_pod_spec(self, info: Info, ctx: Context) -> None:
        """Change *info*."""


@runtime_checkable
class PodNetwork(Plugin, Protocol):
    """Build: the host names of the pods, once their counts are final."""

    def pod_network(self, info: Info, ctx: Context) -> None:
        """Set `endpoints` of the pod sets, and whatever else depends on counts."""


@runtime_checkable
class ComponentBuilder(Plugin, Protocol):
    """Build: the objects."""

    def build(self, info: Info, ctx: Context) -> Sequence[Component]:
        """Return the objects to apply, complete: a field left out of a later build is removed from the object."""


@runtime_checkable
class TerminalCondition(Plugin, Protocol):
    """PostExecution: whether the job has ended."""

    def terminal_condition(self, job: TrainJob, ctx: Context) -> Condition | None:
        """Return `Complete` or `Failed` if the job's own child says so, else None."""


@runtime_checkable
class Conditions(Plugin, Protocol):
    """PostExecution: conditions of a plugin's own on the TrainJob."""

    def conditions(self, job: TrainJob, ctx: Context) -> Sequence[Condition]:
        """
        Return what holds of an unfinished job. The types have a prefix: `example.com/Checkpointed`.

        A condition that is not returned stays as it is, so return it as False once it no longer holds. Without a
        transition time, the time at which its status changes is stored. No condition of a plugin ends a job, and
        Kubeflow's conditions come after it, for clients that read the last one. Kubeflow's SDK says Created, and never
        Running, of an unfinished job that has any condition, as it does after a resumption.

        Conclude it from objects that `ctx.lookup` finds, whose changes cause a reconcile, and not from `job.status`:
        the controller's own writes of the status cause none.
        """


@runtime_checkable
class Status(Plugin, Protocol):
    """PostExecution: how far the job is."""

    def jobs_status(self, job: TrainJob, ctx: Context) -> tuple[JobStatus, ...] | None:
        """Return the counters of the replicated jobs; None if there is nothing to read them from."""


@runtime_checkable
class Elasticity(Plugin, Protocol):
    """PostExecution: a job whose size may change while it runs."""

    def size(self, job: TrainJob, runtime: RuntimeSpec, ctx: Context) -> Size | None:
        """Return the size of an unfinished job; None if it is not elastic. *runtime* is the job's snapshot."""


@runtime_checkable
class Gangs(Plugin, Protocol):
    """PostExecution: a job whose pods a scheduler places together."""

    def gangs(self, job: TrainJob, runtime: RuntimeSpec, ctx: Context) -> Sequence[Gang]:
        """
        Return what the scheduler needs of a job that runs; nothing if the job is no gang.

        What of it is gone, while somebody built it (`ComponentBuilder`), is made again: pods that come later, in place
        of failed ones, would wait for ever. What waits is told on the TrainJob. *runtime* is the job's snapshot.
        """


@runtime_checkable
class Upkeep(Plugin, Protocol):
    """PostExecution: what a job goes on needing, while it runs, of what a plugin builds."""

    def upkeep(self, job: TrainJob, runtime: RuntimeSpec, ctx: Context) -> Sequence[Address]:
        """
        Return it, of a job that runs. *runtime* is the job's snapshot.

        What of it is gone is made again: pods that come later, in place of failed ones, would wait for what they mount;
        a job without its autoscaler would keep its size.
        """


@runtime_checkable
class CleanUp(Plugin, Protocol):
    """PostExecution: what a plugin builds to exist only while a job runs."""

    def removals(self, job: TrainJob, ctx: Context) -> Sequence[Removal]:
        """Return what there is of it. Asked of suspended and of finished jobs."""


EXTENSION_POINTS: tuple[type, ...] = (
    WatchExtension,
    CustomValidation,
    RuntimeValidation,
    EnforcePodGroupPolicy,
    EnforceMLPolicy,
    EnforcePodSpec,
    PodNetwork,
    ComponentBuilder,
    TerminalCondition,
    Conditions,
    Status,
    Elasticity,
    Gangs,
    Upkeep,
    CleanUp,
)
