"""
The weather of `ktrain.testing.faults` between real sockets, for any client: kubectl, an operator that runs as a
process, one that is written in Go.

    async with fault_proxy(await control_plane.kubeconfig()) as proxy:
        proxy.on("write", probability=0.3).answer(500)
        process = await start("operator", "--kubeconfig", proxy.kubeconfig)
        proxy.gate.stall()                          # half-open: connections live, nobody answers
        ...
        assert proxy.count("initial", CONFIG_MAPS) == 1

Two layers. The gate passes bytes, and refuses, stalls or cuts connections. Behind it an HTTP server gives every call to
a `FaultTransport`, so the vocabulary is one: where a transport would raise, the connection is cut; where it would wait
for a time-out, the client waits for its own.

The proxy calls as the user of the kubeconfig it was given. So it has a door of its own: its kubeconfig's token, made
anew each time. TLS ends here, with a certificate made for it. Upgraded connections (exec, port-forward) do not pass.
"""

from __future__ import annotations

import hmac
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from aiohttp import web

from ktrain.framework.client.credentials import Endpoint
from ktrain.framework.client.finding import find_endpoint
from ktrain.framework.client.http import HttpTransport
from ktrain.framework.env import Env, system_env
from ktrain.framework.errors import TransportError
from ktrain.local import kubeconfig
from ktrain.local.apiserver.front.certificates import self_signed

from .faults import FaultTransport
from .faults.requests import status_body
from .faults.streams import PartialLine
from .gate import HOST, Gate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from ktrain.framework.client.transport import Query, Transport

MAX_BODY_BYTES: Final = 16 << 20
FOR_EVER_S: Final = 24 * 3600.0
"""The proxy has no patience of its own: its client's ends first."""
_NOT_PASSED_ON: Final = frozenset(
    {
        *("authorization", "connection", "content-encoding", "content-length", "date", "host", "keep-alive", "server"),
        *("te", "transfer-encoding", "upgrade", "accept-encoding"),
    }
)


class FaultProxy(FaultTransport):
    """
    A listening proxy (`fault_proxy`). Its rules and its log are those of `FaultTransport`.

    Attributes:
        url: Where it listens.
        token: Whoever has it may pass.
        kubeconfig: Has both, and the certificate.
        gate: Faults below HTTP.
    """

    def __init__(self, inner: Transport, env: Env, file: Path, gate: Gate) -> None:
        super().__init__(inner, env)
        self.url = ""
        self.token = kubeconfig.new_token()
        self.kubeconfig = file
        self.gate = gate

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request of a client."""
        given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        if not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
            return web.Response(status=401, body=status_body(401), content_type="application/json")
        path = request.raw_path.partition("?")[0]
        query = list(request.query.items())
        headers = _passed_on(request.headers)
        started: list[web.StreamResponse] = []
        try:
            if request.method == "GET" and not {("watch", "true"), ("watch", "1"), ("follow", "true")}.isdisjoint(
                query
            ):
                return await self._streamed(request, path, query, headers, started)
            body = await request.read() if request.can_read_body else None
            answer = await self.request(
                request.method, path, query=query, headers=headers, body=body, timeout_s=FOR_EVER_S
            )
        except TransportError:
            if request.transport is not None:
                request.transport.abort()
            # aiohttp wants an answer, and finds that there is no connection to write it to.
            return started[0] if started else web.Response(status=502)
        return web.Response(status=answer.status, headers=_passed_on(answer.headers), body=answer.body)

    async def _streamed(
        self,
        request: web.BaseRequest,
        path: str,
        query: Query,
        headers: Mapping[str, str],
        started: list[web.StreamResponse],
    ) -> web.StreamResponse:
        async with self.stream(path, query=query, headers=headers, idle_timeout_s=FOR_EVER_S) as stream:
            answer = web.StreamResponse(status=stream.status, headers=_passed_on(stream.headers))
            answer.enable_chunked_encoding()
            await answer.prepare(request)
            started.append(answer)
            async for line in stream.lines:
                if isinstance(line, PartialLine):
                    await answer.write(line)
                    raise TransportError("cut in the middle of a line")
                await answer.write(line + b"\n")
        await answer.write_eof()
        return answer


@asynccontextmanager
async def fault_proxy(
    server: Path | Endpoint, env: Env | None = None, *, tls: bool = True
) -> AsyncIterator[FaultProxy]:
    """
    Listen on a loopback port and pass on to an API server; all is gone at the end of the block.

    `server` is a kubeconfig or an endpoint. kubectl and client-go send no token without `tls`.

    Raises:
        ConfigError: The kubeconfig cannot be used.
    """
    env = env or system_env()
    endpoint = server if isinstance(server, Endpoint) else await find_endpoint(str(server), None)
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="ktrain-proxy-")))
        inner = HttpTransport(endpoint)
        stack.push_async_callback(inner.aclose)
        gate = Gate()
        proxy = FaultProxy(inner, env, directory / "kubeconfig", gate)
        identity = self_signed(HOST, now=env.clock.now()) if tls else None
        front = web.Server(proxy.handle, handler_cancellation=True)
        runner = web.ServerRunner(front, shutdown_timeout=0)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, HOST, 0, ssl_context=identity.context() if identity else None)
        await site.start()
        await gate.start(runner.addresses[0][1])
        stack.push_async_callback(gate.stop)
        stack.callback(proxy.clear)
        proxy.url = f"{'https' if tls else 'http'}://{HOST}:{gate.port}"
        kubeconfig.write(proxy.kubeconfig, proxy.url, proxy.token, identity.certificate if identity else b"")
        yield proxy


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _NOT_PASSED_ON}
