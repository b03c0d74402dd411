"""
The `sim` executor: no processes, a script instead. For tests of everything above it, on virtual time.

    executor = SimExecutor(directory, script)

`script` is asked what each started program does: run for how long, exit with what, print what, refuse to start, ignore
SIGTERM. What happened is kept in `executor.started`, in order.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .executor import ProcessSpec, SandboxError, SandboxSpec, StartError

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from .executor import Process


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What a program does once it is started."""

    runs_s: float | None = None
    """Seconds until it ends by itself; None: until it is stopped."""
    exit_code: int = 0
    """Its exit code when it ends by itself."""
    on_term: int | None = 143
    """Its exit code at SIGTERM; None: it ignores the signal."""
    prints: str = ""
    says: str = ""
    """Written to the termination message file at its own end."""
    cannot_start: str = ""
    """Not empty: a StartError with this message."""
    oom_killed: bool = False


Script = Callable[[SandboxSpec, ProcessSpec], Act]


class SimProcess:
    """A program that follows its script."""

    def __init__(self, act: Act, spec: ProcessSpec, pid: int) -> None:
        self.pid = pid
        self.spec = spec
        self.signals: list[int] = []
        self.oom_killed = act.oom_killed
        self._act = act
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._timer: asyncio.TimerHandle | None = None
        if act.runs_s is not None:
            self._timer = asyncio.get_running_loop().call_later(act.runs_s, self._end_by_itself)

    async def wait(self) -> int:
        """Return the exit code once it has ended."""
        return await asyncio.shield(self._exit)

    def signal(self, signum: int) -> None:
        """Take a signal: SIGKILL ends it, SIGTERM does what the script says, others are only noted."""
        self.signals.append(signum)
        if signum == signal.SIGKILL:
            self.end(128 + signum)
        elif signum == signal.SIGTERM and self._act.on_term is not None:
            self.end(self._act.on_term)

    def end(self, exit_code: int) -> None:
        """End it with this exit code, if it has not ended."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._exit.done():
            self._exit.set_result(exit_code)

    def _end_by_itself(self) -> None:
        if self._act.says and self.spec.termination_log is not None:
            self.spec.termination_log.write_text(self._act.says)
        self.end(self._act.exit_code)


class SimSandbox:
    """A pod's processes, such as they are."""

    def __init__(self, spec: SandboxSpec, executor: SimExecutor, ip: str) -> None:
        self.spec = spec
        self.ip = ip
        self.processes: list[SimProcess] = []
        self.cannot_kill = ""
        """Not empty: `kill` ends with a SandboxError with this message."""
        self._executor = executor
        self._dead = False

    def rewrite(self, text: str) -> str:
        """Nothing needs rewriting where nothing runs."""
        return text

    async def start(
        self, process: ProcessSpec, *, beside: Process | None = None
    ) -> SimProcess:  # no container to be in
        """Start to follow the script."""
        if self._dead:
            raise SandboxError(f"the sandbox of pod {self.spec.name!r} was killed")
        act = self._executor.script(self.spec, process)
        if act.cannot_start:
            raise StartError(act.cannot_start)
        if act.prints and process.stdio is not None:
            os.write(process.stdio.stdout, act.prints.encode())
        elif act.prints:
            with process.log.open("a") as log:
                log.write(act.prints)
        started = SimProcess(act, process, self._executor.next_pid())
        self.processes.append(started)
        self._executor.started.append((self.spec, process))
        return started

    async def connect(self, host: str, port: int, timeout_s: float) -> socket.socket:
        """Nothing listens."""
        raise ConnectionRefusedError(f"nothing listens at {host}:{port}: the processes are simulated")

    async def kill(self) -> None:
        """End all of them with 137."""
        self._dead = True
        for process in self.processes:
            process.signal(signal.SIGKILL)
        if self.cannot_kill:
            raise SandboxError(self.cannot_kill)


class SimExecutor:
    """Makes simulated sandboxes. `directory` must exist; its owner removes it."""

    name = "sim"
    gateway = "10.88.0.1"

    def __init__(self, directory: Path, script: Script) -> None:
        self.directory = directory
        self.script = script
        self.started: list[tuple[SandboxSpec, ProcessSpec]] = []
        self.sandboxes: dict[str, SimSandbox] = {}
        """By pod UID."""
        self._pid = 0

    def next_pid(self) -> int:
        """Return a number no other simulated process has."""
        self._pid += 1
        return self._pid

    async def create_sandbox(self, spec: SandboxSpec) -> SimSandbox:
        """Make a place for a pod."""
        number = len(self.sandboxes) + 2
        sandbox = SimSandbox(spec, self, f"10.88.{number >> 8}.{number & 255}")
        self.sandboxes[spec.uid] = sandbox
        return sandbox

    async def listen(self, port: int) -> socket.socket:
        """Simulated pods call nobody."""
        raise SandboxError(f"cannot listen on port {port}: the processes are simulated")

    async def aclose(self) -> None:
        """End everything."""
        for sandbox in self.sandboxes.values():
            await sandbox.kill()
