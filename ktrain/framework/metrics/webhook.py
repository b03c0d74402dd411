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
            code: metrics.counter(
                "controller_runtime_webhook_requests",
                "Number of admission reviews and conversions that were answered, by HTTP status code.",
                {**label, "code": code},
            )
            for code in CODES
        }
        latency = metrics.histogram(
            "controller_runtime_webhook_latency_seconds",
            "Seconds that the webhook took for an answer.",
            RECONCILE_BUCKETS,
            label,
        )
        metrics.gauge_read(
            "controller_runtime_webhook_requests_in_flight",
            "Number of requests that the webhook is answering now.",
            label,
            in_flight,
        )
        admission_panics = metrics.counter(
            "controller_runtime_webhook_panics",
            "Number of admission reviews whose handler raised an unexpected exception.",
            {},
        )
        conversion_panics = metrics.counter(
            "controller_runtime_conversion_webhook_panics",
            "Number of conversions that raised an unexpected exception.",
            {},
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
            metrics.counter(
                "certwatcher_read_certificate",
                "Number of times that a certificate and its key were read from their directory.",
                {},
            ),
            metrics.counter(
                "certwatcher_read_certificate_errors",
                "Number of times that the directory had no certificate and key that can be served.",
                {},
            ),
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
            step: metrics.counter(
                "ktrain_webhook_certificate_steps",
                "Number of steps in the rotation of self-managed certificates that this replica took.",
                {"step": step},
            )
            for step in STEPS
        }
        return cls(
            lambda step: steps[step](),
            metrics.counter(
                "ktrain_webhook_ca_injections",
                "Number of CA bundles that this replica wrote into webhook configurations and CRDs.",
                {},
            ),
            metrics.counter(
                "ktrain_webhook_ca_injection_errors",
                "Number of CA bundles that this replica could not write into webhook configurations and CRDs.",
                {},
            ),
            metrics.gauge(
                "ktrain_webhook_certificate_expiry_timestamp_seconds",
                "Unix time in seconds at which the served webhook certificate expires; 0 while there is none.",
                {},
            ),
        )
