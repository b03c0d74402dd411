"""
One call with all that is around it: the span, a turn, the guard, the time-out, retries, warnings, metrics.

For each attempt, in this order, because each step may wait and the next must know how long: take a turn (fairness), ask
the guard whether this process may still write and for how long, send within the time that is left. The slot is given
back before a retry sleeps. Clients that differ in their options only share one sender.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import structlog

from ktrain.framework.errors import TransportError, error_from
from ktrain.framework.metrics.client import ClientMetrics

from .fairness import FLOW, Fairness
from .retry import NO_ANSWER, retry_after_s, send_with_retries
from .warnings import WarningLog

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ktrain.framework.env import Env
    from ktrain.framework.metrics import Metrics
    from ktrain.framework.telemetry.tracing import Tracing

    from .transport import Query, Response, Stream, Transport

WriteGuard = Callable[[], float]
"""Seconds for which this process may still write; raises when it may not. Asked before every attempt to write."""


MAX_REFUSAL_BYTES: Final = 64 << 10
"""A Status is a few hundred; what a proxy sends instead may never end."""
LONG_WAIT_S: Final = 1.0
"""A wait for a turn that is worth a line in the log. All waits are in the metric."""

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.client")


class Sender:
    """Sends calls; see `Client` for the arguments."""

    def __init__(
        self,
        transport: Transport,
        env: Env,
        *,
        timeout_s: float,
        retry_budget_s: float,
        max_in_flight: int | None,
        guard: WriteGuard | None,
        metrics: Metrics,
        detailed_metrics: bool,
        tracing: Tracing,
    ) -> None:
        self.transport = transport
        self.env = env
        self.timeout_s = timeout_s
        self._retry_budget_s = retry_budget_s
        self._guard = guard
        self._metrics = ClientMetrics.of(metrics, _host_of(transport), detailed=detailed_metrics)
        self._tracing = tracing
        self._fairness = (
            None if max_in_flight is None else Fairness(env, max_in_flight=max_in_flight, waited=self._metrics.waited)
        )
        self._warnings = WarningLog()

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Query,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_s: float | None,
    ) -> Response:
        """Send a request, again where that is right, and return its answer, which has a status below 400."""
        with self._tracing.call(method, path, server=self._metrics.host) as span:

            def on_retry(code: str) -> None:
                self._metrics.retries(code, method, self._metrics.host)
                span.retried(code)

            sent = {**headers, **span.headers()}
            response = await send_with_retries(
                partial(self._attempt, method, path, query, sent, body, timeout_s or self.timeout_s),
                self.env,
                method=method,
                path=path,
                budget_s=self._retry_budget_s,
                on_retry=on_retry,
            )
            span.set("http.response.status_code", response.status)
        if warning := response.headers.get("warning"):
            self._warnings.note(warning, method=method, path=path)
        return response

    @asynccontextmanager
    async def open(
        self, path: str, *, query: Query, headers: Mapping[str, str], idle_timeout_s: float
    ) -> AsyncIterator[Stream]:
        """Open a GET that answers line by line. Takes no turn: streams last, and have connections of their own."""
        async with self.transport.stream(path, query=query, headers=headers, idle_timeout_s=idle_timeout_s) as stream:
            self._metrics.requests(str(stream.status), "GET", self._metrics.host)
            if stream.status >= 400:
                body = await _read(stream, MAX_REFUSAL_BYTES)
                asked_s = retry_after_s(stream.headers) or 0
                raise error_from(stream.status, body, method="GET", path=path, retry_after_s=asked_s)
            if warning := stream.headers.get("warning"):
                self._warnings.note(warning, method="GET", path=path)
            yield stream

    async def _attempt(
        self,
        method: str,
        path: str,
        query: Query,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_s: float,
    ) -> Response:
        if self._fairness is None:
            return await self._request(method, path, query, headers, body, timeout_s)
        flow = FLOW.get()
        waited_s = await self._fairness.acquire(flow, timeout_s=timeout_s)
        if waited_s > LONG_WAIT_S:
            log.info("api.waited", method=method, path=path, flow=flow, seconds=round(waited_s, 3))
        try:
            return await self._request(method, path, query, headers, body, timeout_s)
        finally:
            self._fairness.release(flow)

    async def _request(
        self,
        method: str,
        path: str,
        query: Query,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_s: float,
    ) -> Response:
        if self._guard is not None and method != "GET":
            timeout_s = min(timeout_s, self._guard())
        metrics, began_s = self._metrics, self.env.clock.monotonic()
        try:
            answer = await self.transport.request(
                method, path, query=query, headers=headers, body=body, timeout_s=timeout_s
            )
        except TransportError:
            metrics.requests(NO_ANSWER, method, metrics.host)
            raise
        metrics.requests(str(answer.status), method, metrics.host)
        if method in metrics.durations:
            metrics.durations[method](self.env.clock.monotonic() - began_s)
            metrics.request_sizes[method](len(body or b""))
            metrics.response_sizes[method](len(answer.body))
        return answer


async def _read(stream: Stream, limit: int) -> bytes:
    """Read the body of a refused stream, as far as the limit goes."""
    body = b""
    async for line in stream.lines:
        body += line + b"\n"
        if len(body) > limit:
            break
    return body[:limit]


def _host_of(transport: Transport) -> str:
    """Host and port, for the label of metrics; a transport that leads nowhere else is in this process."""
    endpoint = getattr(transport, "endpoint", None)
    return urlsplit(endpoint.url).netloc if endpoint is not None else "in-process"
