"""What the JobSet controller counts, under upstream's names. Ends are counted once they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.framework.metrics import Metrics

if TYPE_CHECKING:
    from ktrain.api.meta import Key

_LABELS: Final = ("jobset_name", "namespace")


class JobSetMetrics:
    """Counters of JobSets that ended, by name and namespace."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        metrics = metrics or Metrics()
        self._ends = {
            "Completed": metrics.counter_by("jobset_completed", "Number of times that a JobSet completed.", *_LABELS),
            "Failed": metrics.counter_by("jobset_failed", "Number of times that a JobSet failed.", *_LABELS),
        }

    def ended(self, terminal_state: str, jobset: Key) -> None:
        """Count the end of a JobSet: `Completed` or `Failed`."""
        if terminal_state in self._ends:
            self._ends[terminal_state](jobset.name, jobset.namespace)
