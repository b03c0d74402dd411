"""Instruments of a leader election."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .registry import Put, nothing

if TYPE_CHECKING:
    from .registry import Metrics


@dataclass(frozen=True, slots=True)
class ElectionMetrics:
    """What a candidate tells."""

    status: Put = nothing
    """1 while this process leads."""

    @classmethod
    def of(cls, metrics: Metrics, name: str) -> ElectionMetrics:
        """Make them for one lease."""
        status = metrics.gauge("leader_election_master_status", "1 while this process leads.", {"name": name})
        status(0)
        return cls(status)
