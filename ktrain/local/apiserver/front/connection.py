"""
One connection: it reads a request, has it answered, and begins again.

    head ── body ── answer ──┐        upgrade: the transport gets another protocol
     └──────── keep alive ───┘        refused: told so, and closed when that has been read

One request is in progress at a time; what a client sends meanwhile waits in the socket. Time is limited everywhere by
one timer per connection, which looks at a deadline: moving that costs nothing. A client that goes away cancels its
request, which is what ends an idle watch.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

import structlog

from ktrain.local.apiserver.front.inprocess import aclose_chunks

from .messages import (
    CONTINUE,
    HEAD_END,
    HEAD_LIMIT,
    LAST_CHUNK,
    BadMessage,
    Chunks,
    Head,
    answer_head,
    chunk,
    parse_head,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from typing import Protocol

    from ktrain.local.apiserver.requests import Answer

    Respond = Callable[[Head, bytes, object], Awaitable[Answer]]
    """Answers a request from its head, its body and the certificate that the client showed."""

    class Shop(Protocol):
        """What all connections of a listener share."""

        respond: Respond
        too_large: Answer
        too_slow: Answer

        def date(self) -> str:
            """Return the time as answers show it."""

        def upgrade(self) -> asyncio.Protocol:
            """Return the protocol of a connection that becomes something else."""

        def enter(self, connection: Connection) -> None:
            """The connection has begun."""

        def leave(self, connection: Connection) -> None:
            """The connection has ended."""


HEAD_TIMEOUT_S: Final = 30.0
"""From the connection to the end of the first request's head."""
KEEP_ALIVE_S: Final = 75.0
"""From an answer to the end of the next request's head."""
BODY_TIMEOUT_S: Final = 60.0
"""For a whole body to come."""
STALLED_S: Final = 60.0
"""How long an answer waits for its reader, with all buffers full."""
LINGER_S: Final = 1.0
"""How long a client may read why it was refused, while it still sends."""
BODY_LIMIT: Final = 3 << 20
_AHEAD: Final = 1 << 16
"""Bytes of later requests that are taken from the socket while one is in progress."""
_FOREVER: Final = float("inf")

log = structlog.get_logger(__name__)


