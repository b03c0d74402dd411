"""
Connections to one API server, and new ones when the certificates change.

Two pools, because over HTTP/1.1 every watch holds a connection: in one bounded pool enough watches would starve every
write, for ever.

Certificates of clients live for hours or days, and somebody renews their files; the API server refuses a connection's
requests once the certificate it was made with has expired. So the files are looked at now and then. If they changed,
requests from then on get connections of their own, and the old ones are closed when the last request on them ends. A
pair that cannot be loaded (often half written) changes nothing, and is tried again.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from ktrain.framework.errors import ConfigError

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable
    from types import SimpleNamespace

    import aiohttp

    from .credentials import Endpoint

log = structlog.get_logger("ktrain.framework.client")

KEEPALIVE_S: Final = 90.0
LOOK_S: Final = 10.0
"""At most this often the files of certificates are looked at."""
MAX_CALLS: Final = 64
STREAM_BUFFER_BYTES: Final = 1 << 20

Stamp = tuple[tuple[int, int] | None, ...]
"""Of each file the inode and the time of its last change; None for one that is not there."""


@dataclass(slots=True, eq=False)
class Pools:
    """Sessions under one reading of the certificates."""

    calls: aiohttp.ClientSession
    streams: aiohttp.ClientSession
    stamp: Stamp
    users: int = 0

    async def aclose(self) -> None:
        """Close all connections, also those in use."""
        await self.calls.close()
        await self.streams.close()


class Connections:
    """
    Pools of connections. Made on first use, inside the running event loop.

    Args:
        endpoint: Where, and with which certificates.
        user_agent: Sent with every request.
        before_sending: Called before the first byte of a request; what it raises keeps the request from being sent.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        user_agent: str,
        before_sending: Callable[[object, SimpleNamespace, object], Awaitable[None]],
    ) -> None:
        self._endpoint = endpoint
        self._user_agent = user_agent
        self._before_sending = before_sending
        self._current: Pools | None = None
        self._retired: set[Pools] = set()
        self._looked_at_s = 0.0

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Pools]:
        """
        Give the pools to use for one request.

        Raises:
            ConfigError: The certificates cannot be loaded, and never could.
        """
        pools = self._pools()
        pools.users += 1
        try:
            yield pools
        finally:
            pools.users -= 1
            await self._sweep()

    async def aclose(self) -> None:
        """Close all connections. Idempotent."""
        if self._current is not None:
            self._retired.add(self._current)
            self._current = None
        while self._retired:
            await self._retired.pop().aclose()

    async def _sweep(self) -> None:
        for pools in [pools for pools in self._retired if not pools.users]:
            self._retired.discard(pools)
            await pools.aclose()

    def _pools(self) -> Pools:
        now_s = asyncio.get_running_loop().time()
        if self._current is None:
            self._looked_at_s = now_s
            self._current = self._made()
        elif now_s - self._looked_at_s >= LOOK_S:
            self._looked_at_s = now_s
            self._renew(self._current)
        return self._current

    def _renew(self, old: Pools) -> None:
        if _stamp(self._endpoint) == old.stamp:
            return
        try:
            self._current = self._made()
        except ConfigError as error:
            log.warning("client.certificate_unreadable", error=str(error))
        else:
            self._retired.add(old)
            log.info("client.certificate_reloaded", server=self._endpoint.url)

    def _made(self) -> Pools:
        import aiohttp

        # Taken first: a change while loading is then seen the next time.
        stamp = _stamp(self._endpoint)
        # Reads files for 1 ms, with the system's authorities for 20; one context serves both pools.
        context = _ssl_context(self._endpoint)
        tracing = aiohttp.TraceConfig()
        tracing.on_request_headers_sent.append(self._before_sending)

        def session(limit: int) -> aiohttp.ClientSession:
            return aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=limit, keepalive_timeout=KEEPALIVE_S, ssl=context),
                headers={"User-Agent": self._user_agent, "Accept-Encoding": "identity"},
                read_bufsize=STREAM_BUFFER_BYTES,
                trace_configs=[tracing],
            )

        return Pools(session(MAX_CALLS), session(0), stamp)


def _ssl_context(endpoint: Endpoint) -> ssl.SSLContext | bool:
    if not endpoint.url.startswith("https:"):
        return False
    try:
        return endpoint.ssl_context()
    except OSError as error:  # ssl.SSLError is one
        files = ", ".join(endpoint.certificate_files)
        raise ConfigError(f"the certificates for {endpoint.url} ({files}) cannot be loaded: {error}") from error


def _stamp(endpoint: Endpoint) -> Stamp:
    return tuple(map(_stamp_of, endpoint.certificate_files))


def _stamp_of(file: str) -> tuple[int, int] | None:
    try:
        status = Path(file).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
