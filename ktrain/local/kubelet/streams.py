"""
`exec` and `attach` on this kubelet's pods (`apiserver.streams.StreamSource`).

A command runs beside the container's main process: same processes, files, variables and working directory. It is killed
when its client goes away, since nobody would ever do it. Who attaches reads what the container adds to its log.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio

from ktrain.api.meta import Key
from ktrain.local.apiserver.reading.logs import LogUnavailable
from ktrain.local.apiserver.streams.channels import STDERR, STDOUT
from ktrain.local.apiserver.streams.connecting import StreamUnavailable
from ktrain.local.sandbox.executor import SandboxError, StartError

from .console import Pipes

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncGenerator, Callable

    from ktrain.local.apiserver.streams.channels import Session
    from ktrain.local.apiserver.streams.connecting import StreamOptions
    from ktrain.local.sandbox.executor import Process

    from .console import Console, Descriptor
    from .container import ContainerRunner, Live
    from .logs import LogStore
    from .worker import PodWorker

_QUEUED: Final = 4
"""Pieces of output that wait for the client; then the command waits."""
_CONNECT_TIMEOUT_S: Final = 10.0
_NOT_EXECUTABLE: Final = 126
_NOT_FOUND: Final = 127
_LINGER_S: Final = 0.5
"""How long output is read on when the command has ended but something it started keeps its output open."""


class ContainerStreams:
    """Finds the container and starts a session."""

    def __init__(self, find: Callable[[Key], PodWorker | None], logs: LogStore) -> None:
        self._find = find
        self._logs = logs

    async def execute(self, namespace: str, pod: str, container: str, options: StreamOptions) -> Session:
        """
        Start a command in a running container. One that cannot be run has ended as a shell would tell it: 126 or 127.

        Raises:
            StreamUnavailable: The container does not run.
        """
        live = self._live(namespace, pod, container)
        try:
            pipes = Pipes(stdin=options.stdin, tty=options.tty)
        except OSError as error:
            raise StreamUnavailable(f"no pipe or terminal can be made: {error.strerror}") from error
        spec = replace(live.target.process, argv=options.command, stdio=pipes.stdio)
        if options.tty:
            spec = replace(spec, env={"TERM": "xterm"} | dict(spec.env))
        try:
            process = await live.target.sandbox.start(spec, beside=live.process)
        except (StartError, SandboxError) as error:
            pipes.close()
            if isinstance(error, StartError) and error.errno is not None:
                return UnstartedCommand(options, error.errno)
            raise StreamUnavailable(f"error executing command in container {container!r}: {error}") from error
        except BaseException:
            pipes.close()
            raise
        pipes.started()
        return CommandSession(process, pipes)

    async def attach(self, namespace: str, pod: str, container: str, options: StreamOptions) -> AttachSession:
        """
        Take part in what a running container's main process reads and writes from now on.

        Raises:
            StreamUnavailable: The container does not run.
        """
        live = self._live(namespace, pod, container)
        try:
            output = self._logs.follow_from_now(namespace, pod, container)
        except LogUnavailable as error:
            raise StreamUnavailable(str(error)) from error
        return AttachSession(output, live.console, keeps_input=not live.target.container.stdin_once, options=options)

    async def connect(self, namespace: str, pod: str, port: int) -> socket.socket:
        """
        Connect to a port of a running pod, as a program in it would.

        Raises:
            StreamUnavailable: The pod does not run, or nothing listens there.
        """
        worker = self._find(Key(namespace, pod))
        sandbox = worker.sandbox if worker is not None else None
        if sandbox is None:
            raise StreamUnavailable(f"pod {pod} does not run")
        try:
            return await sandbox.connect("127.0.0.1", port, _CONNECT_TIMEOUT_S)
        except OSError as error:
            why = error.strerror or str(error) or "no answer"
            raise StreamUnavailable(f"nothing listens on port {port} of pod {pod}: {why}") from error

    def _live(self, namespace: str, pod: str, container: str) -> Live:
        worker = self._find(Key(namespace, pod))
        runner: ContainerRunner | None = worker.container(container) if worker is not None else None
        if runner is None or runner.live is None:
            raise StreamUnavailable(f'container not found ("{container}"): it does not run')
        return runner.live


class CommandSession:
    """A command that was started for a client."""

    def __init__(self, process: Process, pipes: Pipes) -> None:
        self._process = process
        self._pipes = pipes
        self._output: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue(_QUEUED)
        self._pumping = asyncio.create_task(self._pump(), name="exec output")

    async def read(self) -> tuple[int, bytes] | None:
        """Return the next output; None when all has been read."""
        return await self._output.get()

    async def write(self, data: bytes) -> None:
        """Write to its input."""
        if self._pipes.stdin is not None:
            await self._pipes.stdin.write(data)

    def end_input(self) -> None:
        """Close its input; a terminal gets the character that stands for the end (Ctrl-D)."""
        if self._pipes.stdin is not None and self._pipes.terminal is None:
            self._pipes.stdin.close()

    def resize(self, width: int, height: int) -> None:
        """Resize its terminal, if it has one."""
        if self._pipes.terminal is not None:
            self._pipes.terminal.resize(width, height)

    async def exit_code(self) -> int:
        """Return how it ended."""
        return await self._process.wait()

    async def aclose(self) -> None:
        """Kill it if it still runs, and close its pipes."""
        self._pumping.cancel()
        try:
            self._process.signal(signal.SIGKILL)
        except SandboxError:
            pass  # The pod is gone, and it with it.
        finally:
            self._pipes.close()

    async def _pump(self) -> None:
        async with anyio.create_task_group() as reading:
            drained = asyncio.Event()
            reading.start_soon(self._drain_all, drained)
            await self._process.wait()
            with anyio.move_on_after(_LINGER_S):
                await drained.wait()
            reading.cancel_scope.cancel()
        await self._output.put(None)

    async def _drain_all(self, drained: asyncio.Event) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._drain, self._pipes.stdout, STDOUT)
            if self._pipes.stderr is not None:
                tasks.start_soon(self._drain, self._pipes.stderr, STDERR)
        drained.set()

    async def _drain(self, end: Descriptor, channel: int) -> None:
        while data := await end.read():
            await self._output.put((channel, data))


class UnstartedCommand:
    """A command that could not be run: says why, in the words of a container runtime (Go's os/exec), and has ended."""

    def __init__(self, options: StreamOptions, error: int) -> None:
        program = options.command[0]
        if error != errno.ENOENT:
            why = os.strerror(error).lower()
        elif "/" in program:
            why = f"stat {program}: no such file or directory"
        else:
            why = "executable file not found in $PATH"
        self._code = _NOT_FOUND if error == errno.ENOENT else _NOT_EXECUTABLE
        self._output = [(STDOUT if options.tty else STDERR, f'exec: "{program}": {why}\n'.encode())]

    async def read(self) -> tuple[int, bytes] | None:
        """Return the reason, once."""
        return self._output.pop() if self._output else None

    async def write(self, data: bytes) -> None:
        """Nobody reads it."""

    def end_input(self) -> None:
        """Nobody reads it."""

    def resize(self, width: int, height: int) -> None:
        """There is no terminal."""

    async def exit_code(self) -> int:
        """Return what a shell would: 127 for what is not found, else 126 (POSIX, 2.8.2)."""
        return self._code

    async def aclose(self) -> None:
        """There is nothing to end."""


class AttachSession:
    """A client at a container's main process, which lives on when the client goes."""

    def __init__(
        self, output: AsyncGenerator[bytes, None], console: Console | None, *, keeps_input: bool, options: StreamOptions
    ) -> None:
        self._output = output
        self._console = console
        self._keeps_input = keeps_input
        self._options = options

    async def read(self) -> tuple[int, bytes] | None:
        """Return what the container wrote; None when it has ended."""
        data = await anext(self._output, None)
        return None if data is None else (STDOUT, data)

    async def write(self, data: bytes) -> None:
        """Write to the container's input, if it has one."""
        if self._options.stdin and self._console is not None and self._console.stdin is not None:
            await self._console.stdin.write(data)

    def end_input(self) -> None:
        """Close the container's input, if the spec says that one client's end is its end (`stdinOnce`)."""
        console = self._console
        if self._options.stdin and not self._keeps_input and console is not None and console.stdin is not None:
            console.stdin.close()

    def resize(self, width: int, height: int) -> None:
        """Resize the container's terminal, if it has one."""
        if self._console is not None and self._console.terminal is not None:
            self._console.terminal.resize(width, height)

    async def exit_code(self) -> None:
        """Tell nothing: the pod's status does."""

    async def aclose(self) -> None:
        """Leave."""
        self.end_input()
        await self._output.aclose()
