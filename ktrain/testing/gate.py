"""Bytes from socket to socket, and what may go wrong below HTTP. See `ktrain.testing.proxy`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

HOST: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 1 << 16
_FLUSH_S: Final = 1.0


class Gate:
    """
    Listens on a free port of the loopback interface and passes every connection on to another port.

    Attributes:
        port: Where it listens; stays the same while connections are refused.
    """

    def __init__(self) -> None:
        self.port = 0
        self._target = 0
        self._server: asyncio.Server | None = None
        self._passing = asyncio.Event()
        self._passing.set()
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    async def start(self, target: int) -> None:
        """Listen, and pass on to this port."""
        self._target = target
        await self.accept()

    async def stop(self) -> None:
        """Cut all connections and listen no more. Idempotent."""
        self.resume()
        await self.refuse()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def refuse(self) -> None:
        """Nobody listens any more, and every connection is cut."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.reset()

    async def accept(self) -> None:
        """Listen (again). The port is the one it always was."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, HOST, self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    def stall(self) -> None:
        """Half-open: connections are accepted and stay, but no byte passes in either direction."""
        self._passing.clear()

    def resume(self) -> None:
        """Let bytes pass again, those that came meanwhile first."""
        self._passing.set()

    def reset(self) -> None:
        """Cut every connection."""
        for writer in self._connections.values():
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            raise AssertionError("a connection is served by a task")
        self._connections[task] = writer
        try:
            await self._passing.wait()
            with suppress(OSError):  # Either side may go at any time: the other sees its connection end.
                await self._pass_on(reader, writer)
        finally:
            await _close(writer)
            del self._connections[task]

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection(HOST, self._target)
        directions = [
            asyncio.create_task(self._pump(reader, behind_writer), name="gate: up"),
            asyncio.create_task(self._pump(behind_reader, writer), name="gate: down"),
        ]
        try:
            # Whoever ends, ends both: nobody in HTTP keeps half a connection.
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            await _close(behind_writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            await self._passing.wait()
            writer.write(data)
            await writer.drain()


async def _close(writer: asyncio.StreamWriter) -> None:
    """Send what is left, unless nobody reads it."""
    writer.close()
    try:
        async with asyncio.timeout(_FLUSH_S):
            with suppress(OSError):
                await writer.wait_closed()
    except TimeoutError:
        writer.transport.abort()
