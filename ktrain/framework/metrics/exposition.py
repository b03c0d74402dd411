"""
What a scrape gets: all metrics of a registry, in the format that Prometheus asks for.

prometheus_client adds a sample `NAME_created` to each counter and histogram: when it was made. That doubles the series
of every counter and nothing reads it, so it is left out here. The library's own switch is not used: it is for the whole
process, and a registry of the user would change with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry, Metric

_WITH_CREATED: Final = frozenset({"counter", "histogram", "summary"})


def expose(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Return all metrics, and their content type, in the best format that the header *accept* names."""
    from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(accept)
    return encode(_WithoutCreated(registry)), content_type


class _WithoutCreated:
    """A registry without its samples `NAME_created`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        for metric in self._registry.collect():
            if metric.type in _WITH_CREATED:
                created = f"{metric.name}_created"
                metric.samples = [sample for sample in metric.samples if sample.name != created]
            yield metric


def process_registry() -> CollectorRegistry:
    """Make a registry that has what every process has: memory, CPU time, files, the version of Python."""
    from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry
