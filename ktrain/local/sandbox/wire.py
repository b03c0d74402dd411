"""
How runner and helper talk: frames of JSON over a UNIX stream socket, file descriptors beside them (SCM_RIGHTS).

A frame is its length and its number of descriptors (two 32-bit numbers), then JSON. A stream, not packets: an
environment may be larger than a packet. Descriptors travel with the first bytes of their frame, and the kernel keeps
their order, so a reader takes them off a queue. Used on both sides; imports the standard library only, as the helper
must.
"""

from __future__ import annotations

import array
import json
import socket
import struct
from collections import deque

TYPE_CHECKING = False  # Not imported: `typing` would cost the helper a quarter of its start.
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    # `Any` because this is a JSON edge; who sends what is said in `helper.holder` and `helper.pod`.
    Frame: TypeAlias = dict[str, Any]

_HEADER = struct.Struct("=II")
_MAX_FDS = 16
_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)  # Linux only.


def encode(frame: Frame, fd_count: int = 0) -> bytes:
    """Return the bytes of a frame that `fd_count` descriptors go with."""
    body = json.dumps(frame, separators=(",", ":")).encode()
    return _HEADER.pack(len(body), fd_count) + body


def send_some(sock: socket.socket, data: bytes | memoryview, fds: tuple[int, ...] = ()) -> int:
    """Send what fits, and the descriptors with it; return the number of bytes sent. OSErrors of the socket."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    return sock.sendmsg([data], rights)


def send(sock: socket.socket, frame: Frame, fds: tuple[int, ...] = ()) -> None:
    """Send a frame on a blocking socket. OSErrors of the socket."""
    data = encode(frame, len(fds))
    sent = send_some(sock, data, fds)
    if sent < len(data):
        sock.sendall(data[sent:])


class Reader:
    """Cuts what arrives on a socket into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._fds: deque[int] = deque()

    def receive(self, sock: socket.socket) -> list[tuple[Frame, tuple[int, ...]]] | None:
        """
        Read once and return the frames that are complete, each with its descriptors (close-on-exec); None at the end.

        A peer that died without reading counts as the end. BlockingIOError if the socket has nothing and must not wait.
        """
        try:
            # Not socket.recv_fds: in Python 3.11 it drops its flags, and descriptors would leak into programs.
            data, rights, _, _ = sock.recvmsg(1 << 16, socket.CMSG_LEN(_MAX_FDS * 4), _CLOSE_ON_EXEC)
        except ConnectionResetError:
            return None
        if not data:
            return None
        for _, _, fds in rights:
            self._fds.extend(array.array("i", fds[: len(fds) // 4 * 4]))
        self._buffer += data
        return self._frames()

    def _frames(self) -> list[tuple[Frame, tuple[int, ...]]]:
        frames = []
        while len(self._buffer) >= _HEADER.size:
            size, fd_count = _HEADER.unpack_from(self._buffer)
            end = _HEADER.size + size
            if len(self._buffer) < end:
                break
            frame: Frame = json.loads(self._buffer[_HEADER.size : end])
            del self._buffer[:end]
            frames.append((frame, tuple(self._fds.popleft() for _ in range(fd_count))))
        return frames
