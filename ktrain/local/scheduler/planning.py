"""
One pass as a pure function: all pods, nodes and groups → who goes where, who has to go, and why the rest waits.

Pods take their turn by priority, then those a place is kept for, then age. A pod that fits nowhere may have less
important ones evicted (`preempting.py`); the place is kept for it from then on, and it tries that one first. A gang
takes its turn with its first pod: its pods are placed one after the other, where that is not enough they make room
together, and if still too few have a place all is taken back, so that another may have it. Pods of one shape fail
alike, so for each shape the nodes are asked once: what is full does not get emptier within a pass, unless a gang is
taken back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from . import scoring
from .filtering import Candidate, Reason, summary
from .fleet import Fleet
from .gangs import Gang, GroupName, gather
from .preempting import NEVER, STOPPING, Preemption

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from ktrain.api.meta import Key

    from .fleet import Seat
    from .objects import Budget, Node, Pod, PodGroup

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
    budgets: Sequence[Budget] = ()
    awaited: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Whom pods wait for that had others evicted, all by UID, as told by passes before."""


class Waiting(NamedTuple):
    """A pod that waits: reason and message of its condition."""

    pod: Pod
    reason: str
    message: str
    node: str | None = None
    """The node that is kept for it; empty: none any more; None: as before."""
    victims: frozenset[str] = frozenset()
    """Who is evicted for it, by UID."""


class Eviction(NamedTuple):
    """A pod that has to go, for whom, and on which node."""

    victim: Pod
    pod: Pod
    node: str


@dataclass(slots=True)
class Plan:
    """What is to be done."""

    bind: list[tuple[Pod, str]] = field(default_factory=list)
    """Pods and their nodes, in the order of their turns."""
    explain: list[Waiting] = field(default_factory=list)
    evict: list[Eviction] = field(default_factory=list)
    gangs: list[tuple[Gang, str]] = field(default_factory=list)
    """Gangs that had a turn, and why they did not start; empty if they did."""


class _Refused(NamedTuple):
    """Why a pod fits nowhere, and for each node; without nodes nobody could make room."""

    text: str
    refusals: Sequence[Sequence[Reason]] = ()


class _Mark(NamedTuple):
    """A state of a pass that it can go back to."""

    bound: int
    kept: int
    evicted: int
    lost: Mapping[str, int]


def make_plan(cluster: Cluster) -> Plan:
    """Decide one pass."""
    return _Pass(cluster).run()


