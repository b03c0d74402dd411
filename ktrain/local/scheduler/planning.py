"""
One pass as a pure function: all pods, nodes and groups → who goes where, and why the rest waits.

Pods take their turn by priority, then age. A gang takes its turn with its first pod: its pods are placed one after the
other, and if too few of them fit all are taken back, so that another may have the places. Nothing that is bound is ever
moved. Pods of one shape fail alike, so for each shape the nodes are asked once: what is full does not get emptier
within a pass, unless a gang is taken back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from . import scoring
from .filtering import Candidate, explain
from .fleet import Fleet
from .gangs import Gang, GroupName, gather

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from ktrain.api.meta import Key

    from .objects import Node, Pod, PodGroup

OUR_NAME: Final = "default-scheduler"
GATED: Final = "SchedulingGated"
UNSCHEDULABLE: Final = "Unschedulable"
UNPLACED: Final = "pod group is unschedulable"


@dataclass(frozen=True, slots=True)
class Cluster:
    """All that a pass looks at."""

    pods: Sequence[Pod]
    nodes: Sequence[Node]
    groups: Mapping[str, Mapping[Key, PodGroup]] = field(default_factory=dict)
    """The PodGroups there are, of each API that is served."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels by name."""
    claims: frozenset[Key] = frozenset()


@dataclass(slots=True)
class Plan:
    """What is to be done."""

    bind: list[tuple[Pod, str]] = field(default_factory=list)
    """Pods and their nodes, in the order of their turns."""
    explain: list[tuple[Pod, str, str]] = field(default_factory=list)
    """Pods that wait: reason and message of their condition."""
    gangs: list[tuple[Gang, str]] = field(default_factory=list)
    """Gangs that had a turn, and why they did not start; empty if they did."""


def make_plan(cluster: Cluster) -> Plan:
    """Decide one pass."""
    return _Pass(cluster).run()


class _Pass:
    """The state of one pass."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._plan = Plan()
        self._fleet = Fleet(cluster.nodes, cluster.namespaces)
        self._gangs = gather(cluster.pods, cluster.groups)
        self._gang_of = {pod.metadata.uid: gang for gang in self._gangs.values() for pod in gang.members}
        self._failed: dict[Hashable, str] = {}

    def run(self) -> Plan:
        for pod in self._cluster.pods:
            if pod.spec.node_name and not pod.is_over:
                self._fleet.place(pod, pod.spec.node_name)
        seen: set[GroupName] = set()
        for pod in sorted(filter(self._is_ours, self._cluster.pods), key=_turn):
            gang = self._gang_of.get(pod.metadata.uid)
            if gang is None:
                self._try_one(pod)
            elif gang.name not in seen:
                seen.add(gang.name)
                self._try_gang(gang)
        return self._plan

    def _is_ours(self, pod: Pod) -> bool:
        """A pod of a gang is ours whatever scheduler it names: here is no other that could know the gang."""
        named = pod.spec.scheduler_name in ("", OUR_NAME)
        return pod.is_waiting and (named or pod.metadata.uid in self._gang_of)

    def _try_one(self, pod: Pod) -> None:
        if not self._is_gated(pod):
            problem = self._place(pod)
            if problem:
                self._plan.explain.append((pod, UNSCHEDULABLE, problem))

    def _try_gang(self, gang: Gang) -> None:
        waiting = [pod for pod in sorted(filter(self._is_ours, gang.members), key=_turn) if not self._is_gated(pod)]
        obstacle = gang.obstacle()
        if obstacle:
            self._plan.explain += [(pod, UNSCHEDULABLE, obstacle) for pod in waiting]
            return
        first = len(self._plan.bind)
        problems = [(pod, problem) for pod in waiting if (problem := self._place(pod))]
        placed = len(waiting) - len(problems)
        if gang.started + placed < gang.least:
            together = self._take_back(gang, first)
            alone = {pod.metadata.uid: problem for pod, problem in problems}
            problems = [(pod, alone.get(pod.metadata.uid, together)) for pod in waiting]
            self._plan.gangs.append((gang, UNPLACED))
        elif waiting:
            self._plan.gangs.append((gang, ""))
        self._plan.explain += [(pod, UNSCHEDULABLE, problem) for pod, problem in problems]

    def _take_back(self, gang: Gang, first: int) -> str:
        placed = self._plan.bind[first:]
        del self._plan.bind[first:]
        for pod, _ in reversed(placed):
            self._fleet.remove(pod)
        self._failed.clear()
        have = gang.started + len(placed)
        return f"{UNPLACED}, waiting for minCount pods from a gang to be scheduled: {have} fit, {gang.least} are needed"

    def _is_gated(self, pod: Pod) -> bool:
        if not pod.spec.scheduling_gates:
            return False
        self._plan.explain.append((pod, GATED, "Scheduling is blocked due to non-empty scheduling gates"))
        return True

    def _place(self, pod: Pod) -> str:
        """Give the pod the best node there is; returns why there is none."""
        if not self._fleet.seats:
            return "no nodes available to schedule pods"
        if problem := self._missing_claim(pod):
            return f"0/{len(self._fleet.seats)} nodes are available: {problem}. not found"
        shape = _shape(pod)
        if shape in self._failed:
            return self._failed[shape]
        candidate = Candidate(pod, self._fleet)
        refusals = [candidate.refusals(seat) for seat in self._fleet.seats]
        fitting = [seat for seat, reasons in zip(self._fleet.seats, refusals, strict=True) if not reasons]
        if not fitting:
            problem = explain(refusals, pod)
            # Whoever wants company may find it later in the pass.
            if not pod.spec.affinity.pod_affinity.required and not pod.spec.topology_spread_constraints:
                self._failed[shape] = problem
            return problem
        node = scoring.best(candidate, fitting).name
        self._fleet.place(pod, node)
        self._plan.bind.append((pod, node))
        return ""

    def _missing_claim(self, pod: Pod) -> str:
        for volume in pod.spec.volumes:
            source = volume.persistent_volume_claim
            if source and pod.metadata.key._replace(name=source.claim_name) not in self._cluster.claims:
                return f'persistentvolumeclaim "{source.claim_name}" not found'
        return ""


def _turn(pod: Pod) -> tuple[int, float, str, str]:
    created = pod.metadata.creation_timestamp
    return -pod.spec.priority, created.timestamp() if created else 0.0, pod.metadata.namespace, pod.metadata.name


def _shape(pod: Pod) -> Hashable:
    """All of a pod that decides where it fits."""
    spec = pod.spec
    requests = tuple(
        (tuple(c.resources.limits.items()), tuple(c.resources.requests.items()), c.restart_policy, c.ports)
        for part in (spec.containers, spec.init_containers)
        for c in part
    )
    return (
        pod.metadata.namespace,
        tuple(sorted(pod.metadata.labels.items())),
        requests,
        len(spec.containers),
        tuple(spec.overhead.items()),
        tuple(spec.node_selector.items()),
        repr(spec.affinity),
        spec.tolerations,
        repr(spec.topology_spread_constraints),
        spec.preemption_policy,
    )
