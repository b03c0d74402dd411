"""
The versions of `scheduling.k8s.io` that have Workloads, and what is read of their objects.

Each Kubernetes release has its own: v1alpha1 is 1.35's, v1alpha2 is 1.36's, v1beta1 and v1alpha3 are 1.37's. In
v1alpha1 there is no kind PodGroup: the groups stand in the Workload, and pods name the Workload and a group of it
(`spec.workloadRef`). From v1alpha2 on each group is an object, and pods name that (`spec.schedulingGroup`). The kinds
are served only with a feature gate and a `--runtime-config`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

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

    @property
    def templates(self) -> tuple[Template, ...]:
        """The groups."""
        return self.spec.pod_group_templates


class InlineGroup(Struct, frozen=True):
    """A group as v1alpha1 has it."""

    name: str = ""
    policy: Policy = Policy()


class InlineSpec(Struct, frozen=True):
    """The groups of a Workload of v1alpha1."""

    pod_groups: tuple[InlineGroup, ...] = ()


class InlineWorkloadState(Object, frozen=True):
    """A Workload of v1alpha1, which holds its groups itself."""

    spec: InlineSpec = InlineSpec()

    @property
    def templates(self) -> tuple[Template, ...]:
        """The groups, in the shape of the later versions."""
        return tuple(Template(group.name, group.policy) for group in self.spec.pod_groups)


AnyWorkload: TypeAlias = "WorkloadState | InlineWorkloadState"
"""A Workload of one of the versions."""


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
    """By which PodGroups say that they have been scheduled; empty where they are no objects."""

    @property
    def has_pod_groups(self) -> bool:
        """Whether groups are objects of their own, with a priority and a status."""
        return bool(self.condition)

    @property
    def workloads(self) -> Resource[AnyWorkload]:
        """Workloads."""
        type_: type[AnyWorkload] = WorkloadState if self.has_pod_groups else InlineWorkloadState
        return _resource(self.name, "Workload", WORKLOADS, type_)

    @property
    def pod_groups(self) -> Resource[PodGroupState]:
        """PodGroups. Only where `has_pod_groups`."""
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
        same_priority = not self.has_pod_groups or wanted.priority_class_name in ("", existing.priority_class_name)
        return same_kind and same_count and same_priority


VERSIONS: Final = (
    Version("v1beta1", count_changes=True, condition="PodGroupInitiallyScheduled"),
    Version("v1alpha3", count_changes=True, condition="PodGroupInitiallyScheduled"),
    Version("v1alpha2", count_changes=False, condition="PodGroupScheduled"),
    Version("v1alpha1", count_changes=False, condition=""),
)
"""The best first: of those that a cluster serves this is the one that is used."""


def watches() -> tuple[Watch, ...]:
    """Watch both kinds, each in the first version that is served."""
    pod_groups = [version.pod_groups for version in VERSIONS if version.has_pod_groups]
    chains = ([version.workloads for version in VERSIONS], pod_groups)
    return tuple(_chained(chain) for chain in chains)


def _chained(resources: Sequence[Resource[Any]]) -> Watch:
    first, *others = resources
    return Watch(first, owned=True, otherwise=_chained(others) if others else None)


def _resource(version: str, kind: str, plural: str, type_: type[T]) -> Resource[T]:
    return Resource(GROUP, version, kind, plural, namespaced=True, type=type_)
