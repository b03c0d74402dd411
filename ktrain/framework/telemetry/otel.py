"""
The side of `tracing` that knows OpenTelemetry. Import it through `Tracing.on` and `Tracing.from_environment` only.

Attributes follow OpenTelemetry's semantic conventions where they have a name (HTTP client spans, `k8s.namespace.name`,
`error.type`), else they begin with `ktrain.`. A span's name must be one of few: of a path only the template is in it.

Exporters block, and the SDK's flush has no working time-out; so the last flush runs in a daemon thread of its own, and
who waits for it waits as long as asked. (A pool's thread would be joined at exit, however long the exporter hangs.)
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import structlog
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Link, SpanContext, SpanKind, StatusCode

from ktrain import __version__
from ktrain.api.routes import resource_route, split
from ktrain.framework.errors import ApiError, ConfigError

from .tracing import Cause, Span, Tracing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from contextvars import Token
    from types import TracebackType

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.export import SpanExporter
    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Key

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.telemetry")

_ROOT: Final = contexts.Context()
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
HTTP: Final = "http/protobuf"
GRPC: Final = "grpc"
_FILES: Final = tuple(
    f"OTEL_EXPORTER_OTLP_{signal}{file}"
    for signal in ("TRACES_", "")
    for file in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")
)


class CurrentSpan:
    """An OpenTelemetry span that is current while its block runs and ends with it."""

    __slots__ = ("_failed", "_retries", "_span", "_token")

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self._token: Token[Context] | None = None
        self._failed = False
        self._retries = 0

    def __enter__(self) -> Span:
        self._token = contexts.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, asyncio.CancelledError | GeneratorExit):
            self._span.add_event("cancelled")
        elif error is not None:
            self.fail(error)
        if self._token is not None:
            contexts.detach(self._token)
        self._span.end()

    def set(self, name: str, value: str | float) -> None:
        """See `Span`."""
        self._span.set_attribute(name, value)

    def fail(self, error: BaseException) -> None:
        """See `Span`."""
        if self._failed:
            return
        self._failed = True
        for name, value in self._describe(error).items():
            self._span.set_attribute(name, value)
        self._span.record_exception(error)
        self._span.set_status(StatusCode.ERROR, str(error) or type(error).__qualname__)

    def retried(self, code: str) -> None:
        """See `Span`."""
        self._retries += 1
        self._span.add_event("retry", {"code": code})
        self._span.set_attribute("http.request.resend_count", self._retries)

    def headers(self) -> Mapping[str, str]:
        """See `Span`."""
        own = self._span.get_span_context()
        if not own.is_valid:
            return {}
        parent = f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"
        state = own.trace_state.to_header()
        return {"traceparent": parent, "tracestate": state} if state else {"traceparent": parent}

    @property
    def trace_id(self) -> str:
        """See `Span`."""
        own = self._span.get_span_context()
        return f"{own.trace_id:032x}" if own.trace_flags.sampled else ""

    def _describe(self, error: BaseException) -> dict[str, str | int]:
        return {"error.type": type(error).__qualname__}


class CallSpan(CurrentSpan):
    """That of an API call: a refusal is told as the conventions for HTTP want it."""

    __slots__ = ()

    def _describe(self, error: BaseException) -> dict[str, str | int]:
        if isinstance(error, ApiError):
            return {"error.type": str(error.code), "http.response.status_code": error.code}
        return super()._describe(error)


class OpenTelemetry(Tracing):
    """Sends spans to a tracer provider; `owned` is one that ends with this."""

    def __init__(self, provider: trace.TracerProvider | None = None, *, owned: bool = False) -> None:
        self._provider = provider or trace.get_tracer_provider()
        self._owned = owned
        self._tracer = self._provider.get_tracer("ktrain.framework", __version__)

    def context(self) -> Cause | None:
        """See `Tracing`."""
        own = trace.get_current_span().get_span_context()
        return own if own.is_valid else None

    def trace_id(self) -> str:
        """See `Tracing`."""
        own = trace.get_current_span().get_span_context()
        return f"{own.trace_id:032x}" if own.trace_flags.sampled else ""

    def reconcile(
        self, controller: str, key: Key, *, reason: str, reconcile_id: str, cause: Cause | None
    ) -> AbstractContextManager[Span]:
        """See `Tracing`."""
        attributes = {
            "ktrain.controller": controller,
            "k8s.namespace.name": key.namespace,
            "k8s.object.name": key.name,
            "ktrain.reason": reason,
            "ktrain.reconcile_id": reconcile_id,
        }
        # A pass is the root of its trace, whatever is current where the worker was started.
        return CurrentSpan(
            self._tracer.start_span(
                f"reconcile {controller}",
                context=_ROOT,
                attributes=attributes,
                links=[Link(cast("SpanContext", cause))] if cause is not None else None,
                record_exception=False,
                set_status_on_exception=False,
            )
        )

    def call(self, method: str, path: str, *, server: str = "") -> AbstractContextManager[Span]:
        """See `Tracing`."""
        path = path.partition("?")[0]
        template = path_template(path)
        attributes = {"http.request.method": method, "url.path": path, "url.template": template}
        if server:
            attributes["server.address"] = server
        return CallSpan(
            self._tracer.start_span(
                f"{method} {template}",
                kind=SpanKind.CLIENT,
                attributes=attributes,
                record_exception=False,
                set_status_on_exception=False,
            )
        )

    def ended(self, name: str, seconds: float, attributes: Mapping[str, str]) -> None:
        """See `Tracing`."""
        if trace.get_current_span().is_recording():
            end_ns = time.time_ns()
            span = self._tracer.start_span(
                name,
                start_time=end_ns - int(seconds * 1e9),
                attributes=attributes,  # of the wall, as the SDK's are
            )
            span.end(end_ns)

    async def aclose(self, timeout_s: float = 5.0) -> None:
        """See `Tracing`."""
        # The API's provider has neither; the SDK's has both.
        end = getattr(self._provider, "shutdown" if self._owned else "force_flush", None)
        if end is not None and not await _in_daemon(end, timeout_s):
            log.warning("tracing.flush_incomplete", waited_s=timeout_s)


def path_template(path: str) -> str:
    """Return a path of the API server with `{namespace}` and `{name}` for its own: one of few, whatever the objects."""
    segments = split(path)
    route = resource_route(segments)
    if route is None or not route.plural:
        return "/" + "/".join(segments[: {"api": 2, "apis": 3}.get(segments[0], 1)])
    head = f"/apis/{route.group}/{route.version}" if route.group else f"/api/{route.version}"
    is_namespace = route.plural == "namespaces" and not route.group
    where = "/namespaces/{namespace}" if route.namespace and not is_namespace else ""
    name = "/{name}" if route.name else ""
    # What follows a subresource is a proxy's path, as long as anybody likes.
    subresource = route.subresource.partition("/")[0]
    return f"{head}{where}/{route.plural}{name}" + (f"/{subresource}" if subresource else "")


def exporting(names: Sequence[str], service_name: str) -> Tracing:
    """
    Return what sends spans to exporters of these names (otlp, console), as the OTEL_* variables set them up.

    Raises:
        ConfigError: See `Tracing.from_environment`.
    """
    exporters = [_exporter(name) for name in names]

    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.name": service_name}).merge(OTELResourceDetector().detect())
    # Not at exit, where nothing bounds it: `aclose` ends it.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return OpenTelemetry(provider, owned=True)


def _exporter(name: str) -> SpanExporter:
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        # One line for each span: a log of JSON lines stays one.
        return ConsoleSpanExporter(out=sys.stderr, formatter=lambda span: span.to_json(indent=None) + "\n")
    if name != "otlp":
        raise ConfigError(f"OTEL_TRACES_EXPORTER names {name!r}; there are otlp, console and none")
    variable = next(filter(os.environ.get, _PROTOCOLS), _PROTOCOLS[-1])
    protocol = os.environ.get(variable) or HTTP
    if protocol not in (HTTP, GRPC):
        raise ConfigError(f"{variable} is {protocol!r}; there are {GRPC} and {HTTP}")
    _check_files()
    try:
        return _by_grpc() if protocol == GRPC else _by_http()
    except ImportError as error:
        raise ConfigError(
            f"traces are to be sent by OTLP ({protocol}), but its exporter is not installed: "
            "pip install 'ktrain-operator[otlp]', or set OTEL_TRACES_EXPORTER=none"
        ) from error


def _by_http() -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _by_grpc() -> SpanExporter:
    # gRPC's core writes lines of its own to stderr; the exporter logs failures as any library does.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _check_files() -> None:
    """Name a certificate that cannot be read; the exporters would fail with each batch, or go on without it."""
    for variable in _FILES:
        if path := os.environ.get(variable):
            try:
                Path(path).read_bytes()
            except OSError as error:
                raise ConfigError(f"{variable}: {path}: {error.strerror or error}") from error


async def _in_daemon(work: Callable[[], object], timeout_s: float) -> bool:
    """Run blocking work in a thread that nobody joins; False if it is not done in time."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def run() -> None:
        try:
            work()
        finally:
            with suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, name="flush traces", daemon=True).start()
    try:
        async with asyncio.timeout(timeout_s):
            await done.wait()
    except TimeoutError:
        return False
    return True
