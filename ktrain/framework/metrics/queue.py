"""
Instruments of a workqueue, under client-go's names.

What a queue can tell at any time (depth, ages) is read when somebody scrapes: that costs its hot path nothing, and a
depth that is the size of a dict cannot drift from the truth, as counted ones have (controller-runtime#3060, #3066,
#3085).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from .registry import QUEUE_BUCKETS, Add, Observe, nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from .registry import Metrics

MAX_PRIORITIES: Final = 25
"""Priorities with a series of their own; controller-runtime's limit."""
OTHER_PRIORITIES: Final = "exceeded_cardinality_limit"


class Readable(Protocol):
    """What a workqueue can tell."""

    def depth(self, priority: int) -> int:
        """Ready keys of this priority."""

    def __len__(self) -> int:
        """Ready keys."""

    def unfinished_s(self) -> float:
        """Ages of all keys in progress together, in seconds."""

    def longest_running_s(self) -> float:
        """Age of the key that is longest in progress, in seconds."""


@dataclass(frozen=True, slots=True)
class QueueMetrics:
    """What a workqueue counts."""

    adds: Add = nothing
    retries: Add = nothing
    queue_duration: Observe = nothing
    work_duration: Observe = nothing
    read: Callable[[Readable], Callable[[int], None]] = lambda _: nothing
    """Have this queue read from now on; returns what to call with each priority that is new to it."""

    @classmethod
    def of(cls, metrics: Metrics, controller: str) -> QueueMetrics:
        """Make them for the queue of one controller."""
        labels = {"name": controller, "controller": controller}

        def histogram(name: str, text: str) -> Observe:
            return metrics.histogram(f"workqueue_{name}_seconds", text, QUEUE_BUCKETS, labels)

        def read(queue: Readable) -> Callable[[int], None]:
            gauges = {
                "unfinished_work": (
                    "Seconds that all keys in progress have been in progress, added up.",
                    queue.unfinished_s,
                ),
                "longest_running_processor": (
                    "Seconds that the key that is in progress for the longest time has been in progress.",
                    queue.longest_running_s,
                ),
            }
            for name, (text, function) in gauges.items():
                metrics.gauge_read(f"workqueue_{name}_seconds", text, labels, function)
            return _Depths(metrics, labels, queue).see

        return cls(
            adds=metrics.counter(
                "workqueue_adds", "Number of keys that were added to the queue and became ready.", labels
            ),
            retries=metrics.counter(
                "workqueue_retries",
                "Number of keys that were added to the queue with a delay, retries among them.",
                labels,
            ),
            queue_duration=histogram(
                "queue_duration", "Seconds that a key stayed in the queue before a worker took it."
            ),
            work_duration=histogram("work_duration", "Seconds that a worker took for a key."),
            read=read,
        )


class _Depths:
    """One series per priority, up to a limit: each lives as long as the process (controller-runtime#3396)."""

    def __init__(self, metrics: Metrics, labels: dict[str, str], queue: Readable) -> None:
        self._metrics = metrics
        self._labels = labels
        self._queue = queue
        self._seen: set[int] = set()
        self._limited = False

    def see(self, priority: int) -> None:
        """Make the series of a priority that is new."""
        if priority in self._seen or self._limited:
            return
        if len(self._seen) < MAX_PRIORITIES:
            self._seen.add(priority)
            self._read(str(priority), lambda: self._queue.depth(priority))
        else:
            self._limited = True
            self._read(OTHER_PRIORITIES, self._others)

    def _others(self) -> float:
        return len(self._queue) - sum(self._queue.depth(priority) for priority in self._seen)

    def _read(self, label: str, function: Callable[[], float]) -> None:
        labels = {**self._labels, "priority": label}
        self._metrics.gauge_read(
            "workqueue_depth", "Number of keys that are ready and wait for a worker, by priority.", labels, function
        )
