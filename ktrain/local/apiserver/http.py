"""
The server on a loopback socket, for kubectl, SDKs and everything outside this process.

Other users of the machine can reach a loopback port, too: whoever shows no credentials may learn the version and
whether the server is healthy, and no more. Watches are written and flushed event by event; a client that stops reading
loses its watcher's queue, and in the end its connection, and holds up no writer. `connections` reads the requests.
"""

from __future__ import annotations

import asyncio
import ipaddress
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import web

from ktrain.local.apiserver.access.impersonation import PREFIX
from ktrain.local.apiserver.connections import Front
from ktrain.local.apiserver.errors import StatusError
from ktrain.local.apiserver.inprocess import aclose_chunks
from ktrain.local.apiserver.requests import Answer, Request
from ktrain.local.apiserver.websockets import upgraded

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from ktrain.local.apiserver.access.credentials import PeerCertificate
    from ktrain.local.apiserver.certificates import ServerIdentity
    from ktrain.local.apiserver.server import ApiServer

BODY_LIMIT: Final = 3 * 1024 * 1024
STOP_TIMEOUT_S: Final = 1.0
BODY_TIMEOUT_S: Final = 60.0
"""For a whole body to come."""
STALLED_S: Final = 60.0
"""How long a stream waits for its reader, with all buffers full."""
_ENCODED: Final = "the body of the request is compressed, which this server does not accept"
_TOO_LARGE: Final = f"Request entity too large: limit is {BODY_LIMIT}"
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
    runner = web.ServerRunner(Front(_guarded(server)), shutdown_timeout=STOP_TIMEOUT_S)
    await runner.setup()
    try:
        context = tls.context() if tls else None
        for one in sockets:
            await web.SockSite(runner, one, ssl_context=context).start()
        if not sockets:
            await web.TCPSite(runner, host, port, ssl_context=context).start()
        bound_host, bound_port = runner.addresses[0][:2]
        shown = f"[{bound_host}]" if ":" in bound_host else bound_host
        yield f"{'https' if tls else 'http'}://{shown}:{bound_port}"
    finally:
        server.end_streams()
        await runner.cleanup()


def _guarded(server: ApiServer) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    """Return the handler of requests, which answers with a Status even where it is defective."""
    handle = _handler(server)

    async def guard(request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await handle(request)
        except TimeoutError:
            return _whole(server.failure(StatusError(408, "Timeout", "the request was not sent in time")))
        except ConnectionError:
            raise
        except Exception as error:
            log.exception("request.failed", method=request.method, path=request.path)
            message = f"Internal error occurred: {type(error).__name__}: {error}"
            return _whole(server.failure(StatusError(500, "InternalError", message)))

    return guard


def _handler(server: ApiServer) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        headers, impersonation = _headers(request)
        try:
            user = await server.authenticate(headers, _peer_certificate(request))
        except StatusError as error:
            return _whole(server.failure(error))
        if headers.get("content-encoding", "identity").lower() != "identity":
            return _whole(server.failure(StatusError(415, "UnsupportedMediaType", _ENCODED)))
        body = await _read(request)
        if body is None:
            return _whole(server.failure(StatusError(413, "RequestEntityTooLarge", _TOO_LARGE)))
        answer = await server.handle(
            Request(
                method=request.method,
                path=request.raw_path.split("?", 1)[0],
                query=tuple(request.query.items()),
                headers=headers,
                body=body,
                user=user,
                impersonation=impersonation,
            )
        )
        if answer.upgrade is not None:
            return await upgraded(request, answer.upgrade)
        return _whole(answer) if answer.chunks is None else await _streamed(request, answer, answer.chunks)

    return handle


def _headers(request: web.BaseRequest) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the headers, the first of those that repeat, and apart from them those about impersonation."""
    headers: dict[str, str] = {}
    impersonation: list[tuple[str, str]] = []
    for given, value in request.headers.items():
        name = given.lower()
        if name.startswith(PREFIX):
            impersonation.append((name, value))
        else:
            headers.setdefault(name, value)
    return headers, impersonation


def _peer_certificate(request: web.BaseRequest) -> PeerCertificate | None:
    transport = request.transport
    return transport.get_extra_info("peercert") if transport is not None else None


async def _read(request: web.BaseRequest) -> bytes | None:
    """Read the body, None if it is past the limit; TimeoutError if it does not come."""
    if (request.content_length or 0) > BODY_LIMIT:
        return None
    if not request.body_exists:
        return b""
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    parts: list[bytes] = []
    size = 0
    async with asyncio.timeout(BODY_TIMEOUT_S):
        async for part in request.content.iter_any():
            size += len(part)
            if size > BODY_LIMIT:
                return None
            parts.append(part)
    return b"".join(parts)


def _whole(answer: Answer) -> web.Response:
    response = web.Response(status=answer.status, body=answer.body)
    _set_headers(response, answer)
    return response


async def _streamed(request: web.BaseRequest, answer: Answer, chunks: AsyncIterator[bytes]) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status)
    _set_headers(response, answer)
    response.enable_chunked_encoding()
    try:
        await response.prepare(request)
        async for chunk in chunks:
            async with asyncio.timeout(STALLED_S):
                await response.write(chunk)
        await response.write_eof()
    except ConnectionError:
        log.debug("stream.client_gone", path=request.path)
    except TimeoutError:
        log.debug("stream.client_stalled", path=request.path)
        _abort(request)
    except Exception:
        # The head is sent: that the connection ends before the answer does is all that the client can be told.
        log.exception("stream.failed", path=request.path)
        _abort(request)
    finally:
        await aclose_chunks(chunks)
    return response


def _abort(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


def _set_headers(response: web.StreamResponse, answer: Answer) -> None:
    # aiohttp would call a body without a type octet-stream, and a repeated header must not replace the one before.
    response.headers.popall("Content-Type", None)
    for name, value in answer.headers:
        response.headers.add(name, value)