class Connection(asyncio.Protocol):
    """A connection of a client; made for each by `Listener`."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = _FOREVER
        self._is_tls = False
        self._buffer = bytearray()
        self._scanned = 0
        self._head: Head | None = None
        self._chunks: Chunks | None = None
        self._task: asyncio.Task[None] | None = None
        self._refused = False
        self._is_paused = False
        self._writable: asyncio.Future[None] | None = None

    @property
    def task(self) -> asyncio.Task[None] | None:
        """The request in progress, if there is one."""
        return self._task

    def abort(self) -> None:
        """End the connection at once."""
        self._transport.abort()

    # What the transport tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._shop.enter(self)
        self._is_tls = transport.get_extra_info("sslcontext") is not None
        self._set_deadline(HEAD_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the request in progress: nobody waits for its answer."""
        self._end()
        self._shop.leave(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        if self._refused:
            return
        self._buffer += data
        if self._task is None:
            self._advance()
        elif len(self._buffer) > _AHEAD and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """The client does not read as fast as it is written to."""
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        """It has caught up."""
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # Requests

    def _advance(self) -> None:
        """Go on with what is in the buffer."""
        try:
            if self._head is None and not self._read_head():
                return
            if self._head is not None:
                self._read_body(self._head)
        except BadMessage as error:
            self._refuse(400, f"400 Bad Request: {error}\n".encode())

    def _read_head(self) -> bool:
        while self._buffer.startswith(b"\r\n"):
            del self._buffer[:2]  # some clients end a body with one too many
        if self._buffer and not self._buffer[:1].isalpha():
            raise BadMessage("malformed request line")
        end = self._buffer.find(HEAD_END, max(self._scanned - len(HEAD_END), 0))
        self._scanned = len(self._buffer) if end < 0 else 0
        if end > HEAD_LIMIT or (end < 0 and len(self._buffer) > HEAD_LIMIT):
            self._refuse(431, b"431 Request Header Fields Too Large\n")
            return False
        if end < 0:
            return False
        head = parse_head(bytes(self._buffer[:end]))
        if head.upgrade:
            self._hand_over()
            return False
        del self._buffer[: end + len(HEAD_END)]
        self._head = head
        self._chunks = Chunks() if head.length < 0 else None
        if head.length:
            self._set_deadline(BODY_TIMEOUT_S)
            if head.continues and not self._buffer and head.length <= BODY_LIMIT:
                self._transport.write(CONTINUE)
        return True

    def _read_body(self, head: Head) -> None:
        if head.length > BODY_LIMIT:
            self._refuse_with(self._shop.too_large)
        elif self._chunks is not None:
            complete = self._chunks.feed(self._buffer)
            if self._chunks.size > BODY_LIMIT:
                self._refuse_with(self._shop.too_large)
            elif complete:
                self._begin(head, self._chunks.body)
        elif len(self._buffer) >= head.length:
            body = bytes(self._buffer[: head.length])
            del self._buffer[: head.length]
            self._begin(head, body)

    def _begin(self, head: Head, body: bytes) -> None:
        self._head = None
        self._deadline = _FOREVER
        self._task = self._loop.create_task(self._serve(head, body), name="http.request")

    async def _serve(self, head: Head, body: bytes) -> None:
        try:
            answer = await self._shop.respond(head, body, self._transport.get_extra_info("peercert"))
            if answer.chunks is None:
                self._write_whole(answer, keep_alive=head.keep_alive)
                if self._writable is not None:
                    await self._until_writable()
            else:
                await self._stream(head, answer, answer.chunks)
        except TimeoutError:
            log.debug("http.client_stalled", path=head.target)
            self.abort()
        except Exception:
            # Its head may have been sent: the end of the connection is all that the client can be told.
            log.exception("http.answer_failed", path=head.target)
            self.abort()
        else:
            self._finish(keep_alive=head.keep_alive)

    def _finish(self, *, keep_alive: bool) -> None:
        self._task = None
        if self._transport.is_closing():
            return
        if not keep_alive:
            self._transport.close()
            return
        self._set_deadline(KEEP_ALIVE_S)
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()
        if self._buffer:
            self._advance()

    # Answers

    def _write_whole(self, answer: Answer, *, keep_alive: bool) -> None:
        body = answer.body
        head = answer_head(
            answer.status, answer.headers, date=self._shop.date(), length=len(body), keep_alive=keep_alive
        )
        if len(body) > _AHEAD:
            self._transport.write(head)
            self._transport.write(body)
        else:
            self._transport.write(head + body)

    async def _stream(self, head: Head, answer: Answer, chunks: AsyncIterator[bytes]) -> None:
        framed = not head.old
        # Without chunks only the connection's end says where the body ends.
        headers = [*answer.headers, ("transfer-encoding", "chunked")] if framed else answer.headers
        date = self._shop.date()
        written = answer_head(answer.status, headers, date=date, length=None, keep_alive=head.keep_alive)
        self._transport.write(written)
        try:
            if head.method != "HEAD":
                async for data in chunks:
                    if data:
                        self._transport.write(chunk(data) if framed else data)
                    if self._writable is not None:
                        await self._until_writable()
                if framed:
                    self._transport.write(LAST_CHUNK)
        finally:
            await aclose_chunks(chunks)

    async def _until_writable(self) -> None:
        async with asyncio.timeout(STALLED_S):
            while self._writable is not None:
                await asyncio.shield(self._writable)

    def _refuse(self, status: int, text: bytes) -> None:
        headers = [("content-type", "text/plain; charset=utf-8")]
        head = answer_head(status, headers, date=self._shop.date(), length=len(text), keep_alive=False)
        self._transport.write(head + text)
        self._linger()

    def _refuse_with(self, answer: Answer) -> None:
        self._write_whole(answer, keep_alive=False)
        self._linger()

    def _linger(self) -> None:
        """Let the client read the refusal: closing a socket with unread bytes would take it away."""
        self._refused = True
        self._buffer.clear()
        if not self._is_tls:
            self._transport.write_eof()
        self._set_deadline(LINGER_S)

    # Time, and the end

    def _set_deadline(self, seconds: float) -> None:
        self._deadline = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._deadline:
            self._stop_timer()
            if seconds < _FOREVER:
                self._timer = self._loop.call_at(self._deadline, self._look_at_deadline)

    def _look_at_deadline(self) -> None:
        self._timer = None
        if self._deadline > self._loop.time():
            # It has moved on meanwhile; while a request is in progress there is none.
            if self._deadline < _FOREVER:
                self._timer = self._loop.call_at(self._deadline, self._look_at_deadline)
        elif self._refused:
            self._transport.abort()
        elif self._head is not None:
            self._refuse_with(self._shop.too_slow)
        else:
            self._transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hand_over(self) -> None:
        received = bytes(self._buffer)
        protocol = self._shop.upgrade()
        self._end()
        self._shop.leave(self)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(received)

    def _end(self) -> None:
        self._stop_timer()
        if self._task is not None:
            self._task.cancel()
        self.resume_writing()
