"""
The Workload plugin's hooks.

A PodGroup belongs to its Workload, too, and an owner is named by its UID, which exists only once the Workload does.
Hooks are pure and read what is cached; so a job takes two passes. The first builds the Workload alone, as a component
that the rest waits for. Its event wakes the job, and the second pass builds the PodGroups and then the JobSet, whose
pods name them. API servers of 1.36 want that order, too: they refuse a PodGroup whose Workload is not there. On 1.35
there are no PodGroups, and one reconcile builds the Workload and the JobSet.

Nothing here changes while a job runs; what vanishes meanwhile is made again, in the same two passes. If a suspended
job's groups have changed in a way that theirs cannot, Workload and PodGroups are deleted together and made anew when
they are gone; until then the JobSet stays suspended. A PodGroup goes when its last pod has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Key, find_condition
from ktrain.pipeline.errors import PlanError
from ktrain.pipeline.findings import Findings, forbidden
from ktrain.pipeline.points import BUILT, Component, Gang, Rule, Wait, Watch

from . import objects, rules, versions
from .groups import group_name, groups_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Object
    from ktrain.api.trainer import RuntimeSpec, TrainJob
    from ktrain.pipeline.info import Info
    from ktrain.pipeline.points import Context

    from .groups import Group
    from .versions import AnyWorkload, Version

GATE: Final = "GenericWorkload"
"""The feature gate of the operator: without it the policy is refused."""
GATE_OFF: Final = (
    f"podGroupPolicy.workload needs the operator's feature gate {GATE}, which is off: turn it on with"
    f" --feature-gates={GATE}=true, or with featureGates: {{{GATE}: true}} in its configuration file"
)
_NOT_SERVED: Final = (
    "podGroupPolicy.workload needs Workloads and PodGroups of {group} in one of the versions {versions}, and this"
    " cluster serves none of them, or does not let the operator list them; on Kubernetes 1.37 turn on the feature gate"
    " GenericWorkload and --runtime-config={group}/v1beta1=true, on 1.36 the gates GenericWorkload and GangScheduling"
    " and --runtime-config={group}/v1alpha2=true, on 1.35 the same gates and --runtime-config={group}/v1alpha1=true,"
    " then restart the operator"
)


class Workload:
    """Makes gangs of Kubernetes' own of a job."""

    name: Final = "Workload"
    before: Final = ("JobSet",)
    rbac: Final = (
        Rule(
            (versions.GROUP,),
            (versions.WORKLOADS, versions.POD_GROUPS),
            (*BUILT, "delete"),
            reason="gangs of Kubernetes",
        ),
    )

    def __init__(self, *, enabled: bool = True) -> None:
        """Make the plugin; if the feature gate is not *enabled*, it watches nothing and refuses its policy."""
        self._enabled = enabled

    def watches(self) -> Sequence[Watch]:
        """Return the kinds it builds, in the best version that the cluster serves; nothing if the gate is off."""
        return versions.watches() if self._enabled else ()

    def validate(self, info: Info | None, job: TrainJob, old: TrainJob | None, ctx: Context) -> Findings:
        """Refuse what a runtime with this policy must not set, the job's patches included."""
        return self._check(info, rules.TRAIN_JOB, ctx) if info else Findings()

    def validate_runtime(self, info: Info, ctx: Context) -> Findings:
        """Refuse the same in the runtime itself."""
        return self._check(info, rules.RUNTIME, ctx)

    def _check(self, info: Info, place: rules.Place, ctx: Context) -> Findings:
        if not _is_active(info.runtime):
            return Findings(warnings=() if _has_inline_groups(ctx) else tuple(rules.dropped(info)))
        if not self._enabled:
            return Findings((forbidden(place.policy, GATE_OFF),))
        return Findings(tuple(rules.errors(info, place.template)), tuple(rules.warnings(info)))

    def enforce_pod_group_policy(self, info: Info, ctx: Context) -> None:
        """Have each pod name its group."""
        if not _is_active(info.runtime):
            return
        is_inline = _has_inline_groups(ctx)
        for group in groups_of(info):
            for pod_set in group.pod_sets:
                if is_inline:
                    pod_set.set_workload_ref(group.reference)
                else:
                    pod_set.set_scheduling_group(group.name)

    def build(self, info: Info, ctx: Context) -> Sequence[Component]:
        """
        Return the Workload, and its PodGroups once it is there.

        Raises:
            PlanError: The cluster does not serve the kinds, or the feature gate is off.
        """
        if not _is_active(info.runtime):
            return ()
        if not self._enabled:
            raise PlanError(GATE_OFF)
        version, groups = _served(ctx), groups_of(info)
        existing = ctx.lookup(version.workloads, info.job.key)
        replaces = not _fits(version, existing, groups, ctx)
        body = objects.workload(info, groups, version)
        workload = Component(version.workloads, body, awaited=version.has_pod_groups, replaces=replaces)
        if existing is None or not version.has_pod_groups:
            return (workload,)
        return (
            workload,
            *(
                Component(version.pod_groups, objects.pod_group(group, version, existing), replaces=replaces)
                for group in groups
            ),
        )

    def gangs(self, job: TrainJob, runtime: RuntimeSpec, ctx: Context) -> Sequence[Gang]:
        """Return the Workload, and a PodGroup for each of its templates."""
        version = _found(ctx) if self._enabled and _is_active(runtime) else None
        if version is None:
            return ()
        workload = ctx.lookup(version.workloads, job.key)
        templates = workload.templates if workload and version.has_pod_groups and _is_of(workload, job) else ()
        return (
            Gang(version.workloads, job.key),
            *(_gang(version, Key(job.metadata.namespace, group_name(job, one.name)), job, ctx) for one in templates),
        )


