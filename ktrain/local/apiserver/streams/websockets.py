"""The server's end of a WebSocket (RFC 6455), as the connection that an `Upgrade` is served on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import WSMsgType, web

if TYPE_CHECKING:
    from ktrain.local.apiserver.requests import Upgrade

_MESSAGE_LIMIT: Final = 4 * 1024 * 1024
_HEARTBEAT_S: Final = 30.0
"""A client that does not answer a ping within half of that is gone: its command must not run for ever."""

log = structlog.get_logger(__name__)


class WebSocketConnection:
    """Binary messages over one WebSocket."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def receive(self) -> bytes | None:
        """Return the next message, None when the client has gone. A text message counts as its bytes."""
        message = await self._socket.receive()
        if message.type is WSMsgType.BINARY:
            return bytes(message.data)
        return message.data.encode() if message.type is WSMsgType.TEXT else None

    async def send(self, data: bytes) -> None:
        """Send a message, waiting while the client does not read. ConnectionError when it has gone."""
        await self._socket.send_bytes(data)

    async def aclose(self) -> None:
        """Close in order."""
        await self._socket.close()


async def upgraded(request: web.BaseRequest, upgrade: Upgrade) -> web.WebSocketResponse:
    """Answer with a WebSocket, and serve it to its end."""
    socket = web.WebSocketResponse(
        protocols=(upgrade.protocol,), max_msg_size=_MESSAGE_LIMIT, heartbeat=_HEARTBEAT_S, compress=False
    )
    try:
        await socket.prepare(request)
        await upgrade.serve(WebSocketConnection(socket))
    except ConnectionError:
        log.debug("stream.client_gone", path=request.path)
    await socket.close()
    return socket
