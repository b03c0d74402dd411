"""
Traces: one span per reconcile and one per API call, by OpenTelemetry, which is imported only when tracing is on.

The parts of the framework know this seam only. `Tracing()` does nothing and costs next to nothing; `Tracing.on(...)`
sends spans to an OpenTelemetry tracer provider. What made a key due and the pass that follows are linked: `context()`
is noted when a key enters a queue and handed to `reconcile()` when it leaves.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ktrain.api.meta import Key

Cause = object
"""What a span may be linked to: an OpenTelemetry span context. Opaque here."""


class Span(Protocol):
    """One piece of work, while it lasts."""

    def set(self, name: str, value: str | float) -> None:
        """Add an attribute."""

    def fail(self, error: BaseException) -> None:
        """Say that the work failed, and why."""

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits; empty when this span is not recorded."""


class _NoSpan:
    trace_id = ""

    def set(self, name: str, value: str | float) -> None:
        """Do nothing."""

    def fail(self, error: BaseException) -> None:
        """Do nothing."""


_NO_SPAN = nullcontext[Span](_NoSpan())


class Tracing:
    """Makes spans that nobody sees."""

    def context(self) -> Cause | None:
        """What later work may be linked to: the span that is current here; None if there is none."""
        return None

    def reconcile(
        self,
        controller: str,  # noqa: ARG002 - of those who trace
        key: Key,  # noqa: ARG002
        *,
        reason: str,  # noqa: ARG002
        reconcile_id: str,  # noqa: ARG002
        cause: Cause | None,  # noqa: ARG002
    ) -> AbstractContextManager[Span]:
        """Be current during one pass over a key; calls inside become children."""
        return _NO_SPAN

    def call(self, method: str, path: str) -> AbstractContextManager[Span]:  # noqa: ARG002 - of those who trace
        """Be current during one call of the API server, all its attempts included."""
        return _NO_SPAN
