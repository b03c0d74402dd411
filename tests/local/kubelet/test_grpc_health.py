"""gRPC health probes, against servers that speak HTTP/2 as grpc's do: settings, pings and windows in between."""

import asyncio
import struct
from contextlib import asynccontextmanager

import pytest

from ktrain.local.kubelet.grpc_health import check

SETTINGS, PING, WINDOW, DATA, HEADERS, RST, GOAWAY = 4, 6, 8, 0, 1, 3, 7
SERVING, NOT_SERVING, UNKNOWN = b"\0\0\0\0\x02\x08\x01", b"\0\0\0\0\x02\x08\x02", b"\0\0\0\0\0"


def frame(kind, flags, payload=b"", stream=1):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + struct.pack(">I", stream) + payload


GREETING = (
    frame(SETTINGS, 0, b"\0\3\0\0\0\x64", 0) + frame(WINDOW, 0, b"\0\0\xff\xff", 0) + frame(PING, 0, b"12345678", 0)
)
TRAILERS = frame(HEADERS, 0x5, b"\x88")


@asynccontextmanager
async def server(*answer):
    """Answer one request with these frames; yields the port and what was received."""
    seen, over = [], asyncio.Event()

    async def serve(reader, writer):
        assert (await reader.readexactly(24)).startswith(b"PRI * HTTP/2.0")
        writer.write(GREETING)
        ended = False
        while not ended:
            head = await reader.readexactly(9)
            payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
            seen.append((head[3], head[4], payload))
            ended = head[3] == DATA and head[4] & 1
        for one in answer:
            writer.write(one)
        await writer.drain()
        seen.append(await reader.read(1000))
        writer.close()
        await writer.wait_closed()
        over.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        yield listening.sockets[0].getsockname()[1], seen
        await over.wait()


async def ask(port, service=""):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(5):
            return await check(reader, writer, "pod:1", service)
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([frame(HEADERS, 4, b"\x88"), frame(DATA, 0, SERVING), TRAILERS], None),
        ([frame(HEADERS, 4, b"\x88"), frame(DATA, 0, SERVING[:3]), frame(DATA, 1, SERVING[3:])], None),
        ([frame(HEADERS, 4, b"\x88"), frame(DATA, 8, b"\2" + SERVING + b"\0\0"), TRAILERS], None),
        ([frame(HEADERS, 4, b"\x88"), frame(DATA, 0, NOT_SERVING), TRAILERS], "is NOT_SERVING"),
        ([frame(HEADERS, 4, b"\x88"), frame(DATA, 0, UNKNOWN), TRAILERS], "is UNKNOWN"),
        ([TRAILERS], "does not know the service"),
        ([frame(RST, 0, b"\0\0\0\1")], "does not know the service"),
        ([frame(GOAWAY, 0, b"\0" * 8, 0)], "does not know the service"),
    ],
)
async def test_only_serving_is_healthy(answer, expected):
    async with server(*answer) as (port, _):
        said = await ask(port, "s")

    assert said is None if expected is None else expected in said


async def test_the_service_is_asked_for_and_the_servers_frames_are_answered():
    async with server(frame(DATA, 1, SERVING)) as (port, seen):
        await ask(port, "a.b")

    [settings, headers, data] = seen[:3]
    assert settings[0] == SETTINGS
    assert b"/grpc.health.v1.Health/Check" in headers[2]
    assert data[2] == b"\0\0\0\0\5\x0a\3a.b"
    acknowledged = frame(SETTINGS, 1, b"", 0) + frame(PING, 1, b"12345678", 0)
    assert acknowledged in b"".join(
        part if isinstance(part, bytes) else frame(part[0], part[1], part[2], 0) for part in seen[3:]
    )


async def test_what_speaks_something_else_is_an_error_not_a_wait():
    async def serve(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        with pytest.raises((ConnectionError, EOFError)):
            await ask(listening.sockets[0].getsockname()[1])
