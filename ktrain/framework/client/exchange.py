"""
One request and its whole answer, on a connection that aiohttp makes, keeps and reads.

aiohttp's own way from a request to an answer is made for the web: cookies, redirects, bodies of any kind, a task that
writes them, an object for each side. A call of an API server is some bytes there and some bytes back; sent as such it
costs half as much. Connections, TLS, proxies and the parser are aiohttp's: `Connector.connect` gives a connection, and
the protocol of that reads one answer for each `set_response_params`.

Fencing: all of a request is one write, with a look at the clock right before it. So nothing leaves a process that was
stopped and continued after its time.

Kept connections: one that the server closed, or on which it said what nobody asked for, is dropped before anything is
written. If the server closes one just when it was taken, a read is sent once more on another; a write is not, as it may
have been done, and somebody else may have changed the object since.

This module imports aiohttp, so it is imported where a connection is about to be made, not before.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

import aiohttp
from aiohttp.http import HttpProcessingError
from yarl import URL

from .transport import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection

    from .connector import Connector

FAILURES: Final = (aiohttp.ClientError, HttpProcessingError, TimeoutError, OSError)
"""What `Exchanges.call` raises if there is no answer."""
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods of requests that may reach the server twice. They also need no length if they have no body."""
_FRAMING: Final = frozenset({"content-length", "transfer-encoding"})
"""Headers that say where a request ends."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_BLANK: Final = re.compile(r"\s")


class Exchanges:
    """
    Calls of one server on the connections of one connector.

    Args:
        connector: Makes and keeps the connections; closed with this object.
        url: Of the server.
        headers: Of every request.
        proxy: URL of the proxy to go through, if any.
        server_name: To check the server's certificate by, if not by the host of the URL.
        connect_s: For making one connection.
        buffer_bytes: Of an answer, before the server is made to wait.
    """

    def __init__(
        self,
        connector: Connector,
        url: str,
        *,
        headers: Mapping[str, str],
        proxy: str | None,
        server_name: str | None,
        connect_s: float,
        buffer_bytes: int,
    ) -> None:
        self.connector: Final = connector
        # Connections are chosen and made for a request; what they need of it is the same for all of ours.
        self._like = aiohttp.ClientRequest(
            "GET", URL(url, encoded=True), proxy=URL(proxy) if proxy else None, server_hostname=server_name
        )
        self._headers = {"Host": self._like.headers["Host"], **headers}
        # A proxy that sees the requests themselves is told where each goes.
        self._goes_plainly_by_proxy = proxy is not None and not self._like.is_ssl()
        self._origin = str(self._like.url.origin()) if self._goes_plainly_by_proxy else ""
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s)
        self._buffer_bytes = buffer_bytes
        self._kept: WeakSet[ResponseHandler] = WeakSet()

    async def call(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Response:
        """
        Send a request and read its answer; `target` is path and query, `deadline_s` by the loop's clock.

        Raises:
            FAILURES: There was no answer.
            ValueError: A header or the target holds a line break or another control character, the target a blank, or
                a header says where the request ends.
        """
        may_repeat = method in _READS
        async with asyncio.timeout_at(deadline_s):
            while True:
                connection, was_kept = await self._connection()
                try:
                    # Only now: connecting may bring the login for a proxy.
                    request = self._request(method, target, headers, body)
                    return await self._exchange(connection, method, request, deadline_s)
                except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
                    # The server may have closed a kept connection just when it was taken.
                    if not (may_repeat and was_kept):
                        raise
                    may_repeat = False
                finally:
                    connection.close()  # which does nothing to one that was given back

    async def aclose(self) -> None:
        """Close all connections, also those in use."""
        await self.connector.close()

    async def _connection(self) -> tuple[Connection, bool]:
        """A connection to write to, and whether it was kept from an earlier call."""
        while True:
            connection = await self.connector.connect(self._like, [], self._timeout)
            protocol = connection.protocol
            was_kept = protocol in self._kept
            if protocol is not None and protocol.is_connected() and not protocol.should_close:
                return connection, was_kept
            connection.close()
            if not was_kept:
                raise aiohttp.ServerDisconnectedError("the server closed the connection, or spoke first")

    async def _exchange(self, connection: Connection, method: str, request: bytes, deadline_s: float) -> Response:
        protocol, transport = connection.protocol, connection.transport
        if protocol is None or transport is None:
            raise aiohttp.ServerDisconnectedError
        if asyncio.get_running_loop().time() >= deadline_s:
            connection.release()
            raise TimeoutError("the time was over before the request could be sent")
        protocol.set_response_params(
            skip_payload=method == "HEAD", read_until_eof=True, auto_decompress=False, read_bufsize=self._buffer_bytes
        )
        transport.write(request)
        message, payload = await protocol.read()
        while 100 <= message.code < 200:
            if message.code == 101:  # nothing more comes that could be read
                raise aiohttp.ClientConnectionError("the server switches to a protocol that nobody asked for")
            message, payload = await protocol.read()
        received = lowered(message.headers)
        if is_encoded(received):
            raise aiohttp.ClientPayloadError("the answer is compressed, which nobody asked for")
        content = await payload.read()
        self._kept.add(protocol)
        connection.release()  # which closes it if more than the answer came
        return Response(message.code, received, content)

    def _request(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        if _BLANK.search(target):
            raise ValueError(f"{method} {target!r}: a blank or line break would end the target")
        if not _FRAMING.isdisjoint(map(str.lower, headers)):
            raise ValueError(f"{method} {target}: where a request ends is not for its headers to say")
        lines = [f"{method} {self._origin}{target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self._headers.items()]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if self._goes_plainly_by_proxy and (login := self._like.headers.get("Proxy-Authorization")):
            lines.append(f"Proxy-Authorization: {login}")
        if body or method not in _READS:
            lines.append(f"Content-Length: {len(body or b'')}")
        if _CONTROL.search("".join(lines)):
            raise ValueError(f"{method} {target!r}: a header holds a line break or another control character")
        return "\r\n".join([*lines, "\r\n"]).encode() + (body or b"")


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers with their names in lower case."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        # A header that comes several times means the same as one with a list (RFC 9110, 5.3); warnings do.
        found[key] = f"{found[key]}, {value}" if key in found else value
    return found


def is_encoded(headers: Mapping[str, str]) -> bool:
    """
    Whether an answer (names in lower case) is compressed. None is asked to be; what is has no limit once decompressed.
    """
    return headers.get("content-encoding", "").strip().lower() not in {"", "identity"}
