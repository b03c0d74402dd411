"""
Calls from the server to webhooks: by URL, or by a Service that stands for an address or a function of this process.

There is no network of services here, so who runs a webhook says where a Service leads (`ApiServer.webhook_addresses`);
else a pod that the Service selects is tried. Connections are kept and reused. Everything is bounded: how many calls run
at once, how long each takes, how much it may answer. Source of texts: client-go's REST client.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.framework.trust import trusting
from ktrain.local.apiserver.admission.services import ServiceAddresses, Unreachable
from ktrain.local.apiserver.requests import JSON_TYPE

if TYPE_CHECKING:
    import ssl

    import aiohttp

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.storage.store import Store

InProcess = Callable[["Json"], Awaitable["Json"]]
"""A webhook of this process: takes a review, returns it with its response."""
MAX_ANSWER_BYTES: Final = 16 << 20
MAX_CALLS: Final = 64
_IDLE_S: Final = 15.0
_MAX_REDIRECTS: Final = 10
_TRUSTED_BUNDLES: Final = 64
_TEXTS: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


_UNKNOWN_AUTHORITY: Final = "certificate signed by unknown authority"
_EXPIRED: Final = "certificate has expired or is not yet valid"
_CERTIFICATES: Final = {
    **dict.fromkeys((2, 18, 19, 20, 21), _UNKNOWN_AUTHORITY),
    **dict.fromkeys((9, 10), _EXPIRED),
}
"""OpenSSL's verification errors in Go's words, where people look for them."""


class CallFailed(Exception):
    """The webhook could not be asked, or answered nothing of use. The text is the API server's."""


@dataclass(frozen=True, slots=True)
class _Target:
    shown: str
    """The URL as users know it."""
    url: str
    server_name: str | None = None


class Callouts:
    """The connections of one server to its webhooks. `aclose` ends them; a later call opens new ones."""

    def __init__(self, store: Store) -> None:
        self.addresses = ServiceAddresses(store)
        self._free = asyncio.Semaphore(MAX_CALLS)
        self._session: aiohttp.ClientSession | None = None

    async def post(self, config: Json, review: Json, limit_s: float) -> bytes:
        """
        Send a review to where a `clientConfig` says; return the body of the answer.

        Raises:
            CallFailed: There was none in time, or it was no success.
        """
        seconds = -(-limit_s // 1)
        target, function = self._target(config, f"?timeout={seconds:.0f}s")
        if function is None:
            # Made outside the time limit: the first time it loads the HTTP client.
            self._connections()
        try:
            async with asyncio.timeout(limit_s), self._free:
                if function is not None:
                    return await _call(function, review)
                return await self._send(config, target, msgspec.json.encode(review))
        except TimeoutError as error:
            raise CallFailed(f'Post "{target.shown}": context deadline exceeded') from error

    async def aclose(self) -> None:
        """Close idle connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _target(self, config: Json, query: str) -> tuple[_Target, InProcess | None]:
        service = config.get("service")
        if service is None:
            url = f"{config['url']}{query}"
            return _Target(url, url), None
        namespace, name, port = service["namespace"], service["name"], service.get("port", 443)
        path = "/" + service.get("path", "").lstrip("/")
        shown = f"https://{name}.{namespace}.svc:{port}{path}{query}"
        try:
            found = self.addresses.find(namespace, name, port)
        except Unreachable as error:
            raise CallFailed(f'Post "{shown}": {error}') from error
        if not isinstance(found, str):
            return _Target(shown, shown), found
        return _Target(shown, f"https://{found}{path}{query}", f"{name}.{namespace}.svc"), None

    async def _send(self, config: Json, target: _Target, body: bytes) -> bytes:
        import aiohttp

        for again in (True, False):
            reused: set[bool] = set()
            try:
                async with self._connections().post(
                    target.url,
                    data=body,
                    headers={"Content-Type": JSON_TYPE, "Accept": f"{JSON_TYPE}, */*"},
                    ssl=_trust(config.get("caBundle") or ""),
                    server_hostname=target.server_name,
                    max_redirects=_MAX_REDIRECTS,
                    trace_request_ctx=reused,
                ) as answer:
                    return _checked(answer.status, await _read(answer))
            except aiohttp.ServerDisconnectedError as error:
                # A kept connection may be closed by the other side just when it is taken again.
                if not (again and reused):
                    raise CallFailed(f'Post "{target.shown}": EOF') from error
            except aiohttp.TooManyRedirects as error:
                raise CallFailed(f'Post "{target.shown}": stopped after {_MAX_REDIRECTS} redirects') from error
            except aiohttp.ClientPayloadError as error:
                text = "unexpected error when reading response body. Please retry. Original error: unexpected EOF"
                raise CallFailed(text) from error
            except (aiohttp.ClientError, OSError, ValueError) as error:
                raise CallFailed(f'Post "{target.shown}": {_reason(error)}') from error
        raise AssertionError("the second attempt returns or raises")

    def _connections(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            trace = aiohttp.TraceConfig()
            trace.on_connection_reuseconn.append(_note_reuse)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=MAX_CALLS, keepalive_timeout=_IDLE_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                # The caller keeps the time.
                timeout=aiohttp.ClientTimeout(total=None),
                trace_configs=[trace],
            )
        return self._session


async def _note_reuse(_session: object, context: object, _parameters: object) -> None:
    context.trace_request_ctx.add(True)  # type: ignore[attr-defined] # noqa: FBT003 - a set of one fact


async def _call(function: InProcess, review: Json) -> bytes:
    try:
        return msgspec.json.encode(await function(msgspec.json.decode(msgspec.json.encode(review))))
    except Exception as error:
        raise CallFailed(f"the webhook of this process failed: {error!r}") from error


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for chunk in answer.content.iter_any():
        content += chunk
        if len(content) > MAX_ANSWER_BYTES:
            raise CallFailed(f"the answer is larger than {MAX_ANSWER_BYTES} bytes")
    return bytes(content)


def _checked(status: int, body: bytes) -> bytes:
    if 200 <= status < 300:
        if not body:
            raise CallFailed(f"0-length response with status code: {status} and content type: {JSON_TYPE}")
        return body
    try:
        said = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        said = None
    if isinstance(said, dict) and said.get("kind") == "Status" and said.get("message"):
        raise CallFailed(str(said["message"]))
    # JSON of anything else says nothing to who expected a Status.
    text = "unknown" if said is not None else body[:2048].decode("utf-8", "replace").strip() or "unknown"
    if status in _TEXTS:
        raise CallFailed(_TEXTS[status])
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        quoted = msgspec.json.encode(text).decode()
        raise CallFailed(f"an error on the server ({quoted}) has prevented the request from succeeding")
    raise CallFailed(text)


def _reason(error: BaseException) -> str:
    """Say what kept a connection from being made, as Go would where clients look for it."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        problem = error.certificate_error
        known = _CERTIFICATES.get(getattr(problem, "verify_code", 0)) or getattr(
            problem, "verify_message", str(problem)
        )
        return f"tls: failed to verify certificate: x509: {known}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"dial tcp {error.host}:{error.port}: {error.strerror or error}"
    return str(error) or type(error).__name__


@lru_cache(maxsize=_TRUSTED_BUNDLES)
def _trust(bundle: str) -> ssl.SSLContext:
    """The certificates to trust. One context for each bundle: connections are kept for a context."""
    try:
        text = base64.b64decode(bundle).decode("ascii", "replace")
    except binascii.Error as error:
        raise ValueError(f"unable to load root certificates: {error}") from error
    return trusting(data=text or None)
