"""Instruments of a workqueue, under client-go's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .registry import QUEUE_BUCKETS, Add, Observe, Put, nothing

if TYPE_CHECKING:
    from .registry import Metrics


@dataclass(frozen=True, slots=True)
class QueueMetrics:
    """What a workqueue counts."""

    depth: Put = nothing
    adds: Add = nothing
    retries: Add = nothing
    queue_duration: Observe = nothing
    work_duration: Observe = nothing

    @classmethod
    def of(cls, metrics: Metrics, controller: str) -> QueueMetrics:
        """Make them for the queue of one controller."""
        labels = {"name": controller, "controller": controller}

        def histogram(name: str, text: str) -> Observe:
            return metrics.histogram(f"workqueue_{name}_seconds", text, QUEUE_BUCKETS, labels)

        return cls(
            depth=metrics.gauge("workqueue_depth", "Keys that are ready.", {**labels, "priority": ""}),
            adds=metrics.counter("workqueue_adds", "Keys that became ready.", labels),
            retries=metrics.counter("workqueue_retries", "Keys added with a delay.", labels),
            queue_duration=histogram("queue_duration", "Ready until taken."),
            work_duration=histogram("work_duration", "Taken until done."),
        )
