"""
What both executors share: a helper process (`helper`) that holds the pods, and a socket to each.

An executor starts the helper with one end of a socket pair. Per pod it sends one end of another, and from then on talks
to the pod's own process; the helper is asked only to kill. All of it ends when the sockets do, so a runner that is
killed leaves nothing behind, and the helper's janitor removes the runner's directory.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

import structlog

from ktrain.local.sandbox.channel import Channel, Refused
from ktrain.local.sandbox.executor import SandboxError, StartError
from ktrain.local.sandbox.helper import scratch
from ktrain.local.sandbox.helper_client import KILL_TIMEOUT_S, START_TIMEOUT_S, Helper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from ktrain.local.sandbox.executor import Process, ProcessSpec, SandboxSpec
    from ktrain.local.sandbox.wire import Frame

log = structlog.get_logger(__name__)

_KILLED: Final = 137


class SupervisedProcess:
    """A program that was started in a pod; see `executor.Process`."""

    def __init__(self, pid: int, key: int, channel: Channel, ended: asyncio.Future[tuple[int, bool]]) -> None:
        self.pid = pid
        self.oom_killed = False
        self.key = key
        self._channel = channel
        self._ended = ended

    async def wait(self) -> int:
        """Return the exit code once it and its descendants are gone."""
        code, self.oom_killed = await asyncio.shield(self._ended)
        return code

    def signal(self, signum: int) -> None:
        """Send a signal to the program, if it still runs."""
        if not self._ended.done():
            self._channel.send({"op": "signal", "process": self.key, "signum": int(signum)})


class SupervisedSandbox(ABC):
    """One pod held by the helper. Subclasses say how the pod is shown a `ProcessSpec`, and what to give back."""

    def __init__(self, spec: SandboxSpec, helper: Helper, key: int, ip: str) -> None:
        self.spec = spec
        self.ip = ip
        self._helper = helper
        self._key = key
        self._process_keys = itertools.count(1)
        self._exits: dict[int, asyncio.Future[tuple[int, bool]]] = {}
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._channel: Channel | None = None
        self._killing: asyncio.Task[None] | None = None

    def rewrite(self, text: str) -> str:
        """Return the text as it is."""
        return text

    @abstractmethod
    async def prepare(self, process: ProcessSpec) -> Frame:
        """Return what the pod's process must know to start the program. StartError if that is clear already."""

    @abstractmethod
    async def release(self) -> None:
        """Give back what the pod held outside its processes. Called once, when they are gone."""

    async def open(self, setup: Frame) -> None:
        """Fork the pod and wait until it is furnished. SandboxError if the kernel refused."""
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours, self._on_event, self._on_end)
        try:
            with theirs:
                await self._helper.channel.request({"op": "create", "sandbox": self._key} | setup, (theirs.fileno(),))
            async with asyncio.timeout(START_TIMEOUT_S):
                await asyncio.shield(self._ready)
        except Refused as error:
            raise SandboxError(f"no sandbox for pod {self.pod}: {error}") from None

    async def start(self, process: ProcessSpec, *, beside: Process | None = None) -> SupervisedProcess:
        """Start a program; see `executor.Sandbox.start`."""
        channel = self._living()
        frame = await self.prepare(process)
        if isinstance(beside, SupervisedProcess):
            frame["beside"] = beside.key
        key = next(self._process_keys)
        ended = self._exits[key] = asyncio.get_running_loop().create_future()
        try:
            with _descriptors(process) as descriptors:
                answer, _ = await channel.request({"op": "start", "process": key} | frame, descriptors)
        except Refused as error:
            self._exits.pop(key, None)
            raise StartError(f"cannot start {process.argv[0]!r}: {error}", errno=error.errno) from None
        return SupervisedProcess(answer["ok"], key, channel, ended)

    async def connect(self, host: str, port: int, timeout_s: float) -> socket.socket:
        """Connect from within the pod's network; see `executor.Sandbox.connect`."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout_s):
            infos = await loop.getaddrinfo(self._address(host), port, type=socket.SOCK_STREAM)
            family, _, _, _, address = infos[0]
            try:
                _, fds = await self._living().request({"op": "socket", "family": int(family)})
            except SandboxError as error:
                raise ConnectionError(str(error)) from None
            sock = socket.socket(fileno=fds[0])
            sock.settimeout(0)
            try:
                await loop.sock_connect(sock, address)
            except BaseException:
                sock.close()
                raise
            return sock

    def abandon(self) -> None:
        """Note that the helper is gone, and with it all that ran here."""
        if self._channel is not None:
            self._channel.close()

    async def kill(self) -> None:
        """Kill everything in it; see `executor.Sandbox.kill`."""
        if self._killing is None:
            self._killing = asyncio.create_task(self._kill(), name=f"kill pod {self.pod}")
        await asyncio.shield(self._killing)

    @property
    def pod(self) -> str:
        """Namespace and name, for messages."""
        return f"{self.spec.namespace}/{self.spec.name}"

    def _living(self) -> Channel:
        if self._channel is None or self._killing is not None or not self._channel.is_open:
            raise SandboxError(f"the sandbox of pod {self.pod} was killed")
        return self._channel

    def _address(self, host: str) -> str:
        return self.ip if host in (self.spec.hostname, *self.spec.names) else host

    async def _kill(self) -> None:
        try:
            async with asyncio.timeout(KILL_TIMEOUT_S):
                await self._helper.channel.request({"op": "kill", "sandbox": self._key})
        except TimeoutError:
            log.warning("sandbox.kill.slow", pod=self.pod)
        except Refused as refused:
            # Closing the pod's own socket, which comes next, ends the pod as well; only nobody waits for it.
            log.warning("sandbox.kill.refused", pod=self.pod, error=str(refused))
        except SandboxError:
            pass  # The helper is dead, and the pods with it.
        self.abandon()
        await self.release()

    def _on_event(self, frame: Frame) -> None:
        match frame["event"]:
            case "exit":
                ended = self._exits.pop(frame["process"], None)
                if ended is not None:  # Else its start was refused.
                    ended.set_result((frame["code"], frame["oom"]))
            case "ready" if not self._ready.done():
                self._ready.set_result(None)
            case "failed" if not self._ready.done():
                self._ready.set_exception(SandboxError(f"no sandbox for pod {self.pod}: {frame['error']}"))

    def _on_end(self) -> None:
        if not self._ready.done():
            self._ready.set_exception(SandboxError(f"the sandbox of pod {self.pod} died while it was made"))
            self._ready.exception()
        for ended in self._exits.values():
            if not ended.done():
                ended.set_result((_KILLED, False))
        self._exits.clear()


class SupervisedExecutor:
    """An executor on a helper process. `start` makes one; subclasses make the sandboxes."""

    name = ""
    gateway = "127.0.0.1"

    def __init__(self, helper: Helper, directory: Path) -> None:
        self.directory = directory
        self._helper = helper
        self._keys = itertools.count(1)
        self._sandboxes: WeakSet[SupervisedSandbox] = WeakSet()
        self._closed = False

    @classmethod
    async def start(cls) -> Self:
        """
        Make the runner's directory and start the helper.

        Raises:
            SandboxError: What this machine or its administrator does not allow.
        """
        try:
            directory, lock = scratch.make()
        except OSError as error:
            raise SandboxError(f"no temporary directory can be made: {error}; set TMPDIR to where one can") from None
        helper = Helper(cls.name, directory, lock)
        try:
            await helper.ready()
        except BaseException:
            await helper.aclose()
            await _remove(directory)
            raise
        return cls(helper, Path(directory))

    async def _open(self, sandbox: SupervisedSandbox, setup: Callable[[], Frame]) -> None:
        """Open a sandbox, or leave nothing of it. SandboxError with what was refused."""
        self._sandboxes.add(sandbox)
        try:
            await sandbox.open(setup())
        except OSError as error:  # A time-out, too.
            await sandbox.kill()
            reason = str(error) or f"it was not ready within {START_TIMEOUT_S:.0f} s"
            raise SandboxError(f"no sandbox for pod {sandbox.pod}: {reason}") from None
        except BaseException:
            await sandbox.kill()
            raise

    async def listen(self, port: int) -> socket.socket:
        """Listen where pods can reach it; see `executor.Executor.listen`."""
        try:
            _, fds = await self._helper.channel.request({"op": "listen", "address": self.gateway, "port": port})
        except Refused as error:
            raise OSError(error.errno, f"cannot listen on {self.gateway}:{port}: {error}") from None
        sock = socket.socket(fileno=fds[0])
        sock.settimeout(0)
        return sock

    async def aclose(self) -> None:
        """Kill everything; see `executor.Executor.aclose`."""
        if self._closed:
            return
        self._closed = True
        await self._helper.aclose()
        for sandbox in self._sandboxes:
            sandbox.abandon()
        await _remove(str(self.directory))


@contextmanager
def _descriptors(process: ProcessSpec) -> Iterator[tuple[int, ...]]:
    """Open what the program reads and writes: its own three descriptors, or one for the log. StartError."""
    if (stdio := process.stdio) is not None:
        yield (stdio.stdin, stdio.stdout, stdio.stderr)
        return
    try:
        log_fd = os.open(process.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StartError(f"cannot write the log {process.log}: {error.strerror}") from None
    try:
        yield (log_fd,)
    finally:
        os.close(log_fd)


async def _remove(directory: str) -> None:
    """Remove what the janitor would have removed, in case it was killed itself."""
    await asyncio.to_thread(scratch.remove, directory)
