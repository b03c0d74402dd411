"""
Rules for runtimes with `podGroupPolicy.workload`: they set no group of pods themselves, and no group that never could
be scheduled. Asked when the runtime is stored, and for each TrainJob, whose patches may change the template.

The scheduler takes a group only as a whole: one pod with another scheduler or priority blocks all of them. A Workload
has one priority for all its groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ktrain.pipeline.findings import forbidden

from .groups import groups_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ktrain.pipeline.findings import FieldError
    from ktrain.pipeline.info import Info, PodSet


class Place(NamedTuple):
    """Which fields an error is about: those of the runtime, or the TrainJob's reference to it."""

    policy: str
    template: str


RUNTIME: Final = Place("spec.podGroupPolicy.workload", "spec.template.spec")
TRAIN_JOB: Final = Place("spec.runtimeRef", "spec.runtimeRef")
_ANNOTATIONS: Final = ("scheduling.k8s.io/group-template-name", "scheduling.k8s.io/parent-compositepodgroup")
_POD_FIELDS: Final = ("schedulingGroup", "workloadRef")
_SYSTEM: Final = "system-"


def errors(info: Info, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with the template, patches included, as errors of the field at *path*."""
    ours = "podGroupPolicy.workload says how the pods are placed"
    if "scheduling" in info.template:
        yield forbidden(path, f"the JobSet must not have scheduling: {ours}")
    for pod_set in info.pod_sets:
        for what in _foreign(pod_set):
            yield forbidden(path, f"job {pod_set.name} must not have {what}: {ours}")
    for group in groups_of(info):
        for field in ("schedulerName", "preemptionPolicy"):
            if different := _different(group.pod_sets, field):
                detail = f"the jobs of group {group.template} must have the same {field}: {different}"
                yield forbidden(path, detail)
    if different := _different(info.pod_sets, "priorityClassName"):
        yield forbidden(path, f"all jobs must have the same priorityClassName: {different}")


def warnings(info: Info) -> Iterator[str]:
    """Yield what the cluster may refuse."""
    for name in dict.fromkeys(str(pod_set.pod.get("priorityClassName") or "") for pod_set in info.pod_sets):
        if name.startswith(_SYSTEM):
            yield f'PodGroups cannot have the priority class "{name}", whose value is reserved for the system'


def dropped(info: Info) -> Iterator[str]:
    """Yield what clusters other than those of Kubernetes 1.35 drop without a word."""
    for pod_set in info.pod_sets:
        if "workloadRef" in pod_set.pod:
            yield (
                f"job {pod_set.name} has workloadRef, a field of pods in Kubernetes 1.35 only: this cluster drops it,"
                " and the pods are placed one by one"
            )


def _foreign(pod_set: PodSet) -> Iterator[str]:
    """Yield what makes the pods, or the Job, a part of another gang."""
    yield from (field for field in _POD_FIELDS if field in pod_set.pod)
    template = pod_set.job["template"]
    if "scheduling" in (template.get("spec") or {}):
        yield "scheduling"
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    yield from (f"the annotation {name}" for name in _ANNOTATIONS if name in annotations)


def _different(pod_sets: Iterable[PodSet], field: str) -> str:
    """Say which pods have which value, if not all have the same."""
    values = {pod_set.name: pod_set.pod.get(field) or "" for pod_set in pod_sets}
    if len(set(values.values())) <= 1:
        return ""
    return ", ".join(f"{name} has {value or 'none'}" for name, value in values.items())
