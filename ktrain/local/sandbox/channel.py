"""
The runner's end of a socket to the helper or to a pod: requests with answers, and events, on the event loop.

Nothing here blocks: what the socket does not take at once waits in an outbox, in order.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from typing import TYPE_CHECKING

from ktrain.local.sandbox import wire
from ktrain.local.sandbox.executor import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrain.local.sandbox.wire import Frame


class Refused(SandboxError):
    """The other side could not do what was asked. The message is its sentence."""

    def __init__(self, message: str, errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno


class Channel:
    """One socket, owned: `close` closes it. Must be made on a running event loop."""

    def __init__(self, sock: socket.socket, on_event: Callable[[Frame], None], on_end: Callable[[], None]) -> None:
        sock.settimeout(0)
        self._socket = sock
        self._on_event = on_event
        self._on_end = on_end
        self._reader = wire.Reader()
        self._outbox: deque[tuple[memoryview, tuple[int, ...]]] = deque()
        self._answers: dict[int, asyncio.Future[tuple[Frame, tuple[int, ...]]]] = {}
        self._next_id = 0
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._read)
        self._open = True

    @property
    def is_open(self) -> bool:
        """Whether the other side is still there, as far as is known."""
        return self._open

    async def request(self, frame: Frame, fds: tuple[int, ...] = ()) -> tuple[Frame, tuple[int, ...]]:
        """
        Send and wait for the answer; returns it with the descriptors that came along, now the caller's.

        `fds` are duplicated, so the caller may close them at once. Cancelled: the answer is dropped, its descriptors
        closed.

        Raises:
            Refused: The other side says why not.
            SandboxError: The other side is gone.
        """
        self._next_id += 1
        answer = self._answers[self._next_id] = self._loop.create_future()
        try:
            self.send(frame | {"id": self._next_id}, fds)
            result, passed = await answer
        finally:
            self._answers = {key: future for key, future in self._answers.items() if future is not answer}
        if "error" in result:
            raise Refused(result["error"], result.get("errno"))
        return result, passed

    def send(self, frame: Frame, fds: tuple[int, ...] = ()) -> None:
        """Send without an answer. SandboxError when the other side is gone."""
        if not self._open:
            raise SandboxError("the process that held the sandbox is gone")
        self._outbox.append((memoryview(wire.encode(frame, len(fds))), tuple(os.dup(fd) for fd in fds)))
        if len(self._outbox) == 1:
            self._write()

    def finish(self) -> None:
        """Tell the other side that nothing more will come; it may still end in its own time, which `on_end` tells."""
        if self._open:
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the socket: for the other side this is the end. Waiting requests fail. Idempotent."""
        if not self._open:
            return
        self._open = False
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for _, fds in self._outbox:
            _close_all(fds)
        self._outbox.clear()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(SandboxError("the process that held the sandbox is gone"))
        self._on_end()

    def _write(self) -> None:
        while self._outbox:
            data, fds = self._outbox[0]
            try:
                sent = wire.send_some(self._socket, data, fds)
            except BlockingIOError:
                self._loop.add_writer(self._socket, self._write)
                return
            except OSError:
                self.close()
                return
            _close_all(fds)
            if sent == len(data):
                self._outbox.popleft()
            else:
                self._outbox[0] = (data[sent:], ())
        self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        try:
            frames = self._reader.receive(self._socket)
        except BlockingIOError:
            return
        if frames is None:
            self.close()
            return
        for frame, fds in frames:
            answer = self._answers.get(frame["id"]) if "id" in frame else None
            if "id" not in frame:
                self._on_event(frame)
            elif answer is None or answer.done():
                _close_all(fds)
            else:
                answer.set_result((frame, fds))


def _close_all(fds: tuple[int, ...]) -> None:
    for fd in fds:
        os.close(fd)
