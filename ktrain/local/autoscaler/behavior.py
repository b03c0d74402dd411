"""
What `spec.behavior` makes of a recommendation: stabilization windows first, then the policies. Pure.

Within a window the recommendation that changes least counts: the lowest before replicas are added, the highest before
they are removed. A policy bounds the change within its period, of which the changes that were made are known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .types import Behavior, ScalingPolicy, ScalingRules

DOWN_WINDOW_S: Final = 300
LONGEST: Final = timedelta(hours=1)
"""Windows and periods are no longer (validation of autoscaling/v2)."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A recommendation, or the number of replicas that a change added (or removed: negative)."""

    at: datetime
    replicas: int


@dataclass(frozen=True, slots=True)
class History:
    """Recommendations and changes of one autoscaler in the last hour. It is kept in memory: a restart forgets it."""

    recommendations: tuple[Moment, ...] = ()
    changes: tuple[Moment, ...] = ()

    def recommended(self, now: datetime, replicas: int) -> History:
        """Return the history with a further recommendation."""
        return History((*_recent(self.recommendations, now, LONGEST), Moment(now, replicas)), self.changes)

    def changed(self, now: datetime, by: int) -> History:
        """Return the history with a change that was made."""
        return History(self.recommendations, (*_recent(self.changes, now, LONGEST), Moment(now, by)))


def stabilized(current: int, history: History, behavior: Behavior, now: datetime) -> int:
    """Return the replicas that the recommendations of the windows agree on; the last one is the present one."""
    wanted = history.recommendations[-1].replicas

    def within(rules: ScalingRules, default_s: int) -> list[int]:
        window = rules.stabilization_window_seconds
        width = timedelta(seconds=default_s if window is None else window)
        return [wanted, *(moment.replicas for moment in _recent(history.recommendations, now, width))]

    lowest, highest = min(within(behavior.scale_up, 0)), max(within(behavior.scale_down, DOWN_WINDOW_S))
    return min(max(current, lowest), highest)


def limited(current: int, wanted: int, history: History, behavior: Behavior, now: datetime) -> int:
    """Return the replicas that the policies allow."""
    if wanted > current:
        return min(wanted, _ceiling(current, history, behavior.scale_up, now))
    if wanted < current:
        return max(wanted, _floor(current, history, behavior.scale_down, now))
    return wanted


def _ceiling(current: int, history: History, rules: ScalingRules, now: datetime) -> int:
    if rules.select_policy == "Disabled":
        return current
    choose = min if rules.select_policy == "Min" else max
    limits = [_grown(policy, _before(current, history, policy, now)) for policy in rules.policies]
    return max(current, choose(limits, default=current))


def _floor(current: int, history: History, rules: ScalingRules, now: datetime) -> int:
    if rules.select_policy == "Disabled":
        return current
    choose = max if rules.select_policy == "Min" else min
    limits = [_shrunk(policy, _before(current, history, policy, now)) for policy in rules.policies]
    return min(current, choose(limits, default=current))


def _before(current: int, history: History, policy: ScalingPolicy, now: datetime) -> int:
    """Return how many replicas there were when the policy's period began."""
    period = timedelta(seconds=policy.period_seconds)
    return current - sum(change.replicas for change in _recent(history.changes, now, period))


def _grown(policy: ScalingPolicy, before: int) -> int:
    return before + policy.value if policy.type == "Pods" else math.ceil(before * (100 + policy.value) / 100)


def _shrunk(policy: ScalingPolicy, before: int) -> int:
    return before - policy.value if policy.type == "Pods" else before * (100 - policy.value) // 100


def _recent(moments: Iterable[Moment], now: datetime, width: timedelta) -> list[Moment]:
    return [moment for moment in moments if moment.at > now - width]
