"""
Which of the nodes that fit: kube-scheduler's scores with their default weights, as far as they concern us.

Emptier nodes first, in whole percents as upstream, then what the pod prefers: nodes without taints to be avoided (3),
nodes (2) and pods near or far (2). Among equals the first by name, so that the same cluster always gives the same
answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .fleet import USUAL
from .selecting import matches_term, tolerates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .filtering import Candidate
    from .fleet import Seat

_MAX: Final = 100.0


def best(candidate: Candidate, seats: Sequence[Seat]) -> Seat:
    """Return the best of the nodes, of which there is at least one."""
    if len(seats) == 1:
        return seats[0]
    scores = [_emptiness(candidate, seat) for seat in seats]
    affinity = candidate.pod.spec.affinity
    if any(seat.node.spec.taints for seat in seats):
        _add(scores, 3.0, [-_avoided(candidate, seat) for seat in seats])
    if affinity.node_affinity.preferred:
        _add(scores, 2.0, [_liked(candidate, seat) for seat in seats])
    if affinity.pod_affinity.preferred or affinity.pod_anti_affinity.preferred:
        _add(scores, 2.0, [_company(candidate, seat) for seat in seats])
    return seats[scores.index(max(scores))]


def _emptiness(candidate: Candidate, seat: Seat) -> float:
    total, parts = 0, 0
    for name, usual in USUAL.items():
        capacity = seat.allocatable.get(name, 0)
        if capacity:
            left = capacity - seat.load[name] - candidate.requests.get(name, usual)
            total += int(max(left, 0) * _MAX // capacity)
            parts += 1
    return float(total // parts) if parts else 0.0


def _avoided(candidate: Candidate, seat: Seat) -> float:
    return sum(not tolerates(candidate.pod, (taint,), "PreferNoSchedule") for taint in seat.node.spec.taints)


def _liked(candidate: Candidate, seat: Seat) -> float:
    preferred = candidate.pod.spec.affinity.node_affinity.preferred
    return sum(entry.weight for entry in preferred if matches_term(entry.preference, seat.node))


def _company(candidate: Candidate, seat: Seat) -> float:
    affinity, fleet, pod = candidate.pod.spec.affinity, candidate.fleet, candidate.pod
    total = 0.0
    for sign, entries in ((1, affinity.pod_affinity.preferred), (-1, affinity.pod_anti_affinity.preferred)):
        terms = fleet.terms(pod, [entry.pod_affinity_term for entry in entries])
        for entry, term in zip(entries, terms, strict=True):
            if term.key in seat.labels:
                total += sign * entry.weight * fleet.meant(term)[seat.labels[term.key]]
    return total


def _add(scores: list[float], weight: float, more: list[float]) -> None:
    """Add scores of another kind, stretched to the same range."""
    low, high = min(more), max(more)
    if high > low:
        for number, score in enumerate(more):
            scores[number] += weight * (score - low) / (high - low) * _MAX
