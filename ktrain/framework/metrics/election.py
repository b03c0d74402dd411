"""Instruments of a leader election."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .registry import Add, Put, nothing

if TYPE_CHECKING:
    from .registry import Metrics


@dataclass(frozen=True, slots=True)
class ElectionMetrics:
    """What a candidate tells."""

    status: Put = nothing
    """1 while this process holds the lease and leads, 0 while it stands by."""
    slowpath: Add = nothing
    """A renewal took more than one call: the record was not as it was left."""

    @classmethod
    def of(cls, metrics: Metrics, name: str) -> ElectionMetrics:
        """Make them for one lease."""
        label = {"name": name}
        status = metrics.gauge(
            "leader_election_master_status",
            "1 while this process holds the lease and leads, 0 while it stands by.",
            label,
        )
        status(0)
        return cls(
            status,
            metrics.counter(
                "leader_election_slowpath",
                "Number of renewals that had to read the lease first, because another process had changed it.",
                label,
            ),
        )
