"""
Connections to the server: what a client may send at most, and how long it may take.

aiohttp reads the requests. It is given the limits of a real kube-apiserver where it has smaller ones (long selectors
are ordinary), and patience ends for a client that connects and does not come to the point: aiohttp itself would wait
for ever for the end of a first request's head. Between requests and while a body is sent, others limit the time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http import RawRequestMessage
    from aiohttp.streams import StreamReader

HEAD_TIMEOUT_S: Final = 30.0
"""From the connection to the end of the first request's head."""
KEEP_ALIVE_S: Final = 75.0
"""From an answer to the end of the next request's head."""
HEAD_LIMIT: Final = 1 << 20
"""Bytes of the request line, and of each header: a token may be any nonsense, and is then answered as such."""
_HEADERS: Final = 1000

# What it has to say is about bytes of clients, who got their 400; what goes wrong in a handler is told by the handler.
_silent = logging.getLogger(f"{__name__}.aiohttp")
_silent.setLevel(logging.CRITICAL + 1)


class Front(web.Server):
    """Reads requests from connections and hands them to `handler`."""

    def __init__(self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        # Cancelling the handler of a client that went away is what ends an idle watch.
        super().__init__(handler, request_factory=_make_request, handler_cancellation=True)

    def __call__(self) -> RequestHandler:
        """Make the protocol of one connection."""
        return _Connection(
            self,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=KEEP_ALIVE_S,
            max_line_size=HEAD_LIMIT,
            max_field_size=HEAD_LIMIT,
            max_headers=_HEADERS,
            auto_decompress=False,
            logger=_silent,
            access_log=_silent,
        )


class _Connection(RequestHandler):
    """A connection that is closed if it begins with nothing."""

    __slots__ = ("_patience",)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._patience = asyncio.get_running_loop().call_later(HEAD_TIMEOUT_S, transport.close)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._patience.cancel()
        super().connection_lost(exc)

    def began(self) -> None:
        """A request's head is complete."""
        self._patience.cancel()


def _make_request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    if isinstance(protocol, _Connection):
        protocol.began()
    return web.BaseRequest(message, payload, protocol, writer, task, asyncio.get_running_loop())
