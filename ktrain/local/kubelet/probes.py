"""
Handlers, as probes and lifecycle hooks use them: run a command, GET a URL, connect, sleep; and probes' verdicts.

All of them act from the pod's own side: commands run in its sandbox, connections start in its network. A handler never
raises: it returns None for success or says in a sentence what failed, which becomes the event's message.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
import anyio.to_thread

from ktrain.local.sandbox.executor import SandboxError, StartError

from . import grpc_health
from .logs import tail

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from pathlib import Path
    from ssl import SSLContext

    from ktrain.framework.env import Clock
    from ktrain.local.sandbox.executor import Process, ProcessSpec, Sandbox

    from .spec import Container, ExecAction, GrpcAction, Handler, HttpGetAction, Probe, TcpSocketAction

_OUTPUT_LIMIT: Final = 1024
_STATUS_LINE_LIMIT: Final = 8192


class Verdict(NamedTuple):
    """A probe's opinion once a threshold was reached."""

    healthy: bool
    message: str


@dataclass(frozen=True, slots=True)
class Target:
    """The running container that handlers act on."""

    sandbox: Sandbox
    container: Container
    process: ProcessSpec
    """How its main process was started; commands run in the same surroundings."""
    clock: Clock
    main: Process | None = None
    """Its main process; commands run beside it."""
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def perform(self, handler: Handler, timeout_s: float) -> str | None:
        """Carry out a handler; return None, or why it failed. Cancellation kills a command that runs."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._perform(handler, timeout_s)
        except TimeoutError:
            return f"no answer within {timeout_s:g} s"
        except (OSError, StartError, SandboxError, ValueError) as error:
            return str(error) or type(error).__name__

    async def _perform(self, handler: Handler, timeout_s: float) -> str | None:
        if handler.exec is not None:
            return await self._run(handler.exec)
        if handler.http_get is not None:
            return await self._get(handler.http_get, timeout_s)
        if handler.tcp_socket is not None:
            (await self._connect(*self._address(handler.tcp_socket), timeout_s)).close()
            return None
        if handler.sleep is not None:
            await self.clock.sleep(handler.sleep.seconds)
            return None
        if handler.grpc is not None:
            return await self._ask_health(handler.grpc, timeout_s)
        return "only exec, httpGet, tcpSocket, grpc and sleep are supported here"

    async def _ask_health(self, action: GrpcAction, timeout_s: float) -> str | None:
        host, port = self.sandbox.ip, action.port
        reader, writer = await asyncio.open_connection(sock=await self._connect(host, port, timeout_s))
        try:
            return await grpc_health.check(reader, writer, f"{host}:{port}", action.service)
        except EOFError:
            return f"gRPC probe failed: {host}:{port} closed the connection"
        finally:
            writer.close()

    async def _run(self, action: ExecAction) -> str | None:
        output = self.process.log.with_suffix(f".exec-{next(self._numbers)}")
        process = await self.sandbox.start(replace(self.process, argv=action.command, log=output), beside=self.main)
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            process.signal(signal.SIGKILL)
            raise
        finally:
            with anyio.CancelScope(shield=True):
                said = await anyio.to_thread.run_sync(_take, output)
        return None if code == 0 else f"{' '.join(action.command)} exited with code {code}: {said}".rstrip(": ")

    async def _get(self, action: HttpGetAction, timeout_s: float) -> str | None:
        host, port = self._address(action)
        connection = await self._connect(host, port, timeout_s)
        secure = action.scheme.upper() == "HTTPS"
        reader, writer = await asyncio.open_connection(
            sock=connection,
            limit=_STATUS_LINE_LIMIT,
            ssl=_unverified() if secure else None,
            server_hostname=host if secure else None,
        )
        try:
            headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe/ktrain", "Accept": "*/*"}
            headers |= {header.name: header.value for header in action.http_headers}
            lines = [f"GET {action.path or '/'} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
            writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode())
            status_line = (await reader.readline()).decode("latin-1").split(" ", 2)
        finally:
            writer.close()
        if len(status_line) < 2 or not status_line[1].isdecimal():
            return f"{host}:{port} did not answer in HTTP"
        code = int(status_line[1])
        return None if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"

    async def _connect(self, host: str, port: int, timeout_s: float) -> socket.socket:
        try:
            return await self.sandbox.connect(host, port, timeout_s)
        except TimeoutError:
            raise
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise ConnectionError(f"cannot connect to {host}:{port}: {why}") from error

    def _address(self, action: HttpGetAction | TcpSocketAction) -> tuple[str, int]:
        host, port = action.host or self.sandbox.ip, action.port
        if isinstance(port, str) and not port.isdecimal():
            named = {p.name: p.container_port for p in self.container.ports}
            if port not in named:
                raise ValueError(f"container {self.container.name!r} has no port named {port!r}")
            return host, named[port]
        return host, int(port)


async def verdicts(
    probe: Probe, perform: Callable[[Handler, float], Awaitable[str | None]], clock: Clock, *, healthy: bool | None
) -> AsyncGenerator[Verdict, None]:
    """
    Ask again and again, and yield each time the opinion changes; it starts as `healthy`, None being neither.

    It changes after `successThreshold` or `failureThreshold` answers of one kind in a row.
    """
    await clock.sleep(probe.initial_delay_seconds)
    run, last = 0, False
    while True:
        failure = await perform(probe, probe.timeout_seconds)
        good = failure is None
        run, last = (run + 1 if good is last else 1), good
        if good is not healthy and run >= (probe.success_threshold if good else probe.failure_threshold):
            healthy = good
            yield Verdict(healthy, failure or "")
        await clock.sleep(probe.period_seconds)


def _unverified() -> SSLContext:
    import ssl

    context = ssl.create_default_context()
    # A probe proves that something answers, not who: the kubelet skips verification, too.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _take(output: Path) -> str:
    """Read the end of what a command printed, and delete it."""
    text = tail(output, size=_OUTPUT_LIMIT)
    output.unlink(missing_ok=True)
    return text.decode("utf-8", "replace").strip()
