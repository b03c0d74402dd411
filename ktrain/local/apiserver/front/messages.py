"""
Bytes to requests and answers to bytes (RFC 9112), as pure functions.

Strict where two readers could understand two things: one length, no folded lines, no blanks around names.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD_END: Final = b"\r\n\r\n"
HEAD_LIMIT: Final = 1 << 20
"""Bytes of a head, and of the trailers behind the last chunk."""
LAST_CHUNK: Final = b"0\r\n\r\n"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

_REQUEST_LINE: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e]+) HTTP/1\.([01])")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00\r\n]*?)[ \t]*")
BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
_BREAKS: Final = str.maketrans({"\r": " ", "\n": " ", "\0": " "})
_STATUS_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}" for status in HTTPStatus}
_BODILESS: Final = frozenset({204, 304})


class BadMessage(ValueError):
    """Bytes that are no request; the text says why."""


class Head(NamedTuple):
    """A request up to its body. Header names are in lower case; bytes that are no UTF-8 are kept as surrogates."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    length: int
    """Bytes of the body; -1: it comes in chunks."""
    keep_alive: bool
    """Whether more requests may follow. Not in HTTP/1.0, whose few clients have one each."""
    upgrade: bool
    """It asks for a WebSocket; other protocols that are offered (h2c) are left alone."""
    continues: bool
    """The client waits to be told to send the body."""
    old: bool
    """HTTP/1.0, which knows no chunks."""


def parse_head(data: bytes) -> Head:
    """
    Read a request's head, without the empty line at its end.

    Raises:
        BadMessage: It is none.
    """
    first, *lines = data.split(b"\r\n")
    found = _REQUEST_LINE.fullmatch(first)
    if found is None:
        raise BadMessage("malformed request line")
    if b"%" in found[2] and BAD_ESCAPE.search(found[2].partition(b"?")[0].decode("ascii")):
        raise BadMessage("malformed escape in the path")
    headers: list[tuple[str, str]] = []
    special: dict[str, str] = {}
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise BadMessage("malformed header")
        name, value = field[1].decode("ascii").lower(), field[2].decode("utf-8", "surrogateescape")
        headers.append((name, value))
        if name in _SPECIAL:
            if name in special and name != "connection":
                raise BadMessage(f"more than one {name}")
            special[name] = f"{special[name]},{value}".lower() if name in special else value.lower()
    old = found[3] == b"0"
    connection = [token.strip() for token in special.get("connection", "").split(",")]
    return Head(
        method=found[1].decode("ascii"),
        target=found[2].decode("ascii"),
        headers=tuple(headers),
        length=_length(special),
        keep_alive=not old and "close" not in connection,
        upgrade="upgrade" in connection and special.get("upgrade") == "websocket",
        continues=special.get("expect") == "100-continue",
        old=old,
    )


_SPECIAL: Final = frozenset({"connection", "content-length", "transfer-encoding", "expect", "upgrade"})


def _length(special: dict[str, str]) -> int:
    length, encoding = special.get("content-length"), special.get("transfer-encoding")
    if encoding is not None:
        if length is not None:
            raise BadMessage("content-length beside transfer-encoding")
        if encoding != "chunked":
            raise BadMessage("unknown transfer-encoding")
        return -1
    if length is None:
        return 0
    if not (length.isascii() and length.isdecimal() and len(length) < 19):
        raise BadMessage("malformed content-length")
    return int(length)


class Chunks:
    """Takes a chunked body apart as it comes; `size` counts what has been put together."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._left = 0
        self._scanned = 0
        self._ending = False
        self._trailers = 0
        self.size = 0

    @property
    def body(self) -> bytes:
        """What has come so far."""
        return b"".join(self._parts)

    def feed(self, buffer: bytearray) -> bool:
        """
        Take what is there off the buffer; True when the body is complete.

        Raises:
            BadMessage: It is not chunked as said.
        """
        taken, complete = 0, False
        while not complete:
            if self._left:
                if len(buffer) - taken < self._left:
                    break
                taken = self._take(buffer, taken)
                continue
            end = buffer.find(b"\r\n", taken + self._scanned)
            if end < 0:
                if len(buffer) - taken > _LONGEST_LINE:
                    raise BadMessage("malformed chunk")
                self._scanned = max(len(buffer) - taken - 1, 0)
                break
            self._scanned = 0
            complete = self._read_line(bytes(buffer[taken:end]))
            taken = end + 2
        del buffer[:taken]
        return complete

    def _read_line(self, line: bytes) -> bool:
        """Take the size of a chunk, or a trailer, which nobody reads; True at the line that ends the body."""
        if self._ending:
            self._trailers += len(line) + 2
            if self._trailers > HEAD_LIMIT:
                raise BadMessage("trailers too large")
            return not line
        size = _CHUNK_SIZE.fullmatch(line)
        if size is None:
            raise BadMessage("malformed chunk size")
        number = int(size[1], 16)
        self.size += number
        self._ending = number == 0
        self._left = number + 2 if number else 0
        return False

    def _take(self, buffer: bytearray, start: int) -> int:
        end = start + self._left
        if buffer[end - 2 : end] != b"\r\n":
            raise BadMessage("malformed chunk")
        self._parts.append(bytes(buffer[start : end - 2]))
        self._left = 0
        return end


_LONGEST_LINE: Final = 4096


def answer_head(
    status: int, headers: Sequence[tuple[str, str]], *, date: str, length: int | None, keep_alive: bool
) -> bytes:
    """Return the head of an answer; `length` None: the body comes in chunks, or ends with the connection."""
    lines = [_STATUS_LINES.get(status) or f"HTTP/1.1 {status} Unknown", f"date: {date}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if length is not None and status not in _BODILESS:
        lines.append(f"content-length: {length}")
    if not keep_alive:
        lines.append("connection: close")
    text = "\r\n".join(lines)
    if text.count("\n") != len(lines) - 1 or "\0" in text:
        text = "\r\n".join(line.translate(_BREAKS) for line in lines)
    return f"{text}\r\n\r\n".encode("utf-8", "surrogateescape")


def chunk(data: bytes) -> bytes:
    """Return a part of a chunked body. Not for empty data, which would end it."""
    return b"%x\r\n%b\r\n" % (len(data), data)