class _Pass:
    """The state of one pass."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._plan = Plan()
        self._fleet = Fleet(cluster.nodes, cluster.namespaces)
        self._uids = {pod.metadata.uid for pod in cluster.pods}
        self._gangs = gather(cluster.pods, cluster.groups)
        self._gang_of = {pod.metadata.uid: gang for gang in self._gangs.values() for pod in gang.members}
        self._failed: dict[Hashable, _Refused] = {}
        # Shape, priority and gang of pods that nobody can make room for -> why.
        self._in_vain: dict[Hashable, str] = {}
        # Pods whose places are kept until somebody has gone.
        self._kept: list[tuple[Pod, str]] = []
        # Nodes where somebody was evicted -> for what priority. What was kept there for less is lost.
        self._lost: dict[str, int] = {}

    def run(self) -> Plan:
        there = [pod for pod in self._cluster.pods if pod.spec.node_name and not pod.is_over]
        for pod in there:
            self._fleet.place(pod, pod.spec.node_name)
        self._preemption = Preemption(there, self._fleet, self._cluster.budgets, self._gang_of)
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
        if not self._is_gated(pod) and (refused := self._place(pod)):
            self._explain(self._make_room(pod, refused))

    def _try_gang(self, gang: Gang) -> None:
        waiting = [pod for pod in sorted(filter(self._is_ours, gang.members), key=_turn) if not self._is_gated(pod)]
        obstacle = gang.obstacle()
        if obstacle:
            self._plan.explain += [Waiting(pod, UNSCHEDULABLE, obstacle) for pod in waiting]
            return
        mark = self._mark()
        refused = [(pod, no) for pod in waiting if (no := self._place(pod))]
        have = gang.started - self._robbed(gang) + len(waiting) - len(refused)
        answers = [self._make_room(pod, no) for pod, no in refused]
        if have >= gang.least:
            if any(answer.node for answer in answers):
                self._preemption.spare(gang)
            for answer in answers:
                self._explain(answer)
        else:
            self._hold_back(gang, answers, have, mark)
        if waiting:
            self._plan.gangs.append((gang, "" if have >= gang.least else UNPLACED))

    def _hold_back(self, gang: Gang, answers: list[Waiting], have: int, mark: _Mark) -> None:
        """Let a gang wait until its victims have gone, or, if they would go in vain, without any."""
        placed = self._plan.bind[mark.bound :]
        is_promised = have + sum(bool(answer.node) for answer in answers) >= gang.least
        if is_promised:
            del self._plan.bind[mark.bound :]
            self._kept += placed
            self._preemption.spare(gang)
        else:
            self._go_back(mark)
            answers = [answer._replace(node="", victims=frozenset()) for answer in answers]
        together = f"{UNPLACED}, waiting for minCount pods from a gang to be scheduled"
        message = f"{together}: {have} fit, {gang.least} are needed"
        for pod, node in placed:
            self._explain(Waiting(pod, UNSCHEDULABLE, message, node if is_promised else ""))
        for answer in answers:
            self._explain(answer)

    def _robbed(self, gang: Gang) -> int:
        """How many that have started are evicted in this pass, for others whose turn came first."""
        going = {eviction.victim.metadata.uid for eviction in self._plan.evict}
        return sum(pod.metadata.uid in going for pod in gang.members)

    def _mark(self) -> _Mark:
        return _Mark(len(self._plan.bind), len(self._kept), len(self._plan.evict), dict(self._lost))

    def _go_back(self, mark: _Mark) -> None:
        for pod, _ in (*self._plan.bind[mark.bound :], *self._kept[mark.kept :]):
            self._fleet.remove(pod)
        del self._plan.bind[mark.bound :], self._kept[mark.kept :], self._plan.evict[mark.evicted :]
        self._lost = dict(mark.lost)
        self._failed.clear()
        self._in_vain.clear()

    def _is_gated(self, pod: Pod) -> bool:
        if not pod.spec.scheduling_gates:
            return False
        text = "Scheduling is blocked due to non-empty scheduling gates"
        self._plan.explain.append(Waiting(pod, GATED, text))
        return True

    def _place(self, pod: Pod) -> _Refused | None:
        """Give the pod the best node there is, or say why there is none."""
        if not self._fleet.seats:
            return _Refused("no nodes available to schedule pods")
        if problem := self._missing_claim(pod):
            return _Refused(f"0/{len(self._fleet.seats)} nodes are available: {problem}. not found")
        nominated = self._nominated(pod)
        shape = _shape(pod)
        if nominated is None and shape in self._failed:
            return self._failed[shape]
        candidate = Candidate(pod, self._fleet)
        if nominated is not None and not candidate.refusals(nominated):
            seat = nominated
        else:
            refusals = self._ask(candidate)
            fitting = [seat for seat, reasons in zip(self._fleet.seats, refusals, strict=True) if not reasons]
            if not fitting:
                refused = _Refused(f"{summary(refusals)}.", refusals)
                # Whoever wants company may find it later in the pass.
                if not pod.spec.affinity.pod_affinity.required and not pod.spec.topology_spread_constraints:
                    self._failed[shape] = refused
                return refused
            seat = scoring.best(candidate, fitting)
        self._fleet.place(pod, seat.name)
        self._plan.bind.append((pod, seat.name))
        return None

    def _ask(self, candidate: Candidate) -> list[list[Reason]]:
        """Ask all nodes; whoever wants company wants it of pods that are there, too, not only of those to come."""
        refusals = [candidate.refusals(seat) for seat in self._fleet.seats]
        if self._kept and candidate.pod.spec.affinity.pod_affinity.required:
            for pod, _ in self._kept:
                self._fleet.remove(pod)
            alone = Candidate(candidate.pod, self._fleet)
            refusals = [found or alone.refusals(s) for found, s in zip(refusals, self._fleet.seats, strict=True)]
            for pod, node in self._kept:
                self._fleet.place(pod, node)
        return refusals

    def _nominated(self, pod: Pod) -> Seat | None:
        """Return the node that is kept for the pod since a pass before, unless another has taken it in this one."""
        seat = self._fleet.seat(pod.status.nominated_node_name)
        if seat is not None and self._lost.get(seat.name, pod.spec.priority) > pod.spec.priority:
            return None
        return seat

    def _make_room(self, pod: Pod, refused: _Refused) -> Waiting:
        """Find out who could go for a pod that fits nowhere; its place is kept then."""
        if not refused.refusals:
            return Waiting(pod, UNSCHEDULABLE, refused.text)
        if pod.spec.preemption_policy == "Never":
            return _unhelped(pod, refused, NEVER)
        seat = self._nominated(pod)
        if seat is not None and self._is_awaited(pod, seat, refused):
            self._keep(pod, seat)
            victims = self._cluster.awaited.get(pod.metadata.uid, frozenset())
            return _unhelped(pod, refused, STOPPING)._replace(node=seat.name, victims=victims)
        gang = self._gang_of.get(pod.metadata.uid)
        shape = _shape(pod), pod.spec.priority, gang and gang.name
        if shape in self._in_vain:
            return _unhelped(pod, refused, self._in_vain[shape])._replace(node="")
        room = self._preemption.make_room(pod, refused.refusals)
        if isinstance(room, str):
            self._in_vain[shape] = room
            return _unhelped(pod, refused, room)._replace(node="")
        self._keep(pod, room.seat)
        going = {eviction.victim.metadata.uid for eviction in self._plan.evict}
        evictions = [
            Eviction(victim, pod, room.seat.name)
            for victim in room.victims
            if victim.metadata.deletion_timestamp is None and victim.metadata.uid not in going
        ]
        if evictions:
            self._plan.evict += evictions
            self._lost[room.seat.name] = max(pod.spec.priority, self._lost.get(room.seat.name, pod.spec.priority))
        victims = frozenset(victim.metadata.uid for victim in room.victims)
        return Waiting(pod, UNSCHEDULABLE, refused.text, room.seat.name, victims)

    def _is_awaited(self, pod: Pod, seat: Seat, refused: _Refused) -> bool:
        reasons = refused.refusals[self._fleet.seats.index(seat)]
        return not any(reason.hopeless for reason in reasons) and self._preemption.is_awaited(pod, seat)

    def _keep(self, pod: Pod, seat: Seat) -> None:
        self._fleet.place(pod, seat.name)
        self._kept.append((pod, seat.name))

    def _explain(self, waiting: Waiting) -> None:
        """Say why a pod waits; one that had others evicted is not tried again before one of them has gone."""
        awaited = self._cluster.awaited.get(waiting.pod.metadata.uid)
        if not (awaited and waiting.victims == awaited and awaited <= self._uids):
            self._plan.explain.append(waiting)

    def _missing_claim(self, pod: Pod) -> str:
        for volume in pod.spec.volumes:
            source = volume.persistent_volume_claim
            if source and pod.metadata.key._replace(name=source.claim_name) not in self._cluster.claims:
                return f'persistentvolumeclaim "{source.claim_name}" not found'
        return ""


def _unhelped(pod: Pod, refused: _Refused, why: str) -> Waiting:
    """Say why nobody goes for a pod. Before victims upstream looks for claims to devices, which nobody has here."""
    message = f"{refused.text} no new claims to deallocate, preemption: {why}"
    return Waiting(pod, UNSCHEDULABLE, message)


def _turn(pod: Pod) -> tuple[int, bool, float, str, str]:
    created = pod.metadata.creation_timestamp
    age = created.timestamp() if created else 0.0
    # First those a place is kept for: nobody else of their importance may have it, or somebody went in vain.
    return -pod.spec.priority, not pod.status.nominated_node_name, age, pod.metadata.namespace, pod.metadata.name


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