def _gang(version: Version, key: Key, job: TrainJob, ctx: Context) -> Gang:
    found = ctx.lookup(version.pod_groups, key)
    condition = find_condition(found.status.conditions, version.condition) if found and _is_of(found, job) else None
    if condition is None or condition.status != "False":
        return Gang(version.pod_groups, key)
    said = condition.message or condition.reason
    message = f"PodGroup {key.name} is not scheduled: {said}; its pods' own conditions say what is missing"
    return Gang(version.pod_groups, key, Wait(condition.reason or "Unschedulable", message))


def _is_of(found: Object, job: TrainJob) -> bool:
    return found.metadata.is_controlled_by(job.metadata.uid)


def _is_active(runtime: RuntimeSpec) -> bool:
    policy = runtime.pod_group_policy
    return bool(policy and policy.workload)


def _found(ctx: Context) -> Version | None:
    """Return the version that is used here."""
    for version in versions.VERSIONS:
        if ctx.knows(version.workloads) and (not version.has_pod_groups or ctx.knows(version.pod_groups)):
            return version
    return None


def _has_inline_groups(ctx: Context) -> bool:
    """Whether the cluster is of Kubernetes 1.35, whose Workloads hold their groups."""
    version = _found(ctx)
    return version is not None and not version.has_pod_groups


def _served(ctx: Context) -> Version:
    if version := _found(ctx):
        return version
    names = ", ".join(version.name for version in versions.VERSIONS)
    raise PlanError(_NOT_SERVED.format(group=versions.GROUP, versions=names))


def _fits(version: Version, existing: AnyWorkload | None, groups: Sequence[Group], ctx: Context) -> bool:
    """Whether what exists can become what is wanted."""
    wanted = {group.template: group.wanted for group in groups}
    before = {template.name: template for template in existing.templates} if existing else wanted
    if before.keys() != wanted.keys() or not all(version.fits(before[name], wanted[name]) for name in wanted):
        return False
    for group in groups if version.has_pod_groups else ():
        found = ctx.lookup(version.pod_groups, Key(group.info.job.metadata.namespace, group.name))
        # One that is going already is waited for; the new Workload has nothing to do with it.
        if found and not found.metadata.deletion_timestamp and not version.fits(found.spec, group.wanted):
            return False
    return True
