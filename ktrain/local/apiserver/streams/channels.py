"""
The remote command protocol: a program's streams as channels of one WebSocket (KEP-4006).

Every message is binary, its first byte is the channel: 0 stdin, 1 stdout, 2 stderr, 3 how it ended (a `v1.Status`),
4 the size of the terminal as JSON. Version 5 adds 255, by which a client closes its stdin and stays to listen.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final, Protocol

import structlog

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.requests import Connection

CHANNEL_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255

log = structlog.get_logger(__name__)


class Session(Protocol):
    """A program whose streams somebody far away reads and writes. Ended by `aclose`."""

    async def read(self) -> tuple[int, bytes] | None:
        """Return the next output as (STDOUT or STDERR, bytes), None when all has been read."""

    async def write(self, data: bytes) -> None:
        """Write to standard input, waiting while it is full. Dropped when nobody reads it any more."""

    def end_input(self) -> None:
        """Close standard input."""

    def resize(self, width: int, height: int) -> None:
        """Tell the terminal its size in characters."""

    async def exit_code(self) -> int | None:
        """Return the exit code once it has ended; None: there is none to tell (attach)."""

    async def aclose(self) -> None:
        """End it: a command is killed, an attached process goes on. Idempotent."""


async def serve_session(session: Session, connection: Connection, *, half_close: bool) -> None:
    """
    Carry a session over a connection until either ends; the session is then closed.

    Cancelled: the session is closed.
    """
    try:
        # The first message tells the client that the connection stands (as the kubelet does).
        await connection.send(bytes([STDOUT]))
        reading = asyncio.create_task(_read_client(session, connection, half_close=half_close), name="stream.input")
        writing = asyncio.create_task(_write_client(session, connection), name="stream.output")
        try:
            await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (reading, writing):
                task.cancel()
            outcomes = await asyncio.gather(reading, writing, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception) and not isinstance(outcome, ConnectionError):
                raise outcome
    finally:
        await session.aclose()


async def refuse(connection: Connection, message: str) -> None:
    """Say on a connection that there is no session, and close it."""
    status = {"metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500, "message": message}
    await connection.send(bytes([ERROR]) + json.dumps(status).encode())
    await connection.aclose()


async def _write_client(session: Session, connection: Connection) -> None:
    while (output := await session.read()) is not None:
        channel, data = output
        await connection.send(bytes([channel]) + data)
    await connection.send(bytes([ERROR]) + json.dumps(_status(await session.exit_code())).encode())
    await connection.aclose()


async def _read_client(session: Session, connection: Connection, *, half_close: bool) -> None:
    """Pass on what the client sends; returns when the client is gone."""
    while (message := await connection.receive()) is not None:
        channel, data = (message[0], message[1:]) if message else (STDIN, b"")
        if channel == STDIN and data:
            await session.write(data)
        elif channel == RESIZE:
            _resize(session, data)
        elif channel == CLOSE and half_close and data == bytes([STDIN]):
            session.end_input()


def _resize(session: Session, data: bytes) -> None:
    try:
        size = json.loads(data)
        width, height = int(size["Width"]), int(size["Height"])
    except (ValueError, TypeError, KeyError):
        log.debug("stream.bad_size", data=data[:100])
        return
    if 0 < width < 65536 and 0 < height < 65536:
        session.resize(width, height)


def _status(code: int | None) -> Json:
    if not code:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
