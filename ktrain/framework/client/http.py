"""
The transport over HTTP, by aiohttp, which is imported when the first connection is made: streams by its own way, calls
by a shorter one (`exchange.py`).

Dead peers are noticed by silence: each stream has an idle time-out, each call a total one. Credentials are asked for
before each request, within its time, and refreshed once on a 401; where they come from is `credentials.py`'s business,
connections are `pools.py`'s.
"""

from __future__ import annotations

import asyncio
import ipaddress
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import quote, urlencode, urlsplit

from ktrain import __version__
from ktrain.framework.errors import TransportError

from .finding import find_endpoint
from .lines import LineSplitter
from .pools import CONNECT_TIMEOUT_S, Connections
from .transport import Query, Response, Stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import aiohttp
    from yarl import URL

    from ktrain.framework.env import Env

    from .credentials import Endpoint
    from .keepalive import Keepalive
    from .pools import Pools

READ_BYTES = 64 << 10
"""Of a stream, at most, at a time."""


class HttpTransport:
    """
    Requests to one API server. Connections are made on first use, inside the running event loop.

    Args:
        endpoint: Where, and as whom.
        user_agent: In audit logs and for API priority and fairness.
        keepalive: When a peer that vanished counts as dead.
    """

    def __init__(
        self, endpoint: Endpoint, *, user_agent: str = f"ktrain/{__version__}", keepalive: Keepalive | None = None
    ) -> None:
        self.endpoint = endpoint
        self._proxy = endpoint.proxy or proxy_from_environment(endpoint.url)
        self._connections = Connections(endpoint, user_agent, keepalive, proxy=self._proxy, connect_s=CONNECT_TIMEOUT_S)
        self._path = urlsplit(endpoint.url).path
        self._extra = self._extras()
        self._closed = False
        endpoint.credentials.hold()

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
        """Send one request and read the whole answer (see `Transport`)."""
        from .exchange import FAILURES

        deadline = asyncio.get_running_loop().time() + timeout_s
        target = self._path + _target(path, query)
        if (ours := self.endpoint.credentials.ready()) is None:
            ours = await self._identity(deadline)
        while True:
            pools = await self._connections.take()
            try:
                sent = self._merged(headers, ours)
                response = await pools.calls.call(method, target, headers=sent, body=body, deadline_s=deadline)
            except FAILURES as error:
                raise _transport_error(method, path, error) from error
            finally:
                await self._connections.give_back(pools)
            self._stay(method, path, response.status, response.headers)
            if response.status != 401 or (newer := await self._newer(ours, pools, deadline)) is None:
                return response
            ours = newer

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Query = (), headers: Mapping[str, str] | None = None, idle_timeout_s: float = 75.0
    ) -> AsyncIterator[Stream]:
        """Open a GET that answers line by line (see `Transport`)."""
        import aiohttp

        from .exchange import is_encoded, lowered

        # sock_read is the longest silence between two reads, not the length of the stream.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=idle_timeout_s)
        deadline = asyncio.get_running_loop().time() + idle_timeout_s
        url = self._url(_target(path, query))
        if (ours := self.endpoint.credentials.ready()) is None:
            ours = await self._identity(deadline)
        while True:
            async with self._connections.use() as pools:
                try:
                    answer = await pools.streams.get(
                        url,
                        headers=self._merged(headers, ours),
                        timeout=timeout,
                        # Else who we act for would be told to whomever the server names.
                        allow_redirects=False,
                        **self._extra,
                    )
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    raise _transport_error("GET", path, error) from error
                try:
                    received = lowered(answer.headers)
                    self._stay("GET", path, answer.status, received)
                    if is_encoded(received):
                        raise TransportError(f"GET {path}: the answer is compressed, which nobody asked for")
                    newer = await self._newer(ours, pools, deadline) if answer.status == 401 else None
                    if newer is None:
                        yield Stream(answer.status, received, _lines(answer, path))
                        return
                    ours = newer
                finally:
                    # Not released: a stream that is left in the middle must not go back to the pool.
                    answer.close()

    async def aclose(self) -> None:
        """Close all connections, and give the credentials back: others may share them. Idempotent."""
        await self._connections.aclose()
        if not self._closed:
            self._closed = True
            await self.endpoint.credentials.release()

    def _stay(self, method: str, path: str, status: int, headers: Mapping[str, str]) -> None:
        """Follow no redirect."""
        if 300 <= status < 400 and (elsewhere := headers.get("location")):
            raise TransportError(f"{method} {path}: the server at {self.endpoint.url} sends us to {elsewhere}")

    async def _identity(self, deadline: float, *, refused: Mapping[str, str] | None = None) -> Mapping[str, str]:
        try:
            async with asyncio.timeout_at(deadline):
                return await self.endpoint.credentials.headers(refused=refused)
        except TimeoutError:
            raise TransportError(
                f"no credentials for {self.endpoint.url} in time: the plugin or file they come from does not answer"
            ) from None

    async def _newer(self, refused: Mapping[str, str], pools: Pools, deadline: float) -> Mapping[str, str] | None:
        """After a 401: other credentials than those refused; None if there are none, and the 401 stands."""
        if not self.endpoint.credentials.can_refresh:
            return None
        ours = await self._identity(deadline, refused=refused)
        # A plugin may also have brought another certificate.
        is_new = await self._connections.look() is not pools or ours is not refused
        return ours if is_new else None

    def _merged(self, theirs: Mapping[str, str] | None, ours: Mapping[str, str]) -> Mapping[str, str]:
        if not self.endpoint.headers:
            return {**theirs, **ours} if theirs else ours
        from multidict import CIMultiDict

        return CIMultiDict([*(theirs or {}).items(), *self.endpoint.headers, *ours.items()])

    def _url(self, target: str) -> URL:
        from yarl import URL

        # Names in the path are already quoted; quoting them again would ask for other objects.
        return URL(self.endpoint.url + target, encoded=True)

    def _extras(self) -> _Extra:
        extra: _Extra = {}
        if self.endpoint.server_name:
            extra["server_hostname"] = self.endpoint.server_name
        if self._proxy:
            extra["proxy"] = self._proxy
        return extra


