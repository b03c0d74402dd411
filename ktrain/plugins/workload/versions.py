"""
The versions of `scheduling.k8s.io` that have Workloads and PodGroups, and what is read of their objects.

Each Kubernetes release has its own: v1alpha2 is 1.36's; v1beta1 and v1alpha3 are 1.37's. The v1alpha1 of 1.35 has no
PodGroups, and is not supported. The kinds are served only with a feature gate and a `--runtime-config`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ktrain.api.meta import Condition, Object, Resource, Struct
from ktrain.pipeline.points import Watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json

T = TypeVar("T")

GROUP: Final = "scheduling.k8s.io"
WORKLOADS: Final = "workloads"
POD_GROUPS: Final = "podgroups"


class Gang(Struct, frozen=True):
    """All or nothing, for so many pods."""

    min_count: int = 0


class Policy(Struct, frozen=True):
    """How a group is placed: as a gang, or (None) each pod for itself."""

    gang: Gang | None = None


class Template(Struct, frozen=True):
    """A group of a Workload; and, but for the name, what a PodGroup says itself."""

    name: str = ""
    scheduling_policy: Policy = Policy()
    priority_class_name: str = ""


class WorkloadSpec(Struct, frozen=True):
    """The groups of a Workload."""

    pod_group_templates: tuple[Template, ...] = ()


class WorkloadState(Object, frozen=True):
    """A Workload by its groups. It has no status."""

    spec: WorkloadSpec = WorkloadSpec()


class PodGroupStatus(Struct, frozen=True):
    """What the scheduler says. A condition that is True says nothing about now: from 1.37 on it stays so for ever."""

    conditions: tuple[Condition, ...] = ()


class PodGroupState(Object, frozen=True):
    """A PodGroup."""

    spec: Template = Template()
    status: PodGroupStatus = PodGroupStatus()


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the API."""

    name: str
    count_changes: bool
    """Whether a gang's minCount can change."""
    condition: str
    """By which PodGroups say that they have been scheduled."""

    @property
    def workloads(self) -> Resource[WorkloadState]:
        """Workloads."""
        return _resource(self.name, "Workload", WORKLOADS, WorkloadState)

    @property
    def pod_groups(self) -> Resource[PodGroupState]:
        """PodGroups."""
        return _resource(self.name, "PodGroup", POD_GROUPS, PodGroupState)

    def reference(self, workload: str, template: str) -> Json:
        """Return the fields of a PodGroup's spec that say which template of which Workload it is made from."""
        if self.name == "v1alpha2":
            named = {"workloadName": workload, "podGroupTemplateName": template}
            return {"podGroupTemplateRef": {"workload": named}}
        return {"workloadRef": {"workloadName": workload, "templateName": template}}

    def fits(self, existing: Template, wanted: Template) -> bool:
        """Whether a group that exists can become the wanted one. The names are those of the same template."""
        before, after = existing.scheduling_policy.gang, wanted.scheduling_policy.gang
        same_kind = (before is None) == (after is None)
        same_count = before == after or self.count_changes
        # Where the pods name none, the server may fill in the cluster's default.
        same_priority = wanted.priority_class_name in ("", existing.priority_class_name)
        return same_kind and same_count and same_priority


VERSIONS: Final = (
    Version("v1beta1", count_changes=True, condition="PodGroupInitiallyScheduled"),
    Version("v1alpha3", count_changes=True, condition="PodGroupInitiallyScheduled"),
    Version("v1alpha2", count_changes=False, condition="PodGroupScheduled"),
)
"""The best first: of those that a cluster serves this is the one that is used."""


def watches() -> tuple[Watch, ...]:
    """Watch both kinds, each in the first version that is served."""
    chains = ([version.workloads for version in VERSIONS], [version.pod_groups for version in VERSIONS])
    return tuple(_chained(chain) for chain in chains)


def _chained(resources: Sequence[Resource[Any]]) -> Watch:
    first, *others = resources
    return Watch(first, owned=True, otherwise=_chained(others) if others else None)


def _resource(version: str, kind: str, plural: str, type_: type[T]) -> Resource[T]:
    return Resource(GROUP, version, kind, plural, namespaced=True, type=type_)
