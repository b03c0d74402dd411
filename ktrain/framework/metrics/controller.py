"""Instruments of a controller. Every series exists from the start, so that rates work from the first scrape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .registry import RECONCILE_BUCKETS, Add, Observe, Put, nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from .registry import Metrics

RESULTS: Final = ("success", "error", "requeue_after")


@dataclass(frozen=True, slots=True)
class ControllerMetrics:
    """What a controller counts."""

    result: Callable[[str], None] = nothing
    """Count one reconcile by its result: success, error or requeue_after."""
    terminal_error: Add = nothing
    panic: Add = nothing
    timeout: Add = nothing
    duration: Observe = nothing
    max_workers: Put = nothing
    read: Callable[[Callable[[], float], Callable[[], float]], None] = nothing
    """Have these read from now on: active workers, and keys held back for own writes."""
    stuck: Add = nothing
    lost_event: Add = nothing
    own_write_wait: Observe = nothing
    """Seconds that a key was held back until the cache had its own writes."""
    own_write_timeout: Add = nothing

    @classmethod
    def of(cls, metrics: Metrics, controller: str) -> ControllerMetrics:
        """Make them for one controller."""
        prefix, label = "controller_runtime", {"controller": controller}
        results = {
            result: metrics.counter(
                f"{prefix}_reconcile",
                "Number of reconciles, by result: success, error or requeue_after.",
                {**label, "result": result},
            )
            for result in RESULTS
        }
        errors = metrics.counter(f"{prefix}_reconcile_errors", "Number of reconciles that failed.", label)

        def count(result: str) -> None:
            results[result]()
            if result == "error":
                errors()

        def counter(name: str, text: str) -> Add:
            return metrics.counter(f"{prefix}_{name}", text, label)

        def histogram(name: str, text: str) -> Observe:
            return metrics.histogram(name, text, RECONCILE_BUCKETS, label)

        def read(active: Callable[[], float], held: Callable[[], float]) -> None:
            metrics.gauge_read(f"{prefix}_active_workers", "Number of workers that are reconciling now.", label, active)
            metrics.gauge_read(
                "ktrain_own_write_holds",
                "Number of keys that wait until the cache shows the writes of their last reconcile.",
                label,
                held,
            )

        return cls(
            result=count,
            terminal_error=counter(
                "terminal_reconcile_errors",
                "Number of reconciles that failed with a terminal error, which is not tried again.",
            ),
            panic=counter("reconcile_panics", "Number of reconciles that ended in an unexpected exception."),
            timeout=counter("reconcile_timeouts", "Number of reconciles that their deadline cancelled."),
            duration=histogram(f"{prefix}_reconcile_time_seconds", "Seconds that a reconcile took."),
            max_workers=metrics.gauge(
                f"{prefix}_max_concurrent_reconciles", "Number of reconciles that may run at the same time.", label
            ),
            read=read,
            stuck=metrics.counter(
                "ktrain_stuck_reconciles",
                "Number of reconciles that ran for so long that they were reported as stuck.",
                label,
            ),
            lost_event=metrics.counter(
                "ktrain_events_lost",
                "Number of events that were lost because a predicate or a mapping raised an exception.",
                label,
            ),
            own_write_wait=histogram(
                "ktrain_own_write_wait_seconds",
                "Seconds that a key waited until the cache showed the writes of its last reconcile.",
            ),
            own_write_timeout=metrics.counter(
                "ktrain_own_write_timeouts",
                "Number of keys whose writes the cache did not show in time, so that they were reconciled without.",
                label,
            ),
        )
