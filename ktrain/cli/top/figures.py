"""Rates and quantiles between two scrapes of one process, as Prometheus computes them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .samples import RECONCILES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .samples import Scrape

ERRORS: Final = "controller_runtime_reconcile_errors_total"
RECONCILE_TIME: Final = "controller_runtime_reconcile_time_seconds"
ACTIVE: Final = "controller_runtime_active_workers"
WORKERS: Final = "controller_runtime_max_concurrent_reconciles"
DEPTH: Final = "workqueue_depth"
WAIT: Final = "workqueue_queue_duration_seconds"
LONGEST: Final = "workqueue_longest_running_processor_seconds"
PLUGIN_TIME: Final = "ktrain_plugin_call_duration_seconds"
PLUGIN_FAILURES: Final = "ktrain_plugin_call_failures_total"


@dataclass(frozen=True, slots=True)
class ControllerFigures:
    """
    One controller and its workqueue; times in seconds, None if nothing happened between the scrapes.

    Attributes:
        depth: Keys that are ready.
        wait_p99_s: How long keys were ready until a worker took them.
        longest_s: Age of the reconcile that has run longest.
    """

    name: str
    reconciles_per_s: float
    errors_per_s: float
    active: int
    workers: int
    depth: int
    wait_p99_s: float | None
    longest_s: float
    p50_s: float | None
    p99_s: float | None


@dataclass(frozen=True, slots=True)
class PluginFigures:
    """One plugin. `share` is the part of the time that it ran, `failures` counts since the process started."""

    name: str
    calls_per_s: float
    share: float
    failures: int


@dataclass(frozen=True, slots=True)
class Figures:
    """All controllers and plugins of one process."""

    controllers: tuple[ControllerFigures, ...] = ()
    plugins: tuple[PluginFigures, ...] = ()


def figures(before: Scrape, after: Scrape) -> Figures:
    """Compare two scrapes of one process; the older one may be empty, then rates are of its whole life."""
    elapsed_s = max(after.at_s - before.at_s, 1e-9)

    def rate(metric: str, **labels: str) -> float:
        return max(after.total(metric, **labels) - before.total(metric, **labels), 0.0) / elapsed_s

    def between(histogram: str, q: float, **labels: str) -> float | None:
        old = before.buckets(histogram, **labels)
        new = after.buckets(histogram, **labels)
        return quantile(q, {bound: count - old.get(bound, 0.0) for bound, count in new.items()})

    controllers = tuple(
        ControllerFigures(
            name=name,
            reconciles_per_s=rate(RECONCILES, controller=name),
            errors_per_s=rate(ERRORS, controller=name),
            active=int(after.total(ACTIVE, controller=name)),
            workers=int(after.total(WORKERS, controller=name)),
            depth=int(after.total(DEPTH, controller=name)),
            wait_p99_s=between(WAIT, 0.99, controller=name),
            longest_s=after.total(LONGEST, controller=name),
            p50_s=between(RECONCILE_TIME, 0.5, controller=name),
            p99_s=between(RECONCILE_TIME, 0.99, controller=name),
        )
        for name in after.names(RECONCILES, "controller")
    )
    plugins = tuple(
        PluginFigures(
            name=name,
            calls_per_s=rate(f"{PLUGIN_TIME}_count", plugin=name),
            share=rate(f"{PLUGIN_TIME}_sum", plugin=name),
            failures=int(after.total(PLUGIN_FAILURES, plugin=name)),
        )
        for name in after.names(f"{PLUGIN_TIME}_count", "plugin")
    )
    return Figures(controllers, plugins)


def quantile(q: float, cumulative: Mapping[float, float]) -> float | None:
    """
    Estimate a quantile of a histogram as `histogram_quantile` does: linear within a bucket.

    Args:
        q: 0 to 1.
        cumulative: Counts by upper bound; the bound of all is infinity.

    Returns:
        None without observations; the highest finite bound for what lies above it.
    """
    bounds = sorted(cumulative)
    total = cumulative[bounds[-1]] if bounds else 0.0
    if total <= 0:
        return None
    rank, lower, below = q * total, 0.0, 0.0
    for bound in bounds:
        count = cumulative[bound]
        if count >= rank and count > below:
            if math.isinf(bound):
                return lower
            return lower + (bound - lower) * (rank - below) / (count - below)
        lower, below = (lower if math.isinf(bound) else bound), max(count, below)
    return lower
