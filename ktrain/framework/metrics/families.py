"""
Counters and histograms that cost a few machine instructions, not locks.

prometheus_client's own may be used by any thread, so each change takes a lock, and a histogram takes two and looks
through its buckets one by one: a quarter of the time of a reconcile that does nothing. These are plain numbers, which
become samples when somebody scrapes. In return each series has one writer at a time: the event loop's thread, or
another that nobody shares the series with.

This module imports prometheus_client, so it is imported where the first instrument is made, not before.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from prometheus_client.core import CounterMetricFamily, Exemplar, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prometheus_client import Metric

S = TypeVar("S")

EXEMPLAR_CHARACTERS: Final = 128


class Count:
    """One series of a counter."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self) -> None:
        """Count one."""
        self.value += 1


class Distribution:
    """One series of a histogram. `bounds` are the greatest values of its buckets, in order, without infinity."""

    __slots__ = ("_bounds", "_counts", "_exemplars", "_total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._exemplars: dict[int, Exemplar] = {}
        self._total = 0.0

    def add(self, value: float, exemplar: dict[str, str] | None = None, /) -> None:
        """Add one value; an exemplar says which case it was, and is kept until its bucket gets another."""
        bucket = bisect_left(self._bounds, value)
        self._counts[bucket] += 1
        self._total += value
        if exemplar and (labels := fitting(exemplar)):
            # As prometheus_client stamps them: by the clock that whoever scrapes has, too.
            self._exemplars[bucket] = Exemplar(labels, value, time.time())

    def show(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        """Add its samples to the family's."""
        buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
        seen = 0
        for number, bound in enumerate((*self._bounds, float("inf"))):
            seen += self._counts[number]
            exemplar = self._exemplars.get(number)
            shown = (floatToGoString(bound), float(seen))  # type: ignore[no-untyped-call]
            buckets.append(shown if exemplar is None else (*shown, exemplar))
        family.add_metric(labels, buckets, self._total)


class Family(Collector, Generic[S]):
    """All series of one metric, by their label values."""

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self._name = name
        self._text = text
        self._labels = tuple(labels)
        self._series: dict[tuple[str, ...], S] = {}

    def series(self, values: Iterable[str]) -> S:
        """
        Return the series with these label values; it exists from now on.

        Raises:
            ValueError: There are not as many as label names.
        """
        key = tuple(values)
        if len(key) != len(self._labels):
            raise ValueError(f"the metric {self._name} has the labels {self._labels}, and was given {key}")
        found = self._series.get(key)
        if found is None:
            found = self._series[key] = self._new()
        return found

    def remove(self, *values: str) -> None:
        """Drop a series, if there is one."""
        self._series.pop(values, None)

    def _new(self) -> S:
        raise NotImplementedError


class Counters(Family[Count]):
    """A counter, without the `_total` of its exposed name."""

    def describe(self) -> Iterator[Metric]:
        """Tell the registry the names, which must not be taken."""
        yield CounterMetricFamily(self._name, self._text, labels=self._labels)

    def collect(self) -> Iterator[Metric]:
        """Answer a scrape."""
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, count in self._series.items():
            family.add_metric(labels, count.value)
        yield family

    def _new(self) -> Count:
        return Count()


class Histograms(Family[Distribution]):
    """A histogram."""

    def __init__(self, name: str, text: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        super().__init__(name, text, labels)
        self._bounds = tuple(float(bound) for bound in bounds)

    def describe(self) -> Iterator[Metric]:
        """Tell the registry the names, which must not be taken."""
        yield HistogramMetricFamily(self._name, self._text, labels=self._labels)

    def collect(self) -> Iterator[Metric]:
        """Answer a scrape."""
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for labels, distribution in self._series.items():
            distribution.show(family, labels)
        yield family

    def _new(self) -> Distribution:
        return Distribution(self._bounds)


def fitting(exemplar: Mapping[str, str]) -> dict[str, str]:
    """As much of an exemplar as OpenMetrics allows; what reads it refuses more."""
    left = EXEMPLAR_CHARACTERS
    fits: dict[str, str] = {}
    for name, value in exemplar.items():
        room = left - len(name)
        if room > 0 and value:
            fits[name] = value[:room]
            left = room - len(fits[name])
    return fits
