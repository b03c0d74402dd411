"""
CoScheduling: the gang plugin of kubernetes-sigs/scheduler-plugins. One PodGroup of the job's name for all of its pods.

The pods find it by a label. The scheduler is the runtime's to name (`schedulerName`). Of steps that wait for each other
the gang never opens: it counts pods that do not exist yet. Kubernetes' own gangs (`workload`) handle that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api.meta import Object, Resource, Struct
from ktrain.pipeline.gang import min_member, min_resources
from ktrain.pipeline.pod_defaults import RULES, WATCHES
from ktrain.pipeline.points import BUILT, PATIENCE_S, Component, Gang, Rule, Wait, Watch
from ktrain.pipeline.watches import Owned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api import trainer as api
    from ktrain.api.meta import Json
    from ktrain.pipeline.info import Info
    from ktrain.pipeline.points import Context

LABEL: Final = "scheduling.x-k8s.io/pod-group"


class PodGroupSpec(Struct, frozen=True):
    """How many pods have to start together."""

    min_member: int = 0


class PodGroupStatus(Struct, frozen=True):
    """How far the group is. It has no conditions: why it does not get on, only its pods say."""

    phase: str = ""


class PodGroupState(Object, frozen=True):
    """A PodGroup, as far as it is read."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


POD_GROUPS: Final = Resource(
    "scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups", namespaced=True, type=PodGroupState
)
_WAITING: Final = {
    "Pending": "they have not all been made",
    "Scheduling": "they have not all found a place",
}
"""By phase."""


class CoSchedulingPolicy(Struct, frozen=True):
    """`podGroupPolicy.coscheduling` with the CRD's default."""

    schedule_timeout_seconds: int = 60


class CoScheduling:
    """Makes one gang of a job for scheduler-plugins."""

    name: Final = "CoScheduling"
    before: Final = ("JobSet",)
    """Pods whose PodGroup is not there are unschedulable, and tried again after a back-off."""
    rbac: Final = (
        Rule((POD_GROUPS.group,), (POD_GROUPS.plural,), BUILT, reason="gangs of scheduler-plugins"),
        *RULES,
    )

    def watches(self) -> Sequence[Watch]:
        """Return what it builds, and what changes the requests of a suspended job's pods."""
        return (
            Watch(POD_GROUPS, Owned()),
            *WATCHES,
        )

    def enforce_pod_group_policy(self, info: Info, ctx: Context) -> None:
        """Put the group's name on all pods."""
        if _policy(info.runtime):
            info.set_pod_metadata("labels", LABEL, info.job.metadata.name)

    def build(self, info: Info, ctx: Context) -> Sequence[Component]:
        """Return the PodGroup."""
        policy = _policy(info.runtime)
        if policy is None:
            return ()
        spec: Json = {
            "minMember": min_member(info),
            "minResources": min_resources(info, ctx),
            "scheduleTimeoutSeconds": policy.schedule_timeout_seconds,
        }
        return (Component.of(info.job, POD_GROUPS, spec=spec),)

    def gangs(self, job: api.TrainJob, runtime: api.RuntimeSpec, ctx: Context) -> Sequence[Gang]:
        """Return the PodGroup. It waits if it does longer than its pods keep places for each other."""
        policy = _policy(runtime)
        if policy is None:
            return ()
        found = ctx.lookup(POD_GROUPS, job.key)
        if found is None or not found.metadata.is_controlled_by(job.metadata.uid):
            return (Gang(POD_GROUPS, job.key),)
        return (Gang(POD_GROUPS, job.key, _wait(found, policy)),)


def _wait(found: PodGroupState, policy: CoSchedulingPolicy) -> Wait | None:
    phase, timeout_s = found.status.phase, policy.schedule_timeout_seconds
    if phase not in _WAITING:
        return None
    message = (
        f"PodGroup {found.metadata.name} is {phase} since more than {timeout_s} s: {found.spec.min_member} pods have to"
        f" start together, and {_WAITING[phase]}; the pods' own conditions say what is missing"
    )
    return Wait("Unschedulable", message, patience_s=max(timeout_s, PATIENCE_S))


def _policy(runtime: api.RuntimeSpec) -> CoSchedulingPolicy | None:
    policy = runtime.pod_group_policy
    if policy is None or not policy.coscheduling:
        return None
    return msgspec.json.decode(policy.coscheduling, type=CoSchedulingPolicy)
