"""
`pods/portforward`: connections of a client to ports of a pod, through the tunnel that kubectl speaks (`spdy`).

For each connection the client opens two streams with the same `requestID`: `data`, and `error`, on which it is told why
there is no connection. An error ends that connection, not the tunnel.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio
import structlog

from ktrain.local.apiserver.access.quoting import quote
from ktrain.local.apiserver.admission.subresources import admit_connect
from ktrain.local.apiserver.errors import bad_request
from ktrain.local.apiserver.reading import listing
from ktrain.local.apiserver.requests import Answer, Upgrade
from ktrain.local.apiserver.streams.connecting import StreamUnavailable, agent_of, agree
from ktrain.local.apiserver.streams.spdy import (
    DATA,
    GOAWAY,
    PING,
    RST_STREAM,
    SYN_STREAM,
    SpdyError,
    SpdyFrame,
    SpdyReader,
    SpdyWriter,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from anyio.abc import TaskGroup

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.requests import Connection

    Connect = Callable[[int], Awaitable[socket.socket]]
    """Connects to a port of the pod. StreamUnavailable."""

PROTOCOL: Final = "SPDY/3.1+portforward.k8s.io"
_CHUNK: Final = 32 * 1024
_QUEUED: Final = 16
"""Pieces that wait for the pod; then the whole tunnel waits."""

log = structlog.get_logger(__name__)


async def serve(backend: Backend, call: Call) -> Answer:
    """
    Answer a request to forward ports with an `Upgrade`.

    Raises:
        StatusError: 404 for the pod; 400 if it is not bound, or the client speaks another protocol.
    """
    await admit_connect(backend, call, _read_options(call))
    pod = listing.get_object(backend, call).obj
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {call.name} does not have a host assigned")
    source = agent_of(backend, pod).streams
    protocol = agree(call, (PROTOCOL,))

    async def serve_connection(connection: Connection) -> None:
        await Tunnel(connection, lambda port: source.connect(call.namespace, call.name, port)).serve()

    return Answer(101, headers=(), upgrade=Upgrade(protocol, serve_connection))


def _read_options(call: Call) -> Json:
    """
    Return a request's PodPortForwardOptions. The ports are for admission only: the streams name theirs.

    Raises:
        StatusError: 400: a port is no number.
    """
    given = [part for name, value in call.request.query if name == "ports" for part in value.split(",")]
    options: Json = {"kind": "PodPortForwardOptions", "apiVersion": "v1"}
    for part in given:
        if not (part.isascii() and part.isdecimal()):
            problem = f"parsing {quote(part)}: invalid syntax"
            raise bad_request(f"cannot convert to []int32: strconv.ParseUint: {problem}")
    return {**options, "ports": [int(part) for part in given]} if given else options


@dataclass(slots=True)
class _Stream:
    """What the client sends on one stream; None is its end."""

    incoming: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(_QUEUED))
    ended: bool = False

    async def take(self, frame: SpdyFrame) -> None:
        if self.ended:
            return
        if frame.payload:
            await self.incoming.put(frame.payload)
        if frame.is_last:
            self.ended = True
            await self.incoming.put(None)

    def give_up(self) -> None:
        """Take nothing more, and let go who waits to hand it over."""
        self.ended = True
        while not self.incoming.empty():
            self.incoming.get_nowait()


class Tunnel:
    """One client's connections."""

    def __init__(self, connection: Connection, connect: Connect) -> None:
        self._connection = connection
        self._connect = connect
        self._writer = SpdyWriter()
        self._streams: dict[int, _Stream] = {}
        self._errors: dict[str, int] = {}
        self._scopes: dict[int, anyio.CancelScope] = {}

    async def serve(self) -> None:
        """Forward until the client goes away; then all its connections are closed."""
        reader = SpdyReader()
        try:
            async with anyio.create_task_group() as forwards:
                while (message := await self._connection.receive()) is not None:
                    for frame in reader.feed(message):
                        if frame.kind == GOAWAY:
                            break
                        await self._handle(frame, forwards)
                forwards.cancel_scope.cancel()
        except* SpdyError as errors:
            log.debug("portforward.not_spdy", error=str(errors.exceptions[0]))
        except* ConnectionError:
            log.debug("portforward.client_gone")
        await self._connection.aclose()

    async def _handle(self, frame: SpdyFrame, forwards: TaskGroup) -> None:
        if frame.kind == SYN_STREAM:
            await self._open(frame, forwards)
        elif frame.kind == DATA and (stream := self._streams.get(frame.stream)) is not None:
            await stream.take(frame)
        elif frame.kind == RST_STREAM:
            self._streams.pop(frame.stream, None)
            if (scope := self._scopes.get(frame.stream)) is not None:
                scope.cancel()
        elif frame.kind == PING:
            await self._connection.send(self._writer.pong(frame.payload))

    async def _open(self, frame: SpdyFrame, forwards: TaskGroup) -> None:
        kind, request, port = (frame.headers.get(name, "") for name in ("streamtype", "requestid", "port"))
        if kind not in {"error", "data"} or not port.isdecimal() or not 0 < int(port) < 65536:
            await self._connection.send(self._writer.reset(frame.stream))
            return
        await self._connection.send(self._writer.reply(frame.stream))
        stream = self._streams[frame.stream] = _Stream()
        if kind == "error":
            self._errors[request] = frame.stream
            self._streams.pop(frame.stream)  # The client says nothing on it.
            return
        forwards.start_soon(self._forward, frame.stream, stream, self._errors.pop(request, 0), int(port))

    async def _forward(self, number: int, stream: _Stream, error: int, port: int) -> None:
        with anyio.CancelScope() as scope:
            self._scopes[number] = scope
            try:
                await self._carry(number, stream, port)
            except (StreamUnavailable, OSError) as refusal:
                if error:
                    message = f"error forwarding port {port}: {refusal}"
                    await self._connection.send(self._writer.data(error, message.encode()))
                await self._connection.send(self._writer.data(number, b"", last=True))
            finally:
                stream.give_up()
                del self._scopes[number]
                self._streams.pop(number, None)
        if error:
            await self._connection.send(self._writer.data(error, b"", last=True))

    async def _carry(self, number: int, stream: _Stream, port: int) -> None:
        reader, writer = await asyncio.open_connection(sock=await self._connect(port))
        try:
            async with anyio.create_task_group() as ways:
                ways.start_soon(_to_pod, stream, writer)
                while data := await reader.read(_CHUNK):
                    await self._connection.send(self._writer.data(number, data))
                await self._connection.send(self._writer.data(number, b"", last=True))
                ways.cancel_scope.cancel()  # Nobody reads in the pod any more.
        except* OSError as errors:
            raise errors.exceptions[0] from None
        finally:
            writer.close()


async def _to_pod(stream: _Stream, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):  # Told by the other way.
        while (data := await stream.incoming.get()) is not None:
            writer.write(data)
            await writer.drain()
        writer.write_eof()
