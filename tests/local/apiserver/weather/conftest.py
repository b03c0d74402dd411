"""A server on a socket, and bytes to throw at it."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from ktrain.local.apiserver.front.http import serve_http

MAPS = "/api/v1/namespaces/default/configmaps"
AUTHORIZATION = b"Authorization: Bearer secret\r\n"


class Reply(NamedTuple):
    """The status and the body of the first answer; 0 and nothing if the connection ended without."""

    status: int
    body: bytes

    @property
    def message(self):
        return json.loads(self.body)["message"]


class Line:
    """A connection to a server, in plain bytes."""

    maps = MAPS

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    @staticmethod
    def request(method, path, body=b"", *headers):
        head = "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *headers, f"Content-Length: {len(body)}"])
        return head.encode() + b"\r\n" + AUTHORIZATION + b"\r\n" + body

    async def send(self, data):
        self.writer.write(data)
        with suppress(ConnectionError):  # it has answered already, and wants no more
            await self.writer.drain()

    async def reply(self, timeout_s=10.0):
        async with asyncio.timeout(timeout_s):
            try:
                head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            except (asyncio.IncompleteReadError, ConnectionError):
                return Reply(0, b"")
            lengths = [line.split(":")[1] for line in head.split("\r\n") if line.lower().startswith("content-length:")]
            body = await self.reader.readexactly(int(lengths[0])) if lengths else b""
            return Reply(int(head.split(" ", 2)[1]), body)


@pytest.fixture
async def port(server):
    async with serve_http(server, token="secret") as url:
        yield urlsplit(url).port


@pytest.fixture
def connect(port):
    @asynccontextmanager
    async def connect(**options):
        line = Line(*await asyncio.open_connection("127.0.0.1", port, **options))
        try:
            yield line
        finally:
            line.writer.transport.abort()

    return connect


@pytest.fixture
def ask(connect):
    """One request on a connection of its own."""

    async def ask(method, path, body=b"", *headers):
        async with connect() as line:
            await line.send(line.request(method, path, body, *headers))
            return await line.reply()

    return ask
