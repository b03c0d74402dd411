"""
The nodes with what is promised of them, during one pass.

Placing a pod and taking it back are exact opposites, so a gang can be tried. Terms between pods are counted once per
term and then kept up with every placement: what a term asks is "how many such pods has this rack", for every node.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from ktrain.local.kubelet.node import ADVISORY

from .resources import Numbers, numbers, requests_of
from .selecting import Term, Together, read_term

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .objects import Node, Pod, PodTerm, Port

USUAL: Final = {"cpu": 100, "memory": 200 * 1024 * 1024 * 1000}
"""What a pod is taken to need that does not say, in thousandths: pods that ask for nothing fill a node, too."""
ANY_ADDRESS: Final = ("", "0.0.0.0")  # noqa: S104 -- compared, not bound


class Seat:
    """One node."""

    __slots__ = ("allocatable", "free", "load", "node", "pods", "ports", "uncounted")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.allocatable: Numbers = numbers(node.status.allocatable)
        self.free: Numbers = dict(self.allocatable)
        self.uncounted = frozenset(filter(None, node.metadata.annotations.get(ADVISORY, "").split(",")))
        self.load: Numbers = dict.fromkeys(USUAL, 0)
        """What its pods are taken to need, those that ask for nothing included."""
        self.pods: dict[str, Pod] = {}
        self.ports: Counter[tuple[int, str, str]] = Counter()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels."""
        return self.node.metadata.labels

    def has_port(self, port: Port) -> bool:
        """Whether a port of the host is taken; every address overlaps with all addresses."""
        return any(
            number == port.host_port
            and protocol == port.protocol
            and (address == port.host_ip or address in ANY_ADDRESS or port.host_ip in ANY_ADDRESS)
            for number, protocol, address in self.ports
        )


class Fleet:
    """All nodes, in order of their names."""

    def __init__(self, nodes: Iterable[Node], namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self.seats: Sequence[Seat] = [Seat(node) for node in sorted(nodes, key=lambda node: node.metadata.name)]
        self.namespaces = namespaces
        self._by_name = {seat.name: seat for seat in self.seats}
        self._placed: dict[str, tuple[Pod, Seat]] = {}
        self._requests: dict[str, Numbers] = {}
        # How many pods that a term means are where, by the value of its topology key.
        self._meant: dict[Term | Together, Counter[str]] = {}
        # How many pods are where that want no pod near that this term means.
        self._shunned: defaultdict[Term, Counter[str]] = defaultdict(Counter)

    def requests(self, pod: Pod) -> Numbers:
        """Return what a pod asks for; counted once."""
        found = self._requests.get(pod.metadata.uid)
        if found is None:
            found = self._requests[pod.metadata.uid] = requests_of(pod)
        return found

    def place(self, pod: Pod, node_name: str) -> None:
        """Promise the pod its place. A node that is not there has no accounts to keep."""
        seat = self._by_name.get(node_name)
        if seat is not None:
            self._placed[pod.metadata.uid] = (pod, seat)
            seat.pods[pod.metadata.uid] = pod
            self._account(pod, seat, 1)

    def holds(self, pod: Pod) -> bool:
        """Whether the pod has a place on one of the nodes."""
        return pod.metadata.uid in self._placed

    def seat(self, node_name: str) -> Seat | None:
        """Return a node, if there is one of this name."""
        return self._by_name.get(node_name)

    def remove(self, pod: Pod) -> None:
        """Take a promise back."""
        _, seat = self._placed.pop(pod.metadata.uid)
        del seat.pods[pod.metadata.uid]
        self._account(pod, seat, -1)

    def terms(self, pod: Pod, terms: Iterable[PodTerm]) -> list[Term]:
        """Resolve terms of a pod."""
        return [read_term(term, pod, self.namespaces) for term in terms]

    def meant(self, term: Term | Together) -> Counter[str]:
        """Count the pods that a term means, by the value of its topology key where they are."""
        found = self._meant.get(term)
        if found is None:
            found = self._meant[term] = Counter()
            for pod, seat in self._placed.values():
                if term.key in seat.labels and term.matches(pod):
                    found[seat.labels[term.key]] += 1
        return found

    def shunning(self, pod: Pod) -> list[tuple[str, frozenset[str]]]:
        """Say where pods are that do not want this one near: topology keys, and their values."""
        return [
            (term.key, frozenset(value for value, count in places.items() if count))
            for term, places in self._shunned.items()
            if term.matches(pod)
        ]

    def _account(self, pod: Pod, seat: Seat, sign: int) -> None:
        requests = self.requests(pod)
        for name, amount in requests.items():
            seat.free[name] = seat.free.get(name, 0) - sign * amount
        for name, usual in USUAL.items():
            seat.load[name] += sign * requests.get(name, usual)
        for container in pod.spec.containers:
            for port in container.ports:
                if port.host_port:
                    key = (port.host_port, port.protocol, port.host_ip)
                    seat.ports[key] += sign
                    if not seat.ports[key]:
                        del seat.ports[key]
        for term, counts in self._meant.items():
            if term.key in seat.labels and term.matches(pod):
                counts[seat.labels[term.key]] += sign
        for term in self.terms(pod, pod.spec.affinity.pod_anti_affinity.required):
            if term.key in seat.labels:
                self._shunned[term][seat.labels[term.key]] += sign
