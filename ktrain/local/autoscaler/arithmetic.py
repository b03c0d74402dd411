"""
How many replicas the load of the pods calls for. Pure; amounts are thousandths of a core.

The rule is Kubernetes': as many replicas as pods were measured, times the ratio of what they use to what they should
use, rounded up; nothing changes while that ratio is within the tolerance around 1. A pod of which nothing is known must
not cause a change: it counts as idle where the others call for more replicas, and as busy where they call for fewer.

See https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_TOLERANCE: Final = Fraction(1, 10)
_BUSY_PERCENT: Final = 100


class Unmeasured(Exception):
    """A metric cannot be computed; `reason` is that of a condition, the message is a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Load:
    """One pod that is to be counted."""

    name: str
    used: int | None
    """CPU that the pod uses; None: not known, or the pod is not ready."""
    requested: int | None
    """CPU that its containers request together; None: one of them requests none."""


@dataclass(frozen=True, slots=True)
class Target:
    """The use that pods should have on average: `percent` of what they request, or an `amount` each."""

    percent: int | None = None
    amount: int | None = None


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far the ratio may be from 1 without a change."""

    up: Fraction = DEFAULT_TOLERANCE
    down: Fraction = DEFAULT_TOLERANCE

    def includes(self, ratio: Fraction) -> bool:
        """Whether a ratio calls for no change."""
        return 1 - self.down <= ratio <= 1 + self.up


@dataclass(frozen=True, slots=True)
class Recommendation:
    """How many replicas there should be, and what was measured."""

    replicas: int
    average: int
    """CPU that the measured pods use on average, in thousandths of a core."""
    percent: int | None = None
    """The same as a share of their requests, where the target is one."""


def recommend(current: int, loads: Sequence[Load], target: Target, tolerance: Tolerance) -> Recommendation:
    """
    Return how many replicas the pods' load calls for; *current* where it calls for no change.

    Raises:
        Unmeasured: No pod was measured, or the target is a share and a pod has no requests.
    """
    known = [load for load in loads if load.used is not None]
    if not known:
        message = (
            "no pod of the target has been measured: pods must be ready, and their use is known at the second look"
        )
        raise Unmeasured("FailedGetResourceMetric", message)
    ratio = _ratio(known, target)
    average = sum(load.used or 0 for load in known) // len(known)
    percent = _percent(known) if target.percent is not None else None
    return Recommendation(_replicas(current, loads, known, target, tolerance, ratio), average, percent)


def _replicas(
    current: int, loads: Sequence[Load], known: Sequence[Load], target: Target, tolerance: Tolerance, ratio: Fraction
) -> int:
    if len(known) == len(loads):
        return current if tolerance.includes(ratio) else math.ceil(ratio * len(known))
    if ratio == 1:
        return current
    filled = [load if load.used is not None else _assumed(load, target, ratio) for load in loads]
    cautious = _ratio(filled, target)
    if tolerance.includes(cautious) or (ratio > 1) != (cautious > 1):
        return current
    replicas = math.ceil(cautious * len(filled))
    return max(replicas, current) if cautious > 1 else min(replicas, current)


def _assumed(load: Load, target: Target, ratio: Fraction) -> Load:
    """Return the pod with the use that speaks against a change."""
    if ratio > 1:
        used = 0
    elif target.percent is not None:
        used = (load.requested or 0) * max(_BUSY_PERCENT, target.percent) // _BUSY_PERCENT
    else:
        used = target.amount or 0
    return Load(load.name, used, load.requested)


def _ratio(loads: Sequence[Load], target: Target) -> Fraction:
    if target.percent is not None:
        return Fraction(_percent(loads), target.percent)
    return Fraction(sum(load.used or 0 for load in loads) // len(loads), target.amount or 1)


def _percent(loads: Sequence[Load]) -> int:
    requested = 0
    for load in loads:
        if not load.requested:
            message = f"a container of pod {load.name} requests no cpu: give every container a request"
            raise Unmeasured("FailedGetResourceMetric", message)
        requested += load.requested
    return sum(load.used or 0 for load in loads) * _BUSY_PERCENT // requested
