"""One reconcile of an autoscaler as a pure function: which size the target gets, and what the status says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.api.meta import format_time
from ktrain.framework.helpers.conditions import set_condition

from .arithmetic import DEFAULT_TOLERANCE, Load, Recommendation, Target, Tolerance, Unmeasured, recommend
from .behavior import History, limited, stabilized

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ktrain.api.meta import Json

    from .types import Autoscaler, Metric, ScalingRules

ABLE: Final = "AbleToScale"
ACTIVE: Final = "ScalingActive"
LIMITED: Final = "ScalingLimited"
_CPU: Final = "cpu"


@dataclass(frozen=True, slots=True)
class Observed:
    """The input of a decision."""

    autoscaler: Autoscaler
    wanted: int
    """`spec.replicas` of the target's scale."""
    present: int
    """`status.replicas` of the target's scale."""
    loads: Sequence[Load]
    history: History


@dataclass(frozen=True, slots=True)
class Decision:
    """The writes of one reconcile."""

    replicas: int | None
    """The target's new size; None: it stays as it is."""
    status: Json
    history: History
    reason: str = ""
    """Why the size changes, for an event."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """A size, and why."""

    replicas: int
    conditions: list[Json]
    metrics: list[Json]
    history: History
    reason: str = ""


def decide(observed: Observed, now: datetime) -> Decision:
    """Return the size and the status."""
    autoscaler, spec = observed.autoscaler, observed.autoscaler.spec
    conditions = set_condition(
        autoscaler.status.conditions or [],
        ABLE,
        status=True,
        reason="SucceededGetScale",
        message="the target's scale was read",
        now=now,
    )
    if observed.wanted == 0:
        message = "the target has been scaled to zero, where an autoscaler leaves it"
        verdict = _stay(observed, _set(conditions, ACTIVE, "ScalingDisabled", message, now, status=False))
    elif not spec.min_replicas <= observed.wanted <= spec.max_replicas:
        bound = min(max(observed.wanted, spec.min_replicas), spec.max_replicas)
        verdict = _Verdict(bound, conditions, [], observed.history, "it was outside of minReplicas and maxReplicas")
    else:
        verdict = _by_metrics(observed, conditions, now)
    return _decision(observed, verdict, now)


def unreadable(autoscaler: Autoscaler, reason: str, message: str, now: datetime) -> Json:
    """Return the status where the target's scale cannot be read or written, or its pods cannot be found."""
    status = autoscaler.status
    conditions = _set(status.conditions or [], ABLE, reason, message, now, status=False)
    return _status(autoscaler, status.current_replicas, status.desired_replicas, [], conditions, None)


def _by_metrics(observed: Observed, conditions: list[Json], now: datetime) -> _Verdict:
    """Take the metric that calls for most. One that is not known may not let the size shrink."""
    spec, current = observed.autoscaler.spec, observed.wanted
    found: list[tuple[Metric, Recommendation]] = []
    failures: list[Unmeasured] = []
    for metric in spec.metrics:
        try:
            target, tolerance = _target(metric), _tolerance(spec.behavior.scale_up, spec.behavior.scale_down)
            found.append((metric, recommend(current, observed.loads, target, tolerance)))
        except Unmeasured as failure:
            failures.append(failure)
    metrics = [_current(metric, measured) for metric, measured in found]
    raw = max((measured.replicas for _, measured in found), default=None)
    if raw is None or (failures and raw < current):
        message = "; ".join(str(failure) for failure in failures) or "there are no metrics"
        reason = failures[0].reason if failures else "InvalidMetricSourceType"
        return _stay(observed, _set(conditions, ACTIVE, reason, message, now, status=False), metrics)
    ignored = "".join(f"; not counted: {failure}" for failure in failures)
    message = f"a size was computed from the use of {_CPU}{ignored}"
    conditions = _set(conditions, ACTIVE, "ValidMetricFound", message, now, status=True)
    return _bounded(observed, raw, conditions, metrics, now)


