"""
HTTP/1.1 over TLS as cheap as Python has it, for programs that put load on a server: one request after the other.

A client that costs as much as the server measures itself. This one knows the few things that an API server does: bodies
with a length, and chunked ones. It checks statuses and reads nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

_END = b"\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a server is, and what it wants to know."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    token: str

    @classmethod
    def of(cls, kubeconfig: str) -> Target:
        """Read the first cluster and user of a kubeconfig."""
        document = yaml.safe_load(Path(kubeconfig).read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        url = urlsplit(cluster["server"])
        context = None
        if url.scheme == "https":
            data = cluster.get("certificate-authority-data")
            pem = base64.b64decode(data).decode() if data else Path(cluster["certificate-authority"]).read_text()
            context = ssl.create_default_context(cadata=pem)
        return cls(url.hostname or "", url.port or 443, context, user["token"])

    def request(self, method: str, path: str, body: bytes = b"", media: str = "application/json") -> bytes:
        """A whole request."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\nAuthorization: Bearer {self.token}\r\n"
            f"Accept: application/json\r\nContent-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


class Connection(asyncio.Protocol):
    """One connection: `call` sends a request and waits for its answer; `follow` hands on what a watch sends."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[int] | None = None
        self._sink: Callable[[bytes], None] | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._wanted: int | None = None
        self._status = 0

    @classmethod
    async def to(cls, target: Target) -> Connection:
        """Connect."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, target.host, target.port, ssl=target.tls)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.abort()

    async def call(self, request: bytes) -> int:
        """
        Send a request; returns the bytes of the answer's body.

        Raises:
            RuntimeError: The server refused, or closed the connection.
        """
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def follow(self, request: bytes, sink: Callable[[bytes], None]) -> None:
        """Send a request whose answer never ends; `sink` gets its bytes as they come, framing included."""
        assert self._transport is not None
        self._sink = sink
        self._transport.write(request)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(RuntimeError(f"the server closed the connection: {exc}"))

    def data_received(self, data: bytes) -> None:
        if self._sink is not None:
            self._sink(data)
            return
        if not self._status:
            head, separator, rest = b"".join((*self._parts, data)).partition(_END)
            if not separator:
                self._parts = [head]
                return
            self._status, self._wanted = int(head[9:12]), _length(head)
            self._parts, data = [], rest
        self._parts.append(data)
        self._size += len(data)
        if self._is_complete():
            self._finish()

    def _is_complete(self) -> bool:
        if self._wanted is not None:
            return self._size >= self._wanted
        return b"".join(self._parts[-2:]).endswith(_LAST_CHUNK)

    def _finish(self) -> None:
        answer, parts, status, size = self._answer, self._parts, self._status, self._size
        self._answer, self._parts, self._status, self._size = None, [], 0, 0
        if answer is None:
            raise RuntimeError("an answer that nobody asked for")
        if status >= 300:
            answer.set_exception(RuntimeError(f"status {status}: {b''.join(parts)[:2000]!r}"))
        else:
            answer.set_result(size)


def _length(head: bytes) -> int | None:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return None
