"""
The HTTPS server behind admission and conversion webhooks.

Every replica runs it, leader or not. Its certificate comes from a source and changes while it serves; a client CA makes
it ask the API server who it is. What is larger than a review can be is refused before it is decoded.
"""

from __future__ import annotations

import re
import ssl
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import msgspec
import structlog

from ktrain.framework.metrics import Metrics
from ktrain.framework.metrics.webhook import WebhookMetrics
from ktrain.framework.serving.dial import DIAL_S, dial
from ktrain.framework.serving.site import serving

from .admission import HANDLER_LIMIT_S, Denied, refusal, respond
from .certificates import CertificateDirectory, ServingContext
from .conversion import failure, respond_conversion

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from aiohttp import web
    from anyio.abc import TaskStatus
    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Json
    from ktrain.framework.env import Env

    from .admission import Handlers
    from .certificates import CertificateSource
    from .conversion import Conversion

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.webhook")

MAX_BODY_BYTES: Final = 7 << 20
"""Old and new object of 3 MB each, and room for the envelope."""
MAX_CONVERSION_BYTES: Final = 64 << 20
"""The API server converts a list in one request, whatever its size; this much a replica can hold."""
CONVERT: Final = "/convert"
_TIMEOUT: Final = re.compile(r"(\d+)s")


class WebhookServer:
    """
    Serves webhooks. A service of the manager.

    Args:
        handlers: Admission handlers by URL path.
        certificates: A source, or a directory that holds `tls.crt` and `tls.key`.
        env: Time and randomness.
        host: Address to listen on; empty for all.
        port: 0 chooses one; see `port` after the start.
        client_ca: A PEM file; only clients with a certificate by one of these CAs are served (mutual TLS). The API
            server has one if its admission configuration names a kubeconfig for webhooks.
        handler_limit_s: For all handlers of one request. The API server's own limit, which it sends along, may be less.
        metrics: For latency, answers and panics.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handlers],
        certificates: CertificateSource | Path,
        env: Env,
        *,
        host: str = "",
        port: int = 9443,
        client_ca: Path | None = None,
        tls_minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
        handler_limit_s: float = HANDLER_LIMIT_S,
        metrics: Metrics | None = None,
    ) -> None:
        self.host = host
        self.port: int = port
        self._env = env
        self._registry = metrics or Metrics()
        if isinstance(certificates, Path):
            certificates = CertificateDirectory(certificates, env, metrics=self._registry)
        self._certificates = certificates
        self._context = partial(ServingContext, client_ca, tls_minimum=tls_minimum)
        self._limit_s = handler_limit_s
        self._handlers: dict[str, Handlers] = {}
        self._conversions: dict[tuple[str, str], Conversion] = {}
        self._metrics: dict[str, WebhookMetrics] = {}
        self._in_flight: dict[str, int] = {}
        self._problem: str | None = "the webhook server does not listen yet"
        for path, chain in handlers.items():
            self.admission(path, chain)

    def admission(self, path: str, handlers: Handlers) -> None:
        """Serve admission handlers at a path. Before `run`; ValueError if the path is taken."""
        self._claim(path)
        self._handlers[path] = handlers

    def conversion(self, conversion: Conversion) -> None:
        """Serve the conversions of a kind, at `/convert` as all kinds. Before `run`; ValueError if it has some."""
        kind = conversion.group, conversion.kind
        if kind in self._conversions:
            raise ValueError(f"conversions of {conversion.kind} in {conversion.group} are registered already")
        if not self._conversions:
            self._claim(CONVERT, conversion=True)
        self._conversions[kind] = conversion

    def check(self) -> str | None:
        """Say what is wrong, for readiness; None if a TLS connection to ourselves met the latest certificate."""
        return self._problem

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """
        Serve until cancelled.

        Raises:
            OSError: The port is taken, or the first certificate or the client CA cannot be read.
        """
        from aiohttp import web

        app = web.Application(client_max_size=MAX_CONVERSION_BYTES if self._conversions else MAX_BODY_BYTES)
        for path in self._handlers:
            app.router.add_post(path, self._measured(self._admit))
        if self._conversions:
            app.router.add_post(CONVERT, self._measured(self._convert))
        tls = await anyio.to_thread.run_sync(self._context)
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._certificates.run, tls.use, name="webhook certificates")
            async with serving(app, self.host, self.port, tls=tls.context) as self.port:
                await self._dial(tls)
                task_status.started()
                while True:
                    await self._env.clock.sleep(DIAL_S)
                    await self._dial(tls)

    def _claim(self, path: str, *, conversion: bool = False) -> None:
        if path in self._metrics:
            raise ValueError(f"something is served at {path} already")
        self._in_flight[path] = 0
        self._metrics[path] = WebhookMetrics.of(
            self._registry, path, lambda: self._in_flight[path], conversion=conversion
        )

    def _measured(
        self, work: Callable[[web.Request], Awaitable[Json]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        """Answer with what `work` returns, and measure it."""
        from aiohttp import web

        async def answer(request: web.Request) -> web.Response:
            path = request.path
            metrics = self._metrics[path]
            started = self._env.clock.monotonic()
            self._in_flight[path] += 1
            code = "500"
            try:
                body = msgspec.json.encode(await work(request))
                code = "200"
                return web.Response(body=body, content_type="application/json")
            finally:
                self._in_flight[path] -= 1
                metrics.latency(self._env.clock.monotonic() - started)
                metrics.requests(code)

        return answer

    async def _admit(self, request: web.Request) -> Json:
        body = await _read(request, MAX_BODY_BYTES)
        if body is None:
            return refusal(b"", Denied(f"the request is larger than {MAX_BODY_BYTES} bytes", 413))
        theirs = _TIMEOUT.fullmatch(request.query.get("timeout", ""))
        limit_s = min(self._limit_s, 0.9 * int(theirs[1])) if theirs else self._limit_s
        path = request.path
        return await respond(
            self._handlers[path], body, request.content_type, limit_s=limit_s, on_panic=self._metrics[path].panics
        )

    async def _convert(self, request: web.Request) -> Json:
        body = await _read(request, MAX_CONVERSION_BYTES)
        if body is None:
            return failure(b"", f"the request is larger than {MAX_CONVERSION_BYTES} bytes")
        return await respond_conversion(self._conversions, body, on_panic=self._metrics[CONVERT].panics)

    async def _dial(self, tls: ServingContext) -> None:
        self._problem = await dial(self.host, self.port, tls)


async def _read(request: web.Request, limit: int) -> bytes | None:
    """Read the body; None if it is larger than the limit, of which not much more is kept."""
    from aiohttp import web

    try:
        return await request.clone(client_max_size=limit).read()
    except web.HTTPRequestEntityTooLarge:
        return None
