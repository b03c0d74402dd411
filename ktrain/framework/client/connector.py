"""
What aiohttp lacks at the moment a connection is made or taken: the last look at the clock, and the kernel's keepalive.

Fencing: in a process that was stopped and continued, a connection that became ready meanwhile is served before the
time-out that expired meanwhile; without a look at the clock there, a former leader's write would go out. A request with
a body is written a turn of the event loop later (headers wait for the body), so `Request` looks once more. aiohttp's
traces would do as well, but cost a tenth of the request.

This module imports aiohttp, so it is imported where a connection is about to be made, not before.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, Final

import aiohttp

if TYPE_CHECKING:
    import ssl

    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

    from .pools import Keepalive


_TOO_LATE: Final = "the time was over before the request could be sent"


class Deadline(aiohttp.ClientTimeout):
    """
    A time-out for a whole call, and the moment from which on nothing may be sent any more.

    Args:
        left_s: For the whole call.
        connect_s: For making a connection, TLS included.
        at_s: The moment, by the loop's clock.
    """

    __slots__ = ("at_s",)
    at_s: float

    def __init__(self, left_s: float, *, connect_s: float, at_s: float) -> None:
        super().__init__(total=left_s, sock_connect=connect_s)
        object.__setattr__(self, "at_s", at_s)  # the base is frozen


class Request(aiohttp.ClientRequest):
    """A request that is not sent after its moment, which `Connector` tells it."""

    send_before_s: float = float("inf")

    async def write_bytes(
        self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
    ) -> None:
        """Write headers and body, unless the call's time is over by now."""
        if asyncio.get_running_loop().time() < self.send_before_s:
            await super().write_bytes(writer, conn, content_length)
            return
        if conn.protocol is not None:
            conn.protocol.set_exception(aiohttp.ClientConnectionError(_TOO_LATE))
        conn.close()


class Connector(aiohttp.TCPConnector):
    """
    Connections to one API server.

    Args:
        limit: Most connections at a time; 0 for no limit.
        idle_s: How long an idle connection is kept.
        context: TLS settings; False for none.
        keepalive: When a silent peer counts as dead.
    """

    def __init__(self, *, limit: int, idle_s: float, context: ssl.SSLContext | bool, keepalive: Keepalive) -> None:
        super().__init__(limit=limit, keepalive_timeout=idle_s, ssl=context, socket_factory=self._socket)
        self._tcp_keepalive = keepalive

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's
    ) -> Connection:
        """Give a connection, unless the call's time is over by then."""
        connection = await super().connect(req, traces, timeout)
        if isinstance(timeout, Deadline):
            if asyncio.get_running_loop().time() >= timeout.at_s:
                connection.release()
                raise TimeoutError(_TOO_LATE)
            if isinstance(req, Request):
                req.send_before_s = timeout.at_s
        return connection

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:  # of getaddrinfo
        family, kind, protocol = address[:3]
        made = socket.socket(family, kind, protocol)
        try:
            self._tcp_keepalive.apply(made)
        except OSError:
            made.close()
            raise
        return made
