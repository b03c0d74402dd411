"""
Instruments in one prometheus registry. Without a registry they do nothing, and prometheus_client is not even imported.

An instrument is a function bound to its label values, found once when a part is made and called on its hot path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
    from prometheus_client.registry import Collector

T = TypeVar("T")
M = TypeVar("M", "Counter", "Gauge", "Histogram")

Labels = Mapping[str, str]
"""Label names and values. Every use of one metric has the same names in the same order."""

Add = Callable[[], None]
"""Count one."""

Put = Callable[[float], None]
"""Set a gauge."""

CountBy = Callable[..., None]
"""Count one for these label values, given in the order of the label names."""


class Observe(Protocol):
    """The observer of a histogram."""

    def __call__(self, value: float, exemplar: dict[str, str] | None = None, /) -> None:
        """
        Add one value; an exemplar says which case it was.

        OpenMetrics allows it 128 characters in all, names included: what is too long is cut, the last labels first.
        """


RECONCILE_BUCKETS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
"""Seconds; controller-runtime's."""
QUEUE_BUCKETS: Final = tuple(10.0**n for n in range(-8, 4))
"""Seconds; client-go's."""
MOST_SERIES: Final = 200
"""Of a counter whose label values come from outside."""
OTHER: Final = "other"
EXEMPLAR_CHARACTERS: Final = 128


def nothing(*_: object) -> None:
    """Be an instrument that does nothing."""


class Metrics:
    """
    Makes instruments, each metric once. One `Metrics` per registry.

    Args:
        registry: Where metrics are registered; without one all instruments do nothing.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry
        self._made: dict[str, Any] = {}  # prometheus_client's metric classes share no useful base

    def counter(self, name: str, text: str, labels: Labels) -> Add:
        """Return a counter (without the `_total` of its exposed name) that exists at 0 from now on."""
        if self.registry is None:
            return nothing
        add: Add = _bound(self._counter(name, text, *labels), labels).inc
        return add

    def counter_by(self, name: str, text: str, *labels: str, most: int = MOST_SERIES) -> CountBy:
        """
        Return a counter whose label values are known only when it counts.

        They should be few. Whatever they are, there will be `most` series and one more, which counts the rest with the
        value "other" for every label: a series lives as long as the process, here and in every Prometheus that scrapes.
        """
        if self.registry is None:
            return nothing
        family = self._counter(name, text, *labels)
        series = self._once(f"{name} by {labels}", dict[tuple[str, ...], Add])

        def count(*values: str) -> None:
            add = series.get(values)
            if add is None:
                if len(series) >= most:
                    values = (OTHER,) * len(labels)
                add = series.setdefault(values, family.labels(*values).inc)
            add()

        return count

    def gauge(self, name: str, text: str, labels: Labels) -> Put:
        """Return the setter of a gauge."""
        if self.registry is None:
            return nothing
        put: Put = _bound(self._gauge(name, text, *labels), labels).set
        return put

    def gauge_read(self, name: str, text: str, labels: Labels, read: Callable[[], float]) -> None:
        """Have a gauge read when somebody scrapes. `read` must not wait."""
        if self.registry is not None:
            _bound(self._gauge(name, text, *labels), labels).set_function(read)

    def histogram(self, name: str, text: str, buckets: tuple[float, ...], labels: Labels) -> Observe:
        """Return the observer of a histogram."""
        if self.registry is None:
            return nothing
        observe = _bound(self._histogram(name, text, buckets, *labels), labels).observe

        def add(value: float, exemplar: dict[str, str] | None = None, /) -> None:
            observe(value, exemplar and fitting(exemplar))

        return add

    def collect(self, name: str, collector: Collector) -> None:
        """Have metrics made when somebody scrapes, once for each name. `collector` must not wait."""
        if (registry := self.registry) is not None:
            self._once(name, lambda: registry.register(collector))

    def forget(self, name: str, labels: Labels) -> None:
        """Drop one series: what it was about is gone."""
        if name in self._made:
            self._made[name].remove(*labels.values())

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        from prometheus_client import Counter

        return self._once(name, lambda: Counter(name, text, labels, registry=self.registry))

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        from prometheus_client import Gauge

        return self._once(name, lambda: Gauge(name, text, labels, registry=self.registry))

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        from prometheus_client import Histogram

        return self._once(name, lambda: Histogram(name, text, labels, buckets=buckets, registry=self.registry))

    def _once(self, name: str, make: Callable[[], T]) -> T:
        if name not in self._made:
            self._made[name] = make()
        made: T = self._made[name]
        return made


def fitting(exemplar: Mapping[str, str]) -> dict[str, str]:
    """As much of an exemplar as OpenMetrics allows; prometheus_client raises for more."""
    left = EXEMPLAR_CHARACTERS
    fits: dict[str, str] = {}
    for name, value in exemplar.items():
        room = left - len(name)
        if room > 0 and value:
            fits[name] = value[:room]
            left = room - len(fits[name])
    return fits


def _bound(family: M, labels: Labels) -> M:
    """One series of a metric; prometheus_client refuses to be asked for the only one of a metric without labels."""
    return family.labels(*labels.values()) if labels else family
