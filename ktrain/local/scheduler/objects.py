"""Pods, nodes and groups, by what decides where a pod may run. Selectors pass through as JSON (`selecting.py`)."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from ktrain.api.meta import Condition, Object, Resource, Struct, find_condition, is_condition_true

Amounts = dict[str, str | int | float]


class Requirements(Struct, frozen=True):
    """A container's `resources`."""

    limits: Amounts = {}
    requests: Amounts = {}


class Port(Struct, frozen=True):
    """A port of a container; only those of the host are the scheduler's."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class Container(Struct, frozen=True):
    """A container, by what it asks for."""

    resources: Requirements = Requirements()
    ports: tuple[Port, ...] = ()
    restart_policy: str = ""


class Gate(Struct, frozen=True):
    """A scheduling gate."""

    name: str = ""


class ClaimSource(Struct, frozen=True):
    """`volumes[].persistentVolumeClaim`."""

    claim_name: str = ""


class Volume(Struct, frozen=True):
    """A volume, by the claim it needs."""

    persistent_volume_claim: ClaimSource | None = None


class Toleration(Struct, frozen=True):
    """What taint a pod puts up with."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Expression(Struct, frozen=True):
    """One condition on a node."""

    key: str = ""
    operator: str = "In"
    values: tuple[str, ...] = ()


class NodeTerm(Struct, frozen=True):
    """All conditions must hold; without any, none does."""

    match_expressions: tuple[Expression, ...] = ()
    match_fields: tuple[Expression, ...] = ()


class NodeSelector(Struct, frozen=True):
    """One of the terms must hold."""

    node_selector_terms: tuple[NodeTerm, ...] = ()


class PreferredNode(Struct, frozen=True):
    """A term and how much it is liked."""

    weight: int = 1
    preference: NodeTerm = NodeTerm()


class NodeAffinity(Struct, frozen=True):
    """Which nodes a pod wants."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredNode, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodTerm(Struct, frozen=True):
    """Pods, and the topology in which they count."""

    topology_key: str = ""
    label_selector: msgspec.Raw = msgspec.Raw(b"null")
    namespaces: tuple[str, ...] = ()
    namespace_selector: msgspec.Raw = msgspec.Raw(b"null")


class PreferredPods(Struct, frozen=True):
    """A term and how much it is liked."""

    weight: int = 1
    pod_affinity_term: PodTerm = PodTerm()


class PodAffinity(Struct, frozen=True):
    """Which pods a pod wants near, or not near."""

    required: tuple[PodTerm, ...] = msgspec.field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredPods, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct, frozen=True):
    """All three kinds."""

    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class Spread(Struct, frozen=True):
    """A topology spread constraint."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: msgspec.Raw = msgspec.Raw(b"null")
    min_domains: int = 1
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class SchedulingGroup(Struct, frozen=True):
    """The PodGroup of scheduling.k8s.io."""

    pod_group_name: str = ""


class PodSpec(Struct, frozen=True):
    """The part of a pod's spec that decides where it may run, and when."""

    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    preemption_policy: str = "PreemptLowerPriority"
    scheduling_gates: tuple[Gate, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Amounts = {}
    node_selector: dict[str, str] = {}
    affinity: Affinity = Affinity()
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[Spread, ...] = ()
    volumes: tuple[Volume, ...] = ()


class PodStatus(Struct, frozen=True):
    """The part of a pod's status that the scheduler reads."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    start_time: datetime | None = None
    nominated_node_name: str = ""


class Pod(Object, frozen=True):
    """A pod as the scheduler reads it."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_over(self) -> bool:
        """Whether it has ended and holds nothing of its node any more."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_waiting(self) -> bool:
        """Whether it has no node, and may still get one."""
        return not self.spec.node_name and not self.is_over and self.metadata.deletion_timestamp is None

    @property
    def is_preempted(self) -> bool:
        """Whether it is being stopped because a scheduler needed its place."""
        target = find_condition(self.status.conditions, "DisruptionTarget")
        is_meant = target is not None and target.is_true and target.reason == PREEMPTED
        return is_meant and self.metadata.deletion_timestamp is not None


class Taint(Struct, frozen=True):
    """Keeps pods away that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True):
    """Who may come to a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(Struct, frozen=True):
    """What a node has to give."""

    allocatable: Amounts = {}


class Node(Object, frozen=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class GangPolicy(Struct, frozen=True):
    """All or nothing."""

    min_count: int = 1


class SchedulingPolicy(Struct, frozen=True):
    """How the pods of a group are placed; without a gang each for itself."""

    gang: GangPolicy | None = None


class GroupSpec(Struct, frozen=True):
    """A group of any of the three kinds: `minMember` is that of coscheduling and Volcano."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    disruption_mode: str = "Pod"
    min_member: int = 0


class GroupStatus(Struct, frozen=True):
    """What was said of a group."""

    conditions: tuple[Condition, ...] = ()


class PodGroup(Object, frozen=True):
    """A PodGroup, of whichever API."""

    spec: GroupSpec = GroupSpec()
    status: GroupStatus = GroupStatus()


class BudgetSpec(Struct, frozen=True):
    """Which pods a budget protects."""

    selector: msgspec.Raw = msgspec.Raw(b"null")


class BudgetStatus(Struct, frozen=True):
    """How many of them may go, and who is on the way."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] = {}


class Budget(Object, frozen=True):
    """A PodDisruptionBudget."""

    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class Namespace(Object, frozen=True):
    """A namespace, by its labels."""


class DefinitionStatus(Struct, frozen=True):
    """What was said of a CustomResourceDefinition."""

    conditions: tuple[Condition, ...] = ()


class Definition(Object, frozen=True):
    """A CustomResourceDefinition; its name is `plural.group`."""

    status: DefinitionStatus = DefinitionStatus()

    @property
    def is_served(self) -> bool:
        """Whether its objects can be listed."""
        return is_condition_true(self.status.conditions, "Established")


class Claim(Object, frozen=True):
    """A PersistentVolumeClaim; that it exists is enough."""


PREEMPTED: Final = "PreemptionByScheduler"
"""The reason of the condition `DisruptionTarget` of a pod that has to make room."""
PODS: Final = Resource("", "v1", "Pod", "pods", namespaced=True, type=Pod)
NODES: Final = Resource("", "v1", "Node", "nodes", namespaced=False, type=Node)
NAMESPACES: Final = Resource("", "v1", "Namespace", "namespaces", namespaced=False, type=Namespace)
BUDGETS: Final = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", namespaced=True, type=Budget)
CLAIMS: Final = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True, type=Claim)
DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
    type=Definition,
)
KUBERNETES_GROUPS: Final = Resource(
    "scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups", namespaced=True, type=PodGroup
)
COSCHEDULING_GROUPS: Final = Resource(
    "scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups", namespaced=True, type=PodGroup
)
VOLCANO_GROUPS: Final = Resource(
    "scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", namespaced=True, type=PodGroup
)
