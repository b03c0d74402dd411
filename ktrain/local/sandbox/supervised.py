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
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from ktrain.local.sandbox.channel import Channel, Refused
from ktrain.local.sandbox.executor import SandboxError, StartError

if TYPE_CHECKING:
    from typing import Self

    from ktrain.local.sandbox.executor import ProcessSpec, SandboxSpec
    from ktrain.local.sandbox.wire import Frame

log = structlog.get_logger(__name__)

_START_TIMEOUT_S: Final = 20.0
_KILL_TIMEOUT_S: Final = 20.0
_KILLED: Final = 137

# The package's place goes in by hand: -I and -S keep everything else out of the helper's path, so that it starts in
# milliseconds whatever is installed, and imports nothing of the user's.
_BOOT: Final = "import sys; sys.path.append({root!r}); from ktrain.local.sandbox.helper.main import main; main({args})"


class Helper:
    """The helper process of one executor and the channel to it."""

    def __init__(self, mode: str, directory: Path) -> None:
        """Start it; the caller awaits `ready`."""
        ours, theirs = socket.socketpair()
        root = str(Path(__file__).parents[3])
        args = f"{theirs.fileno()}, {mode!r}, {str(directory)!r}"
        command = [sys.executable, "-IS", "-c", _BOOT.format(root=root, args=args)]
        with theirs:
            # A session of its own: Ctrl-C is for the runner, which then decides how pods end.
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and program
                command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.channel = Channel(ours, self._on_event, self._on_end)

    async def ready(self) -> None:
        """Wait until it can make pods. SandboxError with what was refused."""
        async with asyncio.timeout(_START_TIMEOUT_S):
            await asyncio.shield(self._ready)

    async def aclose(self) -> None:
        """End it and wait until everything below it is gone."""
        self.channel.close()
        await asyncio.to_thread(self._wait)

    def _wait(self) -> None:
        try:
            self._process.wait(_KILL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            log.warning("sandbox.helper.stuck", pid=self._process.pid)
            self._process.kill()
            self._process.wait()

    def _on_event(self, frame: Frame) -> None:
        if self._ready.done():
            return
        if frame["event"] == "ready":
            self._ready.set_result(None)
        else:
            self._ready.set_exception(SandboxError(frame["error"]))

    def _on_end(self) -> None:
        if not self._ready.done():
            self._ready.set_exception(SandboxError("the helper process died while starting"))
            self._ready.exception()


class SupervisedProcess:
    """A program that was started in a pod; see `executor.Process`."""

    def __init__(self, pid: int, key: int, channel: Channel, ended: asyncio.Future[tuple[int, bool]]) -> None:
        self.pid = pid
        self.oom_killed = False
        self._key = key
        self._channel = channel
        self._ended = ended

    async def wait(self) -> int:
        """Return the exit code once it and its descendants are gone."""
        code, self.oom_killed = await asyncio.shield(self._ended)
        return code

    def signal(self, signum: int) -> None:
        """Send a signal to the program, if it still runs."""
        if not self._ended.done():
            self._channel.send({"op": "signal", "process": self._key, "signum": int(signum)})


class SupervisedSandbox:
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

    async def prepare(self, process: ProcessSpec) -> Frame:
        """Return what the pod's process must know to start the program. StartError if that is clear already."""
        raise NotImplementedError

    async def release(self) -> None:
        """Give back what the pod held outside its processes. Called once, when they are gone."""

    async def open(self, setup: Frame) -> None:
        """Fork the pod and wait until it is furnished. SandboxError if the kernel refused."""
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours, self._on_event, self._on_end)
        try:
            with theirs:
                await self._helper.channel.request({"op": "create", "sandbox": self._key} | setup, (theirs.fileno(),))
            async with asyncio.timeout(_START_TIMEOUT_S):
                await asyncio.shield(self._ready)
        except Refused as error:
            raise SandboxError(f"no sandbox for pod {self._pod}: {error}") from None

    async def start(self, process: ProcessSpec) -> SupervisedProcess:
        """Start a program; see `executor.Sandbox.start`."""
        channel = self._living()
        frame = await self.prepare(process)
        key = next(self._process_keys)
        try:
            log_fd = os.open(process.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StartError(f"cannot write the log {process.log}: {error.strerror}") from None
        ended = self._exits[key] = asyncio.get_running_loop().create_future()
        try:
            answer, _ = await channel.request({"op": "start", "process": key} | frame, (log_fd,))
        except Refused as error:
            raise StartError(f"cannot start {process.argv[0]!r}: {error}") from None
        finally:
            os.close(log_fd)
        return SupervisedProcess(answer["ok"], key, channel, ended)

    async def connect(self, host: str, port: int, timeout_s: float) -> socket.socket:
        """Connect from within the pod's network; see `executor.Sandbox.connect`."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout_s):
            infos = await loop.getaddrinfo(self._address(host), port, type=socket.SOCK_STREAM)
            family, _, _, _, address = infos[0]
            try:
                _, fds = await self._living().request({"op": "socket", "family": int(family)})
            except (Refused, SandboxError) as error:
                raise ConnectionError(str(error)) from None
            sock = socket.socket(fileno=fds[0])
            sock.settimeout(0)
            try:
                await loop.sock_connect(sock, address)
            except BaseException:
                sock.close()
                raise
            return sock

    async def kill(self) -> None:
        """Kill everything in it; see `executor.Sandbox.kill`."""
        if self._killing is None:
            self._killing = asyncio.create_task(self._kill(), name=f"kill pod {self._pod}")
        await asyncio.shield(self._killing)

    @property
    def _pod(self) -> str:
        return f"{self.spec.namespace}/{self.spec.name}"

    def _living(self) -> Channel:
        if self._channel is None or self._killing is not None or not self._channel.is_open:
            raise SandboxError(f"the sandbox of pod {self._pod} was killed")
        return self._channel

    def _address(self, host: str) -> str:
        return self.ip if host in (self.spec.hostname, *self.spec.names) else host

    async def _kill(self) -> None:
        try:
            async with asyncio.timeout(_KILL_TIMEOUT_S):
                await self._helper.channel.request({"op": "kill", "sandbox": self._key})
        except TimeoutError:
            log.warning("sandbox.kill.slow", pod=self._pod)
        except SandboxError:
            pass  # The helper is dead, and the pods with it.
        if self._channel is not None:
            self._channel.close()
        await self.release()

    def _on_event(self, frame: Frame) -> None:
        match frame["event"]:
            case "exit":
                ended = self._exits.pop(frame["process"])
                ended.set_result((frame["code"], frame["oom"]))
            case "ready" if not self._ready.done():
                self._ready.set_result(None)
            case "failed" if not self._ready.done():
                self._ready.set_exception(SandboxError(f"no sandbox for pod {self._pod}: {frame['error']}"))

    def _on_end(self) -> None:
        if not self._ready.done():
            self._ready.set_exception(SandboxError(f"the sandbox of pod {self._pod} died while it was made"))
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
        self._closed = False

    @classmethod
    async def start(cls) -> Self:
        """
        Make the runner's directory and start the helper.

        Raises:
            SandboxError: What this machine or its administrator does not allow.
        """
        try:
            directory = Path(tempfile.mkdtemp(prefix="ktrain-"))
        except OSError as error:
            raise SandboxError(f"no temporary directory can be made: {error}; set TMPDIR to where one can") from None
        helper = Helper(cls.name, directory)
        try:
            await helper.ready()
        except BaseException:
            await helper.aclose()
            await _remove(directory)
            raise
        return cls(helper, directory)

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
        await _remove(self.directory)


async def _remove(directory: Path) -> None:
    """Remove what the janitor would have removed, in case it was killed itself."""
    await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
