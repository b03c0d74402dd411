"""
Requests for a WebSocket: aiohttp gets their connection, with the bytes that have come so far, and reads them again.

It is loaded with the first of them. What such a request is answered with instead, if it is refused, it is told there.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from aiohttp import web

from ktrain.local.apiserver.front.inprocess import aclose_chunks
from ktrain.local.apiserver.streams.websockets import upgraded

from .messages import Head

if TYPE_CHECKING:
    import asyncio

    from ktrain.local.apiserver.requests import Answer

    from .connection import Respond

_STOP_TIMEOUT_S: Final = 1.0
_HEAD_LIMIT: Final = 1 << 20

# What it has to say is about bytes of clients, who got their 400; what goes wrong in a handler is told by the handler.
_silent = logging.getLogger(f"{__name__}.aiohttp")
_silent.setLevel(logging.CRITICAL + 1)


class Upgrades:
    """Serves connections whose request asks for a WebSocket; `respond` answers the request itself."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self._server = web.Server(
            self._handle,
            handler_cancellation=True,
            max_line_size=_HEAD_LIMIT,
            max_field_size=_HEAD_LIMIT,
            auto_decompress=False,
            logger=_silent,
            access_log=_silent,
        )

    def protocol(self) -> asyncio.Protocol:
        """Return the protocol of one connection."""
        return self._server()

    async def aclose(self) -> None:
        """End all of them, after a moment."""
        self._server.pre_shutdown()
        await self._server.shutdown(_STOP_TIMEOUT_S)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = tuple((name.lower(), value) for name, value in request.headers.items())
        head = Head(
            request.method, request.raw_path, headers, 0, keep_alive=False, upgrade=True, continues=False, old=False
        )
        transport = request.transport
        peer = transport.get_extra_info("peercert") if transport is not None else None
        answer = await self._respond(head, b"", peer)
        if answer.upgrade is not None:
            return await upgraded(request, answer.upgrade)
        return await _refused(request, answer)


async def _refused(request: web.BaseRequest, answer: Answer) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status)
    response.force_close()
    for name, value in answer.headers:
        response.headers.add(name, value)
    try:
        await response.prepare(request)
        await response.write(answer.body)
        await response.write_eof()
    finally:
        if answer.chunks is not None:
            await aclose_chunks(answer.chunks)
    return response
