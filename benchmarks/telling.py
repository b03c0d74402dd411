"""
What a controller under measurement asks of the API server, seen where its bytes leave it.

Whoever stands before a transport must repeat the whole declaration of its two methods. So one class does for all,
and what is made of the calls (a line each, a count) is a function's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from ktrain.framework.client.transport import Query, Response, Stream, Transport

WATCH: Final = "WATCH"


class Telling:
    """A transport that tells of every call before it is made: the method (`WATCH` of a stream) and the path."""

    def __init__(self, inner: Transport, tell: Callable[[str, str], None]) -> None:
        self._inner = inner
        self._tell = tell

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
        self._tell(method, path)
        return await self._inner.request(method, path, query=query, headers=headers, body=body, timeout_s=timeout_s)

    def stream(
        self, path: str, *, query: Query = (), headers: Mapping[str, str] | None = None, idle_timeout_s: float = 75.0
    ) -> AbstractAsyncContextManager[Stream]:
        self._tell(WATCH, path)
        return self._inner.stream(path, query=query, headers=headers, idle_timeout_s=idle_timeout_s)

    async def aclose(self) -> None:
        await self._inner.aclose()