class _Extra(TypedDict, total=False):
    server_hostname: str
    proxy: str


async def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    user_agent: str = f"ktrain/{__version__}",
    env: Env | None = None,
) -> HttpTransport:
    """
    Make a transport for a context of a kubeconfig, or in a pod for its cluster. Nothing is sent yet.

    Args:
        kubeconfig: Its path; if None, see `find_endpoint`.
        context: Of the kubeconfig; the current one if None.
        user_agent: In audit logs and for API priority and fairness.
        env: Time and randomness, for the renewal of credentials.

    Raises:
        ConfigError: No usable configuration.
    """
    return HttpTransport(await find_endpoint(kubeconfig, context, env=env), user_agent=user_agent)


def proxy_from_environment(url: str) -> str | None:
    """
    The proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name for a URL; never one for this machine itself, as in Go.

    Asked once. aiohttp's `trust_env` asks before every request, in a thread, and looks for a password in `~/.netrc` in
    another: that doubled the CPU time of a call, and a `default` entry there made every call with a token fail.
    """
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    host = parts.hostname or ""
    if host == "localhost" or _is_loopback(host) or proxy_bypass(host):
        return None
    return getproxies().get(parts.scheme)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _target(path: str, query: Query) -> str:
    return f"{path}?{_encoded(tuple(query))}" if query else path


@lru_cache(maxsize=256)
def _encoded(query: tuple[tuple[str, str], ...]) -> str:
    # Most calls of a process carry one of a few: field manager, force, limit.
    return urlencode(query, quote_via=quote)


async def _lines(answer: aiohttp.ClientResponse, path: str) -> AsyncIterator[bytes]:
    import aiohttp

    # What was read at once is split at once: a busy watch has many lines in its buffer, and aiohttp's readline takes
    # longer to find one than decoding it does. In parts, as all lines of a large buffer would take its memory again.
    splitter = LineSplitter(path)
    try:
        while piece := await answer.content.read(READ_BYTES):
            for line in splitter.feed(piece):
                yield line.removesuffix(b"\r")
        if rest := splitter.rest():
            yield rest
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise _transport_error("GET", path, error) from error


def _transport_error(method: str, path: str, error: Exception) -> TransportError:
    # Many of these errors have no text of their own, time-outs above all.
    return TransportError(f"{method} {path}: no answer from the API server: {str(error) or type(error).__name__}")
