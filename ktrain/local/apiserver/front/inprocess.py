"""A `Transport` that calls the server in the same process: bytes in, bytes out, no socket."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from ktrain.framework.client.lines import LineSplitter
from ktrain.framework.client.transport import Response, Stream
from ktrain.framework.errors import TransportError
from ktrain.local.apiserver.access.impersonation import PREFIX
from ktrain.local.apiserver.requests import Answer, Request, User

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from ktrain.framework.client.transport import Query


class InProcessTransport:
    """
    Sends requests as one user to a server of this process, whose `handle` answers one.

    Each request lets other tasks run once, as any network would: a caller in a loop cannot starve the watchers of
    what it writes.
    """

    def __init__(self, handle: Callable[[Request], Awaitable[Answer]], user: User) -> None:
        self._handle = handle
        self._user = user

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float = 30.0,
    ) -> Response:
        """
        Send one request.

        Raises:
            TransportError: `timeout_s` passed. A write may have happened.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        await asyncio.sleep(0)
        if asyncio.get_running_loop().time() >= deadline:
            # Code that was stopped goes on here before any timer is looked at: what is late must not be sent.
            raise TransportError(f"{method} {path}: the time was over before the request could be sent")
        try:
            async with asyncio.timeout_at(deadline):
                answer = await self._handle(self._request(method, path, query, headers, body))
                whole = answer.body if answer.chunks is None else b"".join([chunk async for chunk in answer.chunks])
        except TimeoutError as error:
            raise TransportError(f"{method} {path}: no answer within {timeout_s} s") from error
        return Response(answer.status, _fold(answer), whole)

    def stream(
        self,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] | None = None,
        idle_timeout_s: float = 75.0,
    ) -> AbstractAsyncContextManager[Stream]:
        """Open a GET that answers line by line. Leaving the context ends it on the server, too."""
        return self._stream(self._request("GET", path, query, headers, None), idle_timeout_s)

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""

    @asynccontextmanager
    async def _stream(self, request: Request, idle_timeout_s: float) -> AsyncIterator[Stream]:
        answer = await self._handle(request)
        chunks = _once(answer.body) if answer.chunks is None else answer.chunks
        lines = _lines(chunks, request.path, idle_timeout_s)
        try:
            async with aclosing(lines):
                yield Stream(answer.status, _fold(answer), lines)
        finally:
            if answer.chunks is not None:
                await aclose_chunks(answer.chunks)

    def _request(
        self, method: str, path: str, query: Query, headers: Mapping[str, str] | None, body: bytes | None
    ) -> Request:
        lowered = {name.lower(): value for name, value in headers.items()} if headers else {}
        impersonation = [(name, value) for name, value in lowered.items() if name.startswith(PREFIX)]
        return Request(method, path, tuple(query), lowered, body or b"", self._user, impersonation)


def _fold(answer: Answer) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in answer.headers:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _lines(chunks: AsyncIterator[bytes], path: str, idle_timeout_s: float) -> AsyncGenerator[bytes, None]:
    splitter = LineSplitter(path)
    while True:
        try:
            async with asyncio.timeout(idle_timeout_s):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            break
        except TimeoutError as error:
            raise TransportError(f"GET {path}: nothing came for {idle_timeout_s} s") from error
        for line in splitter.feed(chunk):
            yield line
    if rest := splitter.rest():
        yield rest


async def aclose_chunks(chunks: AsyncIterator[bytes]) -> None:
    """End a stream that its reader leaves early. Idempotent."""
    close = getattr(chunks, "aclose", None)
    if close is not None:
        await close()
