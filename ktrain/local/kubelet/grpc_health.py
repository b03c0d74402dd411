"""
The gRPC health protocol (grpc.health.v1), as probes ask it: one unary call over plain HTTP/2 (RFC 9113), by hand.

A probe sends one request of fixed shape and reads one number, for which a gRPC library is a large price. Headers are
sent as HPACK literals (RFC 7541, 6.2.2), which needs no tables; those of the answer are not read: an error is an answer
without a message.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_END_STREAM, _ACK, _END_HEADERS = 0x1, 0x1, 0x4
_PADDED: Final = 0x8
_STREAM: Final = 1
_FRAME_LIMIT: Final = 16384
_STATES: Final = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


async def check(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authority: str, service: str) -> str | None:
    """
    Ask a server whether a service (empty: the server as a whole) is healthy; return None, or why not.

    Raises:
        OSError: The connection broke.
        EOFError: The server closed it.
    """
    name = service.encode()
    message = b"\x0a" + _varint(len(name)) + name if name else b""
    body = b"\0" + struct.pack(">I", len(message)) + message
    writer.write(_PREFACE + _frame(_SETTINGS, 0, b"", stream=0))
    writer.write(_frame(_HEADERS, _END_HEADERS, _headers(authority)) + _frame(_DATA, _END_STREAM, body))
    answer = await _answer(reader, writer)
    if answer is None:
        return f"gRPC probe failed: the server does not know the service {service!r}, or not the health protocol"
    state = _STATES.get(_status(answer), "of a kind that is not known")
    return None if state == "SERVING" else f"gRPC probe failed: service {service!r} is {state}"


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
    """Return the message of the answer, None if there is none."""
    received = b""
    while True:
        kind, flags, stream, payload = await _read_frame(reader)
        if kind in {_SETTINGS, _PING} and not flags & _ACK:
            writer.write(_frame(kind, _ACK, payload if kind == _PING else b"", stream=0))
        elif kind == _GOAWAY or (kind == _RST_STREAM and stream == _STREAM):
            return None
        elif kind == _DATA and stream == _STREAM:
            received += payload[1 : len(payload) - payload[0]] if flags & _PADDED else payload
        if kind in {_DATA, _HEADERS} and stream == _STREAM and flags & _END_STREAM:
            return received[5:] if len(received) >= 5 else None


async def _read_frame(reader: asyncio.StreamReader) -> tuple[int, int, int, bytes]:
    head = await reader.readexactly(9)
    length = int.from_bytes(head[:3], "big")
    if length > _FRAME_LIMIT:
        raise ConnectionError("it does not speak HTTP/2")
    return head[3], head[4], int.from_bytes(head[5:9], "big") & 0x7FFFFFFF, await reader.readexactly(length)


def _frame(kind: int, flags: int, payload: bytes, *, stream: int = _STREAM) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _headers(authority: str) -> bytes:
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/grpc.health.v1.Health/Check",
        ":authority": authority,
        "content-type": "application/grpc",
        "te": "trailers",
        "user-agent": "kube-probe/ktrain",
    }
    return b"".join(b"\0" + _literal(name) + _literal(value) for name, value in fields.items())


def _literal(text: str) -> bytes:
    """Return a string as it is (RFC 7541, 5.2); none of ours is longer than 126 bytes."""
    data = text.encode()
    return bytes([len(data)]) + data


def _varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def _status(message: bytes) -> int:
    """Read field 1 of a HealthCheckResponse; a message without it says 0."""
    return message[1] if len(message) >= 2 and message[0] == 0x08 else 0
