"""Instruments of a webhook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .registry import RECONCILE_BUCKETS, Observe, nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from .registry import Metrics

CODES: Final = ("200", "500")


@dataclass(frozen=True, slots=True)
class WebhookMetrics:
    """What one path of a webhook server counts."""

    latency: Observe = nothing
    requests: Callable[[str], None] = nothing
    """Count one answer by its HTTP code, 200 or 500."""

    @classmethod
    def of(cls, metrics: Metrics, path: str) -> WebhookMetrics:
        """Make them for one path."""
        label = {"webhook": path}
        codes = {
            code: metrics.counter("controller_runtime_webhook_requests", "Answers by code.", {**label, "code": code})
            for code in CODES
        }
        latency = metrics.histogram(
            "controller_runtime_webhook_latency_seconds", "Time to answer.", RECONCILE_BUCKETS, label
        )
        return cls(latency, lambda code: codes[code]())
