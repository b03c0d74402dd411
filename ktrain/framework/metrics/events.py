"""Instruments of an event recorder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .registry import Add, nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from .registry import Metrics

REASONS: Final = ("queue_full", "spam", "refused", "unreachable", "crashed", "stopped")
"""Why an event is lost."""


@dataclass(frozen=True, slots=True)
class EventMetrics:
    """What a recorder counts."""

    written: Add = nothing
    """Count one event or series that the API server has stored."""
    dropped: Callable[[str], None] = nothing
    """Count one event that it has not, by one of `REASONS`."""

    @classmethod
    def of(cls, metrics: Metrics) -> EventMetrics:
        """Make them."""
        dropped = {
            reason: metrics.counter(
                "ktrain_events_dropped",
                "Number of Kubernetes events that were not stored, by the reason.",
                {"reason": reason},
            )
            for reason in REASONS
        }
        return cls(
            metrics.counter(
                "ktrain_events_written",
                "Number of Kubernetes events, and series of events, that the API server stored.",
                {},
            ),
            lambda reason: dropped[reason](),
        )
