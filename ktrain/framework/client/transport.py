"""
The seam to the API server: bytes out, bytes in.

Two implementations exist: HTTP (`http.py`), and in-process (`ktrain.local.apiserver`), which calls the embedded server
without a socket. Tests put fault injectors between. A transport knows nothing of kinds or retries: `Client` does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

Query = Sequence[tuple[str, str]]
"""Query parameters in order; names may repeat."""


class Response(NamedTuple):
    """One whole answer. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(NamedTuple):
    """A streaming answer. `lines` yields each line without its newline; it is exhausted when the server ends it."""

    status: int
    headers: Mapping[str, str]
    lines: AsyncIterator[bytes]


class Transport(Protocol):
    """Sends requests as one identity to one API server."""

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
        Send one request and read the whole answer, whatever its status. `headers` may set Accept and Content-Type.

        After `timeout_s` nothing is sent any more, also if the process was stopped meanwhile: fencing depends on it.

        Raises:
            TransportError: No answer: connection refused or lost, or `timeout_s` passed. A write may have happened.
        """

    def stream(
        self,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] | None = None,
        idle_timeout_s: float = 75.0,
    ) -> AbstractAsyncContextManager[Stream]:
        """
        Open a GET that answers line by line (a watch, or a log that is followed).

        With a status other than 200 `lines` yields the body. No byte for `idle_timeout_s` ends it with
        TransportError, also while the server is only slow: bookmarks come about once a minute.
        """

    async def aclose(self) -> None:
        """Close connections. Idempotent."""
