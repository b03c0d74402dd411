"""
What hooks took and how they failed: the metrics of plugins.

Hooks are called thirty times for a job, so a call is counted in plain numbers, in less than a microsecond; a scrape
makes metrics of them.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Literal

from ktrain.framework.telemetry.tracing import Tracing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import Metric

    from ktrain.framework.metrics import Metrics

BUCKETS: Final = (1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.1, 1.0)
"""Seconds. All hooks of a job together are to take 400 us; one of 0.05 s is logged, one of 1 s ended."""
DURATION: Final = "ktrain_plugin_call_duration_seconds"
FAILURES: Final = "ktrain_plugin_call_failures"
_LABELS: Final = ("plugin", "hook")

FailureKind = Literal["raised", "overran", "answer", "conflict"]
"""It raised; did not return in time; returned what it must not; wrote what another plugin wrote differently."""


class Calls:
    """Counts the calls of hooks. What a plugin has to say against a job is no failure."""

    def __init__(self) -> None:
        self.tracing = Tracing()
        """Where each call is a span, inside a reconcile that is traced."""
        self._took: dict[tuple[str, str], list[float]] = {}
        """Calls by their bucket, and the sum of their seconds."""
        self._failed: dict[tuple[str, str, str], int] = {}

    def took(self, plugin: str, hook: str, seconds: float) -> None:
        """Count a call, however it ended."""
        found = self._took.get((plugin, hook))
        if found is None:
            found = self._took[plugin, hook] = [0.0] * (len(BUCKETS) + 2)
        found[bisect_left(BUCKETS, seconds)] += 1
        found[-1] += seconds
        self.tracing.ended(f"plugin {plugin}", seconds, {"ktrain.plugin": plugin, "ktrain.hook": hook})

    def failed(self, plugin: str, hook: str, kind: FailureKind) -> None:
        """Count a failure."""
        key = (plugin, hook, kind)
        self._failed[key] = self._failed.get(key, 0) + 1

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics, for a scrape."""
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        durations = HistogramMetricFamily(
            DURATION, "Seconds that one hook of a plugin took for one TrainJob.", labels=_LABELS
        )
        names = [*map(str, BUCKETS), "+Inf"]
        for key, (*counts, total) in self._took.items():
            durations.add_metric(key, list(zip(names, accumulate(counts), strict=True)), total)
        failures = CounterMetricFamily(
            FAILURES, "Number of calls of a plugin's hook that failed, by the reason.", labels=(*_LABELS, "reason")
        )
        for labels, count in self._failed.items():
            failures.add_metric(labels, count)
        return (durations, failures)

    def expose(self, metrics: Metrics) -> None:
        """Have them scraped."""
        metrics.collect(DURATION, self)
