"""Instruments of a client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .registry import CountBy, nothing

if TYPE_CHECKING:
    from .registry import Metrics


@dataclass(frozen=True, slots=True)
class ClientMetrics:
    """What a client counts."""

    requests: CountBy = nothing
    """Count one answered request: method and code."""

    @classmethod
    def of(cls, metrics: Metrics) -> ClientMetrics:
        """Make them."""
        return cls(metrics.counter_by("rest_client_requests", "Answers of the API server.", "method", "code"))
