"""
Whether a pod fits a node, in the order and the words of kube-scheduler: the first rule that says no gives the reason.

`Reason.hopeless` is what upstream calls unresolvable: no pod that went away would help.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from .selecting import Term, Together, read_selector, tolerates, wants_node

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .fleet import Fleet, Seat
    from .objects import Pod, Spread

_CORDON = "node.kubernetes.io/unschedulable"


class Reason(NamedTuple):
    """Why a node will not do."""

    text: str
    hopeless: bool = True


class Candidate:
    """A pod that looks for a node: what holds for all nodes alike is worked out once."""

    def __init__(self, pod: Pod, fleet: Fleet) -> None:
        self.pod = pod
        self.fleet = fleet
        self.requests = fleet.requests(pod)
        self.ports = [port for container in pod.spec.containers for port in container.ports if port.host_port]
        affinity = pod.spec.affinity
        near = tuple(fleet.terms(pod, affinity.pod_affinity.required))
        self._near = [Together(term.key, near) for term in near]
        self._far = fleet.terms(pod, affinity.pod_anti_affinity.required)
        self._shunning = fleet.shunning(pod)
        self._spreads = [
            _Spreading(spread, self)
            for spread in pod.spec.topology_spread_constraints
            if spread.when_unsatisfiable == "DoNotSchedule"
        ]

    def refusals(self, seat: Seat) -> list[Reason]:
        """Return why the pod cannot be on this node, as the first rule that refuses says; empty if it can."""
        return (
            self._refused_by_node(seat)
            or self._refused_by_ports(seat)
            or list(self._shortages(seat))
            or self._refused_by_spread(seat)
            or self._refused_by_pods(seat)
        )

    def _refused_by_node(self, seat: Seat) -> list[Reason]:
        spec = seat.node.spec
        if spec.unschedulable and not _tolerates_cordon(self.pod):
            return [Reason("node(s) were unschedulable")]
        if spec.taints and not tolerates(self.pod, spec.taints, "NoSchedule", "NoExecute"):
            return [Reason("node(s) had untolerated taint(s)")]
        if not wants_node(self.pod, seat.node):
            return [Reason("node(s) didn't match Pod's node affinity/selector")]
        return []

    def _refused_by_ports(self, seat: Seat) -> list[Reason]:
        if any(seat.has_port(port) for port in self.ports):
            return [Reason("node(s) didn't have free ports for the requested pod ports", hopeless=False)]
        return []

    def _shortages(self, seat: Seat) -> Iterator[Reason]:
        if len(seat.pods) * 1000 >= seat.allocatable.get("pods", 0):
            yield Reason("Too many pods", hopeless=False)
        for name, amount in self.requests.items():
            if amount > seat.free.get(name, 0) and name not in seat.uncounted:
                yield Reason(f"Insufficient {name}", hopeless=amount > seat.allocatable.get(name, 0))

    def _refused_by_spread(self, seat: Seat) -> list[Reason]:
        found = (spread.refusal(seat) for spread in self._spreads)
        return next(([reason] for reason in found if reason is not None), [])

    def _refused_by_pods(self, seat: Seat) -> list[Reason]:
        if self._near and not self._is_near(seat):
            return [Reason("node(s) didn't match pod affinity rules")]
        if any(self.fleet.meant(term)[seat.labels.get(term.key, "")] for term in self._far if term.key in seat.labels):
            return [Reason("node(s) didn't match pod anti-affinity rules", hopeless=False)]
        if any(key in seat.labels and seat.labels[key] in values for key, values in self._shunning):
            return [Reason("node(s) didn't satisfy existing pods anti-affinity rules", hopeless=False)]
        return []

    def _is_near(self, seat: Seat) -> bool:
        if any(term.key not in seat.labels for term in self._near):
            return False
        if all(self.fleet.meant(term)[seat.labels[term.key]] for term in self._near):
            return True
        # The first of pods that want each other near has nobody to be near to.
        is_first = not any(sum(self.fleet.meant(term).values()) for term in self._near)
        return is_first and all(term.matches(self.pod) for term in self._near)


class _Spreading:
    """One hard topology spread constraint, counted over the nodes that take part."""

    def __init__(self, spread: Spread, candidate: Candidate) -> None:
        pod = candidate.pod
        selector = read_selector(bytes(spread.label_selector))
        self._spread = spread
        self._term = Term(spread.topology_key, selector, frozenset((pod.metadata.namespace,)))
        self._labels = {key: pod.metadata.labels.get(key) for key in spread.match_label_keys}
        self._counts: Counter[str] = Counter()
        for seat in candidate.fleet.seats:
            if self._takes_part(pod, seat):
                self._counts[seat.labels[spread.topology_key]] += sum(map(self._means, seat.pods.values()))
        self._own = int(self._means(pod))
        too_few = len(self._counts) < spread.min_domains
        self._least = 0 if too_few else min(self._counts.values(), default=0)

    def refusal(self, seat: Seat) -> Reason | None:
        """Say why the pod would make the topology of this node too full."""
        text = "node(s) didn't match pod topology spread constraints"
        value = seat.labels.get(self._spread.topology_key)
        if value is None:
            return Reason(f"{text} (missing required label)")
        is_too_full = self._counts[value] + self._own - self._least > self._spread.max_skew
        return Reason(text, hopeless=False) if is_too_full else None

    def _takes_part(self, pod: Pod, seat: Seat) -> bool:
        if any(entry.topology_key not in seat.labels for entry in pod.spec.topology_spread_constraints):
            return False
        if self._spread.node_affinity_policy == "Honor" and not wants_node(pod, seat.node):
            return False
        honours_taints = self._spread.node_taints_policy == "Honor"
        return not honours_taints or tolerates(pod, seat.node.spec.taints, "NoSchedule", "NoExecute")

    def _means(self, pod: Pod) -> bool:
        labels = pod.metadata.labels
        return (
            pod.metadata.deletion_timestamp is None
            and self._term.matches(pod)
            and all(labels.get(key) == value for key, value in self._labels.items())
        )


def _tolerates_cordon(pod: Pod) -> bool:
    return any(
        t.effect in ("", "NoSchedule") and t.operator == "Exists" and t.key in ("", _CORDON)
        for t in pod.spec.tolerations
    )


def summary(refusals: Sequence[Sequence[Reason]]) -> str:
    """Write down why no node would do, one list of reasons for each node. At least one node."""
    counts = Counter(reason.text for reasons in refusals for reason in reasons)
    why = ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
    return f"0/{len(refusals)} nodes are available: {why}"
