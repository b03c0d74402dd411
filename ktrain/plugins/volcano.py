"""
Volcano: one PodGroup of the job's name for all of its pods, in a queue.

The pods find it by an annotation. The scheduler is the runtime's to name (`schedulerName: volcano`), and so is the
queue, by an annotation of its template or of a patch; annotations of the TrainJob say nothing. As with CoScheduling,
steps that wait for each other never get past such a gang.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api.core import PRIORITY_CLASSES
from ktrain.api.meta import Condition, Key, Object, Resource, Struct, find_condition
from ktrain.pipeline.findings import Findings, invalid
from ktrain.pipeline.gang import min_member, min_resources
from ktrain.pipeline.pod_defaults import RULES, WATCHES
from ktrain.pipeline.points import BUILT, WATCHED, Component, Gang, Rule, Wait, Watch
from ktrain.pipeline.watches import Owned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api import trainer as api
    from ktrain.api.meta import Json
    from ktrain.pipeline.findings import FieldError
    from ktrain.pipeline.info import Info
    from ktrain.pipeline.points import Context

GROUP_ANNOTATION: Final = "scheduling.k8s.io/group-name"
QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"


class PodGroupStatus(Struct, frozen=True):
    """How far the group is. `Unschedulable` stays True beside a later `Scheduled`, so the phase counts, too."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class PodGroupState(Object, frozen=True):
    """A PodGroup, as far as it is read."""

    status: PodGroupStatus = PodGroupStatus()


POD_GROUPS: Final = Resource(
    "scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", namespaced=True, type=PodGroupState
)
_PLACED: Final = ("Running", "Completed")
BUILT_IN_CLASSES: Final = ("system-cluster-critical", "system-node-critical")


class NetworkTopology(Struct, frozen=True, omit_defaults=False):
    """How far from each other the pods may be, with the CRD's defaults."""

    mode: str = "hard"
    highest_tier_allowed: int = 1


class VolcanoPolicy(Struct, frozen=True):
    """`podGroupPolicy.volcano`."""

    network_topology: NetworkTopology | None = None


class Volcano:
    """Makes one gang of a job for Volcano."""

    name: Final = "Volcano"
    before: Final = ("JobSet",)
    """Volcano makes a PodGroup of its own for pods whose group is not there."""
    rbac: Final = (
        Rule((POD_GROUPS.group,), (POD_GROUPS.plural,), BUILT, reason="gangs of Volcano"),
        Rule((PRIORITY_CLASSES.group,), (PRIORITY_CLASSES.plural,), WATCHED, reason="priorities of gangs"),
        *RULES,
    )

    def watches(self) -> Sequence[Watch]:
        """Return what it builds and reads, and what changes the requests of a suspended job's pods."""
        return (
            Watch(POD_GROUPS, Owned()),
            Watch(PRIORITY_CLASSES),
            *WATCHES,
        )

    def enforce_pod_group_policy(self, info: Info, ctx: Context) -> None:
        """Put the group's name on all pods."""
        if _policy(info.runtime):
            info.set_pod_metadata("annotations", GROUP_ANNOTATION, info.job.metadata.name)

    def validate(self, info: Info | None, job: api.TrainJob, old: api.TrainJob | None, ctx: Context) -> Findings:
        """Refuse an empty queue, and priority classes that do not exist."""
        if info is None or _policy(info.runtime) is None:
            return Findings()
        errors: list[FieldError] = []
        if info.annotations.get(QUEUE_ANNOTATION) == "":
            errors.append(invalid(f"spec.annotations[{QUEUE_ANNOTATION}]", "", "Volcano queue name must not be empty"))
        for name in _priority_classes(info):
            if name in BUILT_IN_CLASSES:
                break
            if ctx.knows(PRIORITY_CLASSES) and ctx.lookup(PRIORITY_CLASSES, Key("", name)) is None:
                missing = f'PriorityClass.{PRIORITY_CLASSES.group} "{name}" not found'
                detail = f'PriorityClass "{name}" doesn\'t exist: {missing}'
                errors.append(invalid("spec.templateSpec.priorityClassName", name, detail))
        return Findings(tuple(errors))

    def build(self, info: Info, ctx: Context) -> Sequence[Component]:
        """Return the PodGroup."""
        policy = _policy(info.runtime)
        if policy is None:
            return ()
        spec: Json = {"minMember": min_member(info), "minResources": min_resources(info, ctx)}
        if QUEUE_ANNOTATION in info.annotations:
            spec["queue"] = info.annotations[QUEUE_ANNOTATION]
        if classes := _priority_classes(info):
            spec["priorityClassName"] = classes[-1]
        if policy.network_topology:
            spec["networkTopology"] = msgspec.to_builtins(policy.network_topology)
        return (Component.of(info.job, POD_GROUPS, spec=spec),)

    def gangs(self, job: api.TrainJob, runtime: api.RuntimeSpec, ctx: Context) -> Sequence[Gang]:
        """Return the PodGroup. It waits if Volcano says that it is unschedulable."""
        if _policy(runtime) is None:
            return ()
        found = ctx.lookup(POD_GROUPS, job.key)
        if found is None or not found.metadata.is_controlled_by(job.metadata.uid):
            return (Gang(POD_GROUPS, job.key),)
        return (Gang(POD_GROUPS, job.key, _wait(found)),)


def _wait(found: PodGroupState) -> Wait | None:
    condition = find_condition(found.status.conditions, "Unschedulable")
    if condition is None or not condition.is_true or found.status.phase in _PLACED:
        return None
    said = ": ".join(filter(None, (condition.reason, condition.message)))
    return Wait("Unschedulable", f"PodGroup {found.metadata.name} is unschedulable: {said}")


def _policy(runtime: api.RuntimeSpec) -> VolcanoPolicy | None:
    policy = runtime.pod_group_policy
    return msgspec.json.decode(policy.volcano, type=VolcanoPolicy) if policy and policy.volcano else None


def _priority_classes(info: Info) -> list[str]:
    """Return the priority classes of the pods, job by job."""
    return [name for pod_set in info.pod_sets if (name := pod_set.pod.get("priorityClassName"))]