def _bounded(observed: Observed, raw: int, conditions: list[Json], metrics: list[Json], now: datetime) -> _Verdict:
    """Apply windows, bounds and policies, and say which of them counted."""
    spec, current = observed.autoscaler.spec, observed.wanted
    history = observed.history.recommended(now, raw)
    steady = stabilized(current, history, spec.behavior, now)
    if steady != raw:
        word = "ScaleDownStabilized" if steady > raw else "ScaleUpStabilized"
        message = f"{raw} replicas were computed, and recommendations of the stabilization window are kept"
        conditions = _set(conditions, ABLE, word, message, now, status=True)
    else:
        message = "nothing keeps the size from changing"
        conditions = _set(conditions, ABLE, "ReadyForNewScale", message, now, status=True)
    within = min(max(steady, spec.min_replicas), spec.max_replicas)
    replicas = limited(current, within, history, spec.behavior, now)
    reasons = [
        (within < steady, "TooManyReplicas", f"the load calls for {steady} replicas, more than maxReplicas"),
        (within > steady, "TooFewReplicas", f"the load calls for {steady} replicas, fewer than minReplicas"),
        (replicas < within, "ScaleUpLimit", "the policies of behavior.scaleUp allow no more for now"),
        (replicas > within, "ScaleDownLimit", "the policies of behavior.scaleDown allow no fewer for now"),
    ]
    reason, message = next(
        ((word, text) for applies, word, text in reversed(reasons) if applies),
        ("DesiredWithinRange", "the size is within the bounds"),
    )
    conditions = _set(conditions, LIMITED, reason, message, now, status=reason != "DesiredWithinRange")
    side = "above" if replicas > current else "below"
    return _Verdict(replicas, conditions, metrics, history, f"the use of {_CPU} is {side} its target")


def _stay(observed: Observed, conditions: list[Json], metrics: list[Json] | None = None) -> _Verdict:
    return _Verdict(observed.wanted, conditions, metrics or [], observed.history)


def _decision(observed: Observed, verdict: _Verdict, now: datetime) -> Decision:
    autoscaler, change = observed.autoscaler, verdict.replicas - observed.wanted
    conditions, history, last = verdict.conditions, verdict.history, None
    if change:
        message = f"the target is to have {verdict.replicas} replicas"
        conditions = _set(conditions, ABLE, "SucceededRescale", message, now, status=True)
        history, last = history.changed(now, change), now
    status = _status(autoscaler, observed.present, verdict.replicas, verdict.metrics, conditions, last)
    return Decision(verdict.replicas if change else None, status, history, verdict.reason)


def _set(conditions: list[Json], kind: str, reason: str, message: str, now: datetime, *, status: bool) -> list[Json]:
    return set_condition(conditions, kind, status=status, reason=reason, message=message, now=now)


def _status(
    autoscaler: Autoscaler,
    present: int,
    wanted: int,
    metrics: list[Json],
    conditions: list[Json],
    scaled: datetime | None,
) -> Json:
    scaled = scaled or autoscaler.status.last_scale_time
    status: Json = {"currentReplicas": present, "desiredReplicas": wanted, "currentMetrics": metrics or None}
    return status | {"conditions": conditions} | ({"lastScaleTime": format_time(scaled)} if scaled else {})


def _target(metric: Metric) -> Target:
    if metric.type != "Resource" or metric.resource.name != _CPU:
        what = f"Resource {metric.resource.name}" if metric.type == "Resource" else metric.type
        message = f"metric {what} is not known here: the embedded control plane measures Resource {_CPU} only"
        raise Unmeasured("InvalidMetricSourceType", message)
    target = metric.resource.target
    if target.average_value is not None:
        return Target(amount=max(1, math.ceil(quantity.parse(target.average_value) * 1000)))
    return Target(percent=target.average_utilization)


def _tolerance(up: ScalingRules, down: ScalingRules) -> Tolerance:
    said = (DEFAULT_TOLERANCE if rules.tolerance is None else quantity.parse(rules.tolerance) for rules in (up, down))
    return Tolerance(*said)


def _current(metric: Metric, measured: Recommendation) -> Json:
    current: Json = {"averageValue": f"{measured.average}m"}
    if measured.percent is not None:
        current["averageUtilization"] = measured.percent
    return {"type": metric.type, "resource": {"name": metric.resource.name, "current": current}}
