"""
Connections to one API server, and new ones when the certificates change.

Two pools, because over HTTP/1.1 every watch holds a connection: in one bounded pool enough watches would starve every
write, for ever.

Certificates of clients live for hours or days, and somebody renews their files; the API server refuses a connection's
requests once the certificate it was made with has expired. So the files are looked at now and then. If they changed,
requests from then on get connections of their own, and the old ones are closed when the last request on them ends. A
pair that cannot be loaded (often half written) changes nothing, and is tried again. The same happens when an exec
plugin gives a new certificate.

A peer that vanishes without a word (power, a firewall that forgot us) leaves a connection half open; that is the
kernel's to find out (`keepalive.py`).
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio.to_thread
import structlog

from ktrain.framework.errors import ConfigError, TransportError

from .keepalive import Keepalive

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    import aiohttp
    from structlog.typing import FilteringBoundLogger

    from .credentials import Endpoint, Pem
    from .exchange import Exchanges

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.client")

CONNECT_TIMEOUT_S: Final = 5.0
KEEPALIVE_S: Final = 90.0
LOOK_S: Final = 10.0
"""At most this often the files of certificates are looked at."""
MAX_CALLS: Final = 32
"""At a time; what is more waits. A connection costs as much as ten calls, and no server answers so many at once."""
STREAM_BUFFER_BYTES: Final = 1 << 20

Stamp = tuple[tuple[int, int] | bytes | None, ...]
"""Of each file the inode and the time of its last change, of PEM text a hash; None for what is not there."""


@dataclass(slots=True, eq=False)
class Pools:
    """Connections under one reading of the certificates."""

    calls: Exchanges
    streams: aiohttp.ClientSession
    stamp: Stamp
    users: int = 0

    async def aclose(self) -> None:
        """Close all connections, also those in use."""
        await self.calls.aclose()
        await self.streams.close()


class Connections:
    """
    Pools of connections. Made on first use, inside the running event loop.

    Args:
        endpoint: Where, and with which certificates.
        user_agent: Sent with every request.
        keepalive: When a silent peer counts as dead.
        proxy: URL of the proxy that calls go through; streams name it themselves.
        connect_s: For making one connection for calls.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        user_agent: str,
        keepalive: Keepalive | None = None,
        *,
        proxy: str | None = None,
        connect_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        self._endpoint = endpoint
        self._headers = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
        self._proxy = proxy
        self._connect_s = connect_s
        self._keepalive = keepalive or Keepalive()
        self._current: Pools | None = None
        self._retired: set[Pools] = set()
        self._looked_at_s = 0.0
        self._changing = asyncio.Lock()
        self._closed = False

    async def take(self) -> Pools:
        """
        Take the pools to use for one request; `give_back` them. Two calls, for a context manager costs more than both.

        Raises:
            ConfigError: The certificates cannot be loaded, and never could.
            TransportError: `aclose` was called.
        """
        now_s = asyncio.get_running_loop().time()
        pools = self._current
        if pools is None or now_s - self._looked_at_s >= LOOK_S:
            pools = await self.look()
        pools.users += 1
        return pools

    async def give_back(self, pools: Pools) -> None:
        """End one use."""
        pools.users -= 1
        if pools in self._retired and not pools.users:
            self._retired.discard(pools)
            await pools.aclose()

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Pools]:
        """Take the pools, and give them back at the end."""
        pools = await self.take()
        try:
            yield pools
        finally:
            await self.give_back(pools)

    async def look(self) -> Pools:
        """
        Return the current pools, or new ones if the certificates have changed.

        Raises:
            ConfigError, TransportError: As `take`.
        """
        async with self._changing:
            if self._closed:
                raise TransportError(f"the connections to {self._endpoint.url} are closed")
            # Who comes meanwhile uses the old ones; only the first of all waits.
            self._looked_at_s = asyncio.get_running_loop().time()
            old = self._current
            # Taken first: a change while loading is then seen the next time.
            stamp = _stamp(self._endpoint)
            if old is not None and stamp == old.stamp:
                return old
            try:
                made = await self._made(stamp)
            except ConfigError as error:
                if old is None:
                    raise
                log.warning("client.certificate_unreadable", error=str(error))
                return old
            self._current = made
            if old is not None:
                log.info("client.certificate_reloaded", server=self._endpoint.url)
                if old.users:
                    self._retired.add(old)
                else:
                    await old.aclose()
            return made

    async def aclose(self) -> None:
        """Close all connections, and make no more. Idempotent."""
        async with self._changing:
            self._closed = True
            if self._current is not None:
                self._retired.add(self._current)
                self._current = None
            while self._retired:
                await self._retired.pop().aclose()

    async def _made(self, stamp: Stamp) -> Pools:
        import aiohttp

        from .connector import Connector
        from .exchange import Exchanges

        # In a thread: the system's authorities take 20 ms, and files may lie on a network. One context for both pools.
        context = await anyio.to_thread.run_sync(_ssl_context, self._endpoint, abandon_on_cancel=True)

        def connector(limit: int) -> Connector:
            return Connector(limit=limit, idle_s=KEEPALIVE_S, context=context, keepalive=self._keepalive)

        calls = Exchanges(
            connector(MAX_CALLS),
            self._endpoint.url,
            headers=self._headers,
            proxy=self._proxy,
            server_name=self._endpoint.server_name,
            connect_s=self._connect_s,
            buffer_bytes=STREAM_BUFFER_BYTES,
        )
        streams = aiohttp.ClientSession(
            connector=connector(0),
            # API servers set no cookies; a proxy's would be another's session.
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            read_bufsize=STREAM_BUFFER_BYTES,
            auto_decompress=False,
        )
        return Pools(calls, streams, stamp)


def _ssl_context(endpoint: Endpoint) -> ssl.SSLContext | bool:
    if not endpoint.url.startswith("https:"):
        return False
    try:
        return endpoint.ssl_context()
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError; ValueError: a NUL in a path
        files = ", ".join(endpoint.certificate_files) or "those given as text"
        raise ConfigError(f"the certificates for {endpoint.url} ({files}) cannot be loaded: {error}") from error


def _stamp(endpoint: Endpoint) -> Stamp:
    return tuple(map(_stamp_of, (endpoint.ca_file, *(endpoint.identity or ()))))


def _stamp_of(pem: Pem | None) -> tuple[int, int] | bytes | None:
    if pem is None:
        return None
    if isinstance(pem, bytes):
        return hashlib.sha256(pem).digest()
    try:
        status = Path(pem).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
