"""Instruments of the event loop's watchdog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .registry import Add, nothing

if TYPE_CHECKING:
    from .registry import Metrics


@dataclass(frozen=True, slots=True)
class LoopMetrics:
    """What the watchdog counts."""

    blocked: Add = nothing

    @classmethod
    def of(cls, metrics: Metrics) -> LoopMetrics:
        """Make them for the process."""
        return cls(
            metrics.counter(
                "ktrain_event_loop_blocked",
                "Number of times that the event loop of the process stood still for seconds.",
                {},
            )
        )
