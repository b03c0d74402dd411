"""All connections of a listening socket, from the first to an orderly end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from .connection import Connection

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime

    from ktrain.local.apiserver.requests import Answer

    from .connection import Respond
    from .upgrades import Upgrades

STOP_TIMEOUT_S: Final = 1.0
_BACKLOG: Final = 1024
_HANDSHAKE_S: Final = 10.0
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Listener:
    """
    Serves the connections of any number of sockets.

    Args:
        respond: Answers requests.
        now: The wall time, for the Date of answers.
        too_large: Answers a body past the limit.
        too_slow: Answers a body that did not come in time.
        upgrades: Makes what serves requests that ask for another protocol; called with the first of them.
    """

    def __init__(
        self,
        respond: Respond,
        *,
        now: Callable[[], datetime],
        too_large: Answer,
        too_slow: Answer,
        upgrades: Callable[[], Upgrades],
    ) -> None:
        self.respond = respond
        self.too_large = too_large
        self.too_slow = too_slow
        self._now = now
        self._make_upgrades = upgrades
        self._upgrades: Upgrades | None = None
        self._connections: set[Connection] = set()
        self._second = 0
        self._date = ""

    @asynccontextmanager
    async def listening(self, bound: socket.socket, tls: ssl.SSLContext | None) -> AsyncIterator[None]:
        """
        Take connections from a bound socket, which is closed in the end.

        Raises:
            OSError: It cannot be listened on.
        """
        patience = _HANDSHAKE_S if tls is not None else None
        server = await asyncio.get_running_loop().create_server(
            self._connect, sock=bound, ssl=tls, backlog=_BACKLOG, ssl_handshake_timeout=patience
        )
        try:
            yield
        finally:
            server.close()

    async def aclose(self) -> None:
        """End all connections: a second is left for requests in progress."""
        if self._upgrades is not None:
            await self._upgrades.aclose()
        tasks = [task for connection in self._connections if (task := connection.task) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_TIMEOUT_S)
        for connection in tuple(self._connections):
            connection.abort()
        # Each is told of its end in the next turn of the loop, and then cancels what it did.
        await asyncio.sleep(0)
        if left := [task for task in tasks if not task.done()]:
            await asyncio.wait(left, timeout=STOP_TIMEOUT_S)

    # What connections ask of it

    def date(self) -> str:
        """Return the time as answers show it (RFC 9110, 5.6.7); made once a second."""
        now = self._now()
        second = int(now.timestamp())
        if second != self._second:
            day, month = _DAYS[now.weekday()], _MONTHS[now.month - 1]
            self._second, self._date = second, f"{day}, {now.day:02} {month} {now.year:04} {now:%H:%M:%S} GMT"
        return self._date

    def upgrade(self) -> asyncio.Protocol:
        """Return the protocol of a connection that becomes something else."""
        if self._upgrades is None:
            self._upgrades = self._make_upgrades()
        return self._upgrades.protocol()

    def enter(self, connection: Connection) -> None:
        """Remember a connection that has begun."""
        self._connections.add(connection)

    def leave(self, connection: Connection) -> None:
        """Forget a connection."""
        self._connections.discard(connection)

    def _connect(self) -> Connection:
        return Connection(self)
