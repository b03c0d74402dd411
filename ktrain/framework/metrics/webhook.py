"""Instruments of webhooks and of their certificates, under controller-runtime's names where it has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .registry import RECONCILE_BUCKETS, Add, Observe, Put, nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from .registry import Metrics

CODES: Final = ("200", "500")
STEPS: Final = ("created", "announced", "promoted")
"""What happens to self-managed certificates."""


@dataclass(frozen=True, slots=True)
class WebhookMetrics:
    """What one path of a webhook server counts."""

    latency: Observe = nothing
    requests: Callable[[str], None] = nothing
    """Count one answer by its HTTP code, 200 or 500."""
    panics: Add = nothing
    """Count one exception that a handler did not mean; of all paths together."""

    @classmethod
    def of(
        cls, metrics: Metrics, path: str, in_flight: Callable[[], float], *, conversion: bool = False
    ) -> WebhookMetrics:
        """Make them for one path."""
        label = {"webhook": path}
        codes = {
            code: metrics.counter("controller_runtime_webhook_requests", "Answers by code.", {**label, "code": code})
            for code in CODES
        }
        latency = metrics.histogram(
            "controller_runtime_webhook_latency_seconds", "Time to answer.", RECONCILE_BUCKETS, label
        )
        metrics.gauge_read(
            "controller_runtime_webhook_requests_in_flight", "Requests being answered.", label, in_flight
        )
        admission_panics = metrics.counter("controller_runtime_webhook_panics", "Admission handlers that crashed.", {})
        conversion_panics = metrics.counter(
            "controller_runtime_conversion_webhook_panics", "Conversions that crashed.", {}
        )
        return cls(latency, lambda code: codes[code](), conversion_panics if conversion else admission_panics)


@dataclass(frozen=True, slots=True)
class CertificateMetrics:
    """What the certificates of servers count, whatever they serve."""

    reads: Add = nothing
    read_errors: Add = nothing

    @classmethod
    def of(cls, metrics: Metrics) -> CertificateMetrics:
        """Make them."""
        return cls(
            metrics.counter("certwatcher_read_certificate", "Readings of a certificate and its key.", {}),
            metrics.counter("certwatcher_read_certificate_errors", "Readings without a usable pair.", {}),
        )


@dataclass(frozen=True, slots=True)
class RotationMetrics:
    """What self-managed certificates count."""

    steps: Callable[[str], None] = nothing
    """Count a step of `STEPS` that this replica took."""
    injected: Add = nothing
    """Count a configuration or definition into which this replica wrote the bundle."""
    injection_errors: Add = nothing
    expires: Put = nothing
    """Set the Unix time at which the certificate being served ends."""

    @classmethod
    def of(cls, metrics: Metrics) -> RotationMetrics:
        """Make them."""
        steps = {
            step: metrics.counter("ktrain_webhook_certificate_steps", "Steps of rotation.", {"step": step})
            for step in STEPS
        }
        return cls(
            lambda step: steps[step](),
            metrics.counter("ktrain_webhook_ca_injections", "Written CA bundles.", {}),
            metrics.counter("ktrain_webhook_ca_injection_errors", "CA bundles that could not be written.", {}),
            metrics.gauge("ktrain_webhook_certificate_expiry_timestamp_seconds", "When the certificate ends.", {}),
        )
