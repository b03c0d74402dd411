"""
aiohttp's connector, with the kernel's keepalive on each of its sockets.

This module imports aiohttp, so it is imported where a connection is about to be made, not before.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    import ssl

    from .keepalive import Keepalive


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

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:  # of getaddrinfo
        family, kind, protocol = address[:3]
        made = socket.socket(family, kind, protocol)
        try:
            self._tcp_keepalive.apply(made)
        except OSError:
            made.close()
            raise
        return made
