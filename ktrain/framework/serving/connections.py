"""
A listener for clients that nobody vouches for: so many connections at most, and none that only costs.

Whoever connects has a few seconds for the TLS handshake and the first request, a request has a few for all of it, its
answer included, and a connection that is kept alive may be silent for a while. One that is late is closed; one too many
is closed as it comes. aiohttp knows none of these limits by itself.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import anyio
from aiohttp import web

from .site import SHUTDOWN_S

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_SWEEP_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may cost. Times in seconds."""

    connections: int = 1000
    first_request_s: float = 10.0
    """For the handshake, and then for the first request."""
    request_s: float = 30.0
    """For one request and its answer."""
    idle_s: float = 120.0
    """Between requests."""


class _Server(web.Server):
    """Makes connections and looks after their time."""

    def __init__(self, handler: Handler, limits: Limits) -> None:
        super().__init__(
            self._answer,
            access_log=None,
            keepalive_timeout=limits.idle_s,
            # What is sent compressed would grow beyond every limit on what is read.
            auto_decompress=False,
        )
        self._handler = handler
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._ends: dict[web.RequestHandler, float] = {}
        self._timer = self._loop.call_later(_SWEEP_S, self._sweep)

    def __call__(self) -> asyncio.Protocol:  # type: ignore[override]  # a listener takes any protocol
        """Make a protocol for a client that has just been accepted, before its handshake."""
        if len(self._ends) >= self._limits.connections:
            return _Refusing()
        protocol = super().__call__()
        self._ends[protocol] = self._loop.time() + self._limits.first_request_s
        return protocol

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Give a client time for its first request, once its handshake is done."""
        super().connection_made(handler, transport)
        self._ends[handler] = self._loop.time() + self._limits.first_request_s

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        super().connection_lost(handler, exc)
        self._ends.pop(handler, None)

    async def close(self) -> None:
        """Let requests under way end, for a while."""
        self._timer.cancel()
        self.pre_shutdown()
        await self.shutdown(SHUTDOWN_S)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        protocol = request.protocol
        self._prolong(protocol, self._limits.request_s)
        try:
            return await self._handler(request)
        finally:
            # The answer is still to be sent: a client that does not read it has as long as one that is silent.
            self._prolong(protocol, self._limits.idle_s)

    def _prolong(self, protocol: web.RequestHandler, seconds: float) -> None:
        if protocol in self._ends:
            self._ends[protocol] = self._loop.time() + seconds

    def _sweep(self) -> None:
        now = self._loop.time()
        for protocol in [one for one, end in self._ends.items() if end <= now]:
            del self._ends[protocol]
            protocol.force_close()
        self._timer = self._loop.call_later(_SWEEP_S, self._sweep)


class _Refusing(asyncio.Protocol):
    """Closes the connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # TCP and TLS have no other kind.
        cast("asyncio.Transport", transport).abort()


async def _listen(
    server: _Server, host: str, port: int, limits: Limits, tls: ssl.SSLContext | None, sockets: Sequence[socket.socket]
) -> list[asyncio.Server]:
    listen = partial(
        asyncio.get_running_loop().create_server,
        server,
        ssl=tls,
        ssl_handshake_timeout=None if tls is None else limits.first_request_s,
        backlog=min(limits.connections, 1024),
    )
    try:
        return [await listen(sock=one) for one in sockets] or [await listen(host=host or None, port=port)]
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror or error}") from error


@asynccontextmanager
async def listening(
    handler: Handler,
    host: str,
    port: int,
    *,
    limits: Limits,
    tls: ssl.SSLContext | None = None,
    sockets: Sequence[socket.socket] = (),
) -> AsyncIterator[int]:
    """
    Serve during the block and yield the port, which is new if 0 was asked for.

    On `sockets`, if there are any, which are bound already and closed at the end; the port is the first one's.

    At the end requests under way have five seconds.

    Raises:
        OSError: The address is taken, or not one of this machine; the text names it.
    """
    server = _Server(handler, limits)
    try:
        listeners = await _listen(server, host, port, limits, tls, sockets)
        try:
            yield listeners[0].sockets[0].getsockname()[1]
        finally:
            for listener in listeners:
                listener.close()
    finally:
        with anyio.CancelScope(shield=True):
            await server.close()
