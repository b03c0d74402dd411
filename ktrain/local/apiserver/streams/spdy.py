"""
SPDY/3.1 framing, as far as `kubectl port-forward` needs it: streams that the client opens, data both ways, pings.

Kubernetes never left SPDY for port forwarding; since 1.30 its bytes travel inside the messages of a WebSocket
(KEP-4006), so there is no handshake and no flow control here: what a slow pod does not take makes the connection wait.
Frames: draft-mbelshe-httpbis-spdy-00, section 2.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY = 1, 2, 3, 4, 6, 7
DATA: Final = 0
"""Not a type of SPDY's, where data frames have none."""
FIN: Final = 0x01
_CONTROL: Final = 0x80000000
_VERSION: Final = 3
_FRAME_LIMIT: Final = 1 << 20
_HEADERS_LIMIT: Final = 1 << 16
# Both sides begin their compression with this text (2.6.10.1): names and values, each behind its length, then the rest.
_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_REST: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative "
    "Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 "
    "Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec "
    "00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8"
    "charset=iso-8859-1,utf-,*,enq=0."
)


def _text(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


DICTIONARY: Final = b"".join(_text(word.replace("_", " ").encode()) for word in _WORDS.split()) + _REST.encode()


class SpdyError(Exception):
    """The other side does not keep to the protocol; the connection is to be closed."""


@dataclass(frozen=True, slots=True)
class SpdyFrame:
    """One frame: its type, the stream it is about (0: none), and what it carries."""

    kind: int
    stream: int = 0
    flags: int = 0
    payload: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_last(self) -> bool:
        """Whether its sender will send nothing more on the stream."""
        return bool(self.flags & FIN)


class SpdyReader:
    """Cuts bytes into frames. The headers of all frames are one compressed text, so none may be left out."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[SpdyFrame]:
        """
        Yield the frames that are complete with this data.

        Raises:
            SpdyError: It is not SPDY, or a frame is too large.
        """
        self._buffer += data
        while len(self._buffer) >= 8:
            word, rest = struct.unpack_from(">II", self._buffer)
            length = rest & 0xFFFFFF
            if length > _FRAME_LIMIT:
                raise SpdyError(f"a frame of {length} bytes")
            if len(self._buffer) < 8 + length:
                return
            payload = bytes(self._buffer[8 : 8 + length])
            del self._buffer[: 8 + length]
            yield self._frame(word, rest >> 24, payload)

    def _frame(self, word: int, flags: int, payload: bytes) -> SpdyFrame:
        if not word & _CONTROL:
            return SpdyFrame(DATA, word, flags, payload)
        if (word >> 16) & 0x7FFF != _VERSION:
            raise SpdyError("it is not SPDY/3")
        kind = word & 0xFFFF
        if kind == SYN_STREAM:
            if len(payload) < 10:
                raise SpdyError("a SYN_STREAM that is too short")
            return SpdyFrame(kind, _number(payload), flags, headers=self._headers(payload[10:]))
        if kind == RST_STREAM and len(payload) == 8:
            return SpdyFrame(kind, _number(payload), flags, payload)
        return SpdyFrame(kind, 0, flags, payload)

    def _headers(self, data: bytes) -> Mapping[str, str]:
        try:
            block = self._inflate.decompress(data, _HEADERS_LIMIT)
            if self._inflate.unconsumed_tail:
                raise SpdyError("headers that are too large")
            found, position = {}, 4
            for _ in range(struct.unpack_from(">I", block)[0]):
                name, position = _read_text(block, position)
                value, position = _read_text(block, position)
                found[name.lower()] = value
        except (zlib.error, struct.error, UnicodeDecodeError) as error:
            raise SpdyError(f"headers that cannot be read: {error}") from error
        return found


class SpdyWriter:
    """Makes the frames of one side."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def reply(self, stream: int) -> bytes:
        """Return the acceptance of a stream, without headers."""
        block = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control(SYN_REPLY, struct.pack(">I", stream) + block)

    def data(self, stream: int, data: bytes, *, last: bool = False) -> bytes:
        """Return a piece of a stream."""
        return struct.pack(">II", stream, (FIN if last else 0) << 24 | len(data)) + data

    def pong(self, payload: bytes) -> bytes:
        """Return the answer to a ping."""
        return _control(PING, payload)

    def reset(self, stream: int) -> bytes:
        """Return the end of a stream that is of no use (CANCEL)."""
        return _control(RST_STREAM, struct.pack(">II", stream, 5))


def _control(kind: int, payload: bytes) -> bytes:
    return struct.pack(">II", _CONTROL | _VERSION << 16 | kind, len(payload)) + payload


def _number(payload: bytes) -> int:
    return int.from_bytes(payload[:4], "big") & 0x7FFFFFFF


def _read_text(block: bytes, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">I", block, position)
    end = position + 4 + length
    if end > len(block):
        raise struct.error("a text that is cut off")
    return block[position + 4 : end].decode(), end
