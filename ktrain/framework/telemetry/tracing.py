"""
Traces: one span per reconcile and one per API call, by OpenTelemetry, which is imported only when tracing is on.

The parts of the framework know this seam only. `Tracing()` does nothing and costs next to nothing; `Tracing.on(...)`
sends spans to an OpenTelemetry tracer provider, `Tracing.from_environment(...)` to where the OTEL_* variables say
(`otel.py` has both). What made a key due and the pass that follows are linked: `context()` is noted when a key enters
a queue and handed to `reconcile()` when it leaves. A link and no parent, because many causes may end in one pass, and
because a trace that grew with each retry would never end.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from opentelemetry.trace import TracerProvider

    from ktrain.api.meta import Key

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

Cause = object
"""What a span may be linked to: an OpenTelemetry span context. Opaque here."""


class Span(Protocol):
    """One piece of work, while it lasts. An exception that leaves its block is recorded; a cancellation is no error."""

    def set(self, name: str, value: str | float) -> None:
        """Add an attribute. Never a header, a body or a credential: spans leave the process."""

    def fail(self, error: BaseException) -> None:
        """Say that the work failed, and why. The first error counts."""

    def retried(self, code: str) -> None:
        """Say that a call is sent again after an answer with this code."""

    def headers(self) -> Mapping[str, str]:
        """Headers that make the server's spans children of this one (W3C Trace Context); none when tracing is off."""

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits; empty when this span is not recorded."""


class _NoSpan:
    trace_id = ""

    def set(self, name: str, value: str | float) -> None:
        """Do nothing."""

    def fail(self, error: BaseException) -> None:
        """Do nothing."""

    def retried(self, code: str) -> None:
        """Do nothing."""

    def headers(self) -> Mapping[str, str]:
        """Add no header."""
        return {}


_NO_SPAN = nullcontext[Span](_NoSpan())


class Tracing:
    """Makes spans that nobody sees; `on` and `from_environment` return one whose spans somebody does."""

    @staticmethod
    def on(provider: TracerProvider | None = None) -> Tracing:
        """
        Return what sends spans to a provider, by default OpenTelemetry's global one.

        Which of them are recorded is the provider's sampler's decision; the provider remains the caller's.
        """
        from .otel import OpenTelemetry

        return OpenTelemetry(provider)

    @staticmethod
    def from_environment(service_name: str) -> Tracing:
        """
        Return what the OTEL_* variables ask for; without any it does nothing. End it with `aclose`.

        Understood are OTEL_SDK_DISABLED, OTEL_TRACES_EXPORTER (otlp, console, none), what the SDK reads itself
        (OTEL_TRACES_SAMPLER, OTEL_BSP_*, OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME), and the OTLP exporters'
        OTEL_EXPORTER_OTLP_*, for the protocols http/protobuf and grpc. An endpoint alone turns tracing on.

        Args:
            service_name: Unless the environment has one.

        Raises:
            ConfigError: An exporter or protocol that is not known, a certificate that cannot be read, or the extra
                `otlp` is not installed.
        """
        names = _exporters(os.environ)
        if not names:
            return Tracing()
        from .otel import exporting

        return exporting(names, service_name)

    def context(self) -> Cause | None:
        """What later work may be linked to: the span that is current here; None if there is none."""
        return None

    def trace_id(self) -> str:
        """32 hexadecimal digits of the trace that is current here; empty without one, or when it is not recorded."""
        return ""

    def reconcile(
        self,
        controller: str,
        key: Key,
        *,
        reason: str,
        reconcile_id: str,
        cause: Cause | None,
    ) -> AbstractContextManager[Span]:
        """Be current during one pass over a key; calls inside become children."""
        return _NO_SPAN

    def call(self, method: str, path: str, *, server: str = "") -> AbstractContextManager[Span]:
        """
        Be current during one call of the API server, all its attempts included; not for watches, which last.

        `server` is the host's name or address. Set `http.response.status_code`; that of a refusal is in its error.
        """
        return _NO_SPAN

    def ended(self, name: str, seconds: float, attributes: Mapping[str, str]) -> None:
        """Record work that has just ended and took so long, as a part of the span that is current, if one is."""

    async def aclose(self, timeout_s: float = 5.0) -> None:
        """Send what is left, for at most so long. The loop is not blocked; an exporter that hangs is left behind."""


def _exporters(environment: Mapping[str, str]) -> list[str]:
    """Where the environment wants traces to go; nothing of OpenTelemetry is imported to learn that it does not."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return []
    implied = "otlp" if any(environment.get(name) for name in _ENDPOINTS) else "none"
    names = environment.get("OTEL_TRACES_EXPORTER", implied).split(",")
    return [name.strip() for name in names if name.strip() not in ("", "none")]
