"""The tunnel of `pods/portforward`: SPDY as kubectl speaks it, and as nobody should."""

import asyncio
import socket
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrain.local.apiserver.streams.connecting import StreamUnavailable
from ktrain.local.apiserver.streams.portforward import Tunnel
from ktrain.local.apiserver.streams.spdy import (
    DATA,
    DICTIONARY,
    PING,
    RST_STREAM,
    SYN_REPLY,
    SYN_STREAM,
    SpdyError,
    SpdyReader,
    SpdyWriter,
)


class Client:
    """The far end of a tunnel: sends frames, and reads those of the server."""

    def __init__(self):
        self.to_server, self.to_client = asyncio.Queue(), asyncio.Queue()
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    async def receive(self):
        return await self.to_server.get()

    async def send(self, data):
        self.to_client.put_nowait(data)

    async def aclose(self):
        self.to_client.put_nowait(b"")

    def open(self, number, **headers):
        block = struct.pack(">I", len(headers))
        for name, value in headers.items():
            block += struct.pack(">I", len(name)) + name.encode() + struct.pack(">I", len(value)) + value.encode()
        payload = struct.pack(">IIH", number, 0, 0) + self._deflate.compress(block) + self._deflate.flush(2)
        return struct.pack(">II", 0x80030001, len(payload)) + payload

    def say(self, data):
        self.to_server.put_nowait(data)

    async def hear(self):
        """The next frame, without its headers: (kind, stream, flags, payload)."""
        async with asyncio.timeout(5):
            data = await self.to_client.get()
        word, rest = struct.unpack_from(">II", data)
        if word >> 31:
            return word & 0xFFFF, struct.unpack_from(">I", data, 8)[0], rest >> 24, data[12:]
        return DATA, word, rest >> 24, data[8:]


@pytest.fixture
async def tunnel():
    """A tunnel whose every connection ends at one socket pair; port 9 refuses."""
    client, (near, far) = Client(), socket.socketpair()

    async def connect(port):
        if port == 9:
            raise StreamUnavailable("nothing listens on port 9")
        near.settimeout(0)
        return near

    serving = asyncio.create_task(Tunnel(client, connect).serve())
    client.pod = far
    yield client
    client.to_server.put_nowait(None)
    async with asyncio.timeout(5):
        await serving
    near.close()
    far.close()


async def test_bytes_go_both_ways_and_each_end_is_passed_on(tunnel):
    writer = SpdyWriter()
    tunnel.say(tunnel.open(1, streamtype="error", port="80", requestid="0"))
    tunnel.say(tunnel.open(3, streamtype="data", port="80", requestid="0"))
    assert [(await tunnel.hear())[:2] for _ in range(2)] == [(SYN_REPLY, 1), (SYN_REPLY, 3)]
    tunnel.say(writer.data(3, b"ques"))
    tunnel.say(writer.data(3, b"tion", last=True))
    tunnel.pod.settimeout(5)
    heard = await asyncio.to_thread(lambda: b"".join(iter(lambda: tunnel.pod.recv(100), b"")))
    tunnel.pod.sendall(b"answer")
    tunnel.pod.close()

    assert heard == b"question"
    assert await tunnel.hear() == (DATA, 3, 0, b"answer")
    assert await tunnel.hear() == (DATA, 3, 1, b"")
    assert await tunnel.hear() == (DATA, 1, 1, b"")


async def test_why_there_is_no_connection_is_told_on_its_error_stream(tunnel):
    tunnel.say(tunnel.open(1, streamtype="error", port="9", requestid="7"))
    tunnel.say(tunnel.open(3, streamtype="data", port="9", requestid="7"))
    heard = [await tunnel.hear() for _ in range(5)]

    assert (DATA, 1, 0, b"error forwarding port 9: nothing listens on port 9") in heard
    assert heard[-1] == (DATA, 1, 1, b"")


async def test_pings_are_answered_and_streams_of_other_kinds_reset(tunnel):
    tunnel.say(struct.pack(">III", 0x80030006, 4, 77))
    tunnel.say(tunnel.open(1, streamtype="video", port="80"))
    tunnel.say(tunnel.open(3, streamtype="data", port="99999999"))

    assert (await tunnel.hear())[:2] == (PING, 77)
    assert [(await tunnel.hear())[:2] for _ in range(2)] == [(RST_STREAM, 1), (RST_STREAM, 3)]


@pytest.mark.parametrize(
    "said",
    [b"GET / HTTP/1.1\r\n\r\n" * 10, b"\x80\x03\x00\x01\x00\x00\x00\x02ab", b"\0\0\0\1\xff\xff\xff\xff"],
)
async def test_what_is_not_spdy_ends_the_tunnel(said):
    client = Client()
    client.say(said)
    async with asyncio.timeout(5):
        await Tunnel(client, lambda port: None).serve()

    assert client.to_client.get_nowait() == b""


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_an_error(data):
    try:
        for frame in SpdyReader().feed(data):
            assert frame.kind >= 0
    except SpdyError:
        pass


@given(st.lists(st.integers(1, 40), max_size=20))
def test_frames_are_cut_wherever_the_messages_end(cuts):
    client = Client()
    data = client.open(1, streamtype="error", port="1") + SpdyWriter().data(1, b"abc") + client.open(3, a="b")
    reader, found = SpdyReader(), []
    for cut in cuts:
        found += reader.feed(data[:cut])
        data = data[cut:]
    found += reader.feed(data)

    assert [frame.kind for frame in found] == [SYN_STREAM, DATA, SYN_STREAM]
    assert found[0].headers == {"streamtype": "error", "port": "1"}
