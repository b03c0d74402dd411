"""
The server on a loopback socket, for kubectl, SDKs and everything outside this process.

Other users of the machine can reach a loopback port, too: whoever shows no credentials may learn the version and
whether the server is healthy, and no more. Watches are written and flushed event by event; a client that stops reading
loses its watcher's queue, and in the end its connection, and holds up no writer. `front` reads and writes HTTP.
"""

from __future__ import annotations

import ipaddress
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import parse_qsl

import structlog

from ktrain.local.apiserver import errors
from ktrain.local.apiserver.access.impersonation import PREFIX
from ktrain.local.apiserver.errors import StatusError
from ktrain.local.apiserver.front.connection import BODY_LIMIT
from ktrain.local.apiserver.front.listener import Listener
from ktrain.local.apiserver.front.messages import BAD_ESCAPE
from ktrain.local.apiserver.requests import Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from ktrain.local.apiserver.access.credentials import PeerCertificate
    from ktrain.local.apiserver.front.certificates import ServerIdentity
    from ktrain.local.apiserver.front.connection import Respond
    from ktrain.local.apiserver.front.messages import Head
    from ktrain.local.apiserver.front.upgrades import Upgrades
    from ktrain.local.apiserver.requests import Answer
    from ktrain.local.apiserver.server import ApiServer

_ENCODED: Final = "the body of the request is compressed, which this server does not accept"
_TOO_LARGE: Final = f"Request entity too large: limit is {BODY_LIMIT}"
_NO_UPGRADE: Final = "Upgrade request required"
_TOO_SLOW: Final = "the request was not sent in time"
log = structlog.get_logger(__name__)


@asynccontextmanager
async def serve_http(
    server: ApiServer,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str,
    tls: ServerIdentity | None = None,
    sockets: Sequence[socket.socket] = (),
) -> AsyncIterator[str]:
    """
    Serve on a loopback address and yield the URL; port 0 takes a free one. `token` is an administrator's.

    kubectl needs `tls` (`certificates.self_signed`): it does not send its token without. Certificates that this
    identity issued make their owners users.

    `sockets` are served instead of `host` and `port`, if there are any, and closed in the end; the URL is the first's.

    Leaving the context closes the socket, ends the running streams, and waits at most a second for requests in
    progress.

    Raises:
        ValueError: The host is not a loopback address, or the token is empty.
        OSError: The port is taken.
    """
    if not ipaddress.ip_address(host).is_loopback:
        raise ValueError(f"the embedded API server listens on loopback addresses only, not on {host}")
    if not token:
        raise ValueError("the embedded API server needs a token")
    server.accept_token(token)
    listener = _listener(server)
    bound = list(sockets) or [_bind(host, port)]
    bound_host, bound_port = bound[0].getsockname()[:2]
    shown = f"[{bound_host}]" if ":" in bound_host else bound_host
    context = tls.context() if tls else None
    async with AsyncExitStack() as stack:
        stack.push_async_callback(listener.aclose)
        for one in bound:
            await stack.enter_async_context(listener.listening(one, context))
        stack.callback(server.end_streams)
        yield f"{'https' if tls else 'http'}://{shown}:{bound_port}"


def _listener(server: ApiServer) -> Listener:
    respond = _responder(server)

    def upgrades() -> Upgrades:
        # aiohttp is a fifth of an empty server's memory, and few of its clients ever ask for a WebSocket.
        from ktrain.local.apiserver.front.upgrades import Upgrades

        return Upgrades(respond)

    return Listener(
        respond,
        now=server.now,
        too_large=server.failure(StatusError(413, "RequestEntityTooLarge", _TOO_LARGE)),
        too_slow=server.failure(StatusError(408, "Timeout", _TOO_SLOW)),
        upgrades=upgrades,
    )


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except BaseException:
        bound.close()
        raise
    return bound


def _responder(server: ApiServer) -> Respond:
    """Return what answers requests, with a Status even where it is defective."""

    async def respond(head: Head, body: bytes, peer: object) -> Answer:
        try:
            return await _respond(server, head, body, cast("PeerCertificate | None", peer))
        except StatusError as error:
            return server.failure(error)
        except Exception as error:
            log.exception("request.failed", method=head.method, path=head.target)
            message = f"Internal error occurred: {type(error).__name__}: {error}"
            return server.failure(StatusError(500, "InternalError", message))

    return respond


async def _respond(server: ApiServer, head: Head, body: bytes, peer: PeerCertificate | None) -> Answer:
    """
    Find out who asks, and have the server answer.

    Raises:
        StatusError: 401: the credentials are nobody's; 415: the body is compressed; 400: only a WebSocket will do.
    """
    headers, impersonation = _headers(head)
    user = await server.authenticate(headers, peer)
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise StatusError(415, "UnsupportedMediaType", _ENCODED)
    path, _, query = head.target.partition("?")
    pairs = parse_qsl(_readable(query), keep_blank_values=True, errors="replace") if query else ()
    answer = await server.handle(
        Request(
            method=head.method,
            path=path,
            query=tuple(pairs),
            headers=headers,
            body=body,
            user=user,
            impersonation=impersonation,
        )
    )
    if answer.upgrade is not None and not head.upgrade:
        raise errors.bad_request(_NO_UPGRADE)
    return answer


def _readable(query: str) -> str:
    """Leave out the parameters that cannot be read; nobody tells the client."""
    if ";" not in query and not BAD_ESCAPE.search(query):
        return query
    return "&".join(pair for pair in query.split("&") if ";" not in pair and not BAD_ESCAPE.search(pair))


def _headers(head: Head) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the headers, the first of those that repeat, and apart from them those about impersonation."""
    headers: dict[str, str] = {}
    impersonation: list[tuple[str, str]] = []
    for name, value in head.headers:
        if name.startswith(PREFIX):
            impersonation.append((name, value))
        else:
            headers.setdefault(name, value)
    return headers, impersonation
