"""One scrape of an operator's metrics, by name and labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

Labels = frozenset[tuple[str, str]]

RECONCILES: Final = "controller_runtime_reconcile_total"
PROCESS_START: Final = "process_start_time_seconds"
LEADS: Final = "leader_election_master_status"


@dataclass(frozen=True, slots=True)
class Scrape:
    """
    The samples of one process at one time.

    Attributes:
        at_s: When it was read, on the monotonic clock.
        values: By the name of the sample (`..._total`, `..._bucket`), then by its labels.
    """

    at_s: float
    values: dict[str, dict[Labels, float]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, at_s: float) -> Scrape:
        """
        Read Prometheus' text format.

        Raises:
            ValueError: It is no such text.
        """
        from prometheus_client.parser import text_string_to_metric_families

        values: dict[str, dict[Labels, float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                values.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
        return cls(at_s, values)

    @property
    def process(self) -> float:
        """When the process started: another number is another process, whose counters began at 0."""
        return self.total(PROCESS_START)

    @property
    def has_controllers(self) -> bool:
        """Whether these are the metrics of a process with controllers."""
        return RECONCILES in self.values

    @property
    def leads(self) -> bool:
        """Whether the process leads; also if there is no election."""
        return LEADS not in self.values or self.total(LEADS) > 0

    def names(self, metric: str, label: str) -> list[str]:
        """Return the values of a label, in order."""
        return sorted({dict(labels).get(label, "") for labels in self.values.get(metric, ())} - {""})

    def total(self, metric: str, **labels: str) -> float:
        """Return the sum of all samples of a metric with these labels; 0 if there are none."""
        return sum(value for _, value in self.matching(metric, **labels))

    def matching(self, metric: str, **labels: str) -> Iterator[tuple[Labels, float]]:
        """Yield the samples of a metric with these labels."""
        wanted = labels.items()
        for found, value in self.values.get(metric, {}).items():
            if wanted <= found:
                yield found, value

    def buckets(self, histogram: str, **labels: str) -> dict[float, float]:
        """Return the cumulative counts of a histogram by upper bound, summed over all other labels."""
        counts: dict[float, float] = {}
        for found, value in self.matching(f"{histogram}_bucket", **labels):
            bound = float(dict(found)["le"])
            counts[bound] = counts.get(bound, 0.0) + value
        return counts
