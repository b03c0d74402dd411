"""
One container of a pod: its attempts, restarts, hooks and probes.

A `ContainerRunner` runs as one task of its pod's worker and reports every change as a new `ContainerRecord`. It does
not know the pod's order of things: the worker starts and stops it.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import anyio

from ktrain.framework.errors import FrameworkError
from ktrain.local.sandbox.executor import StartError

from . import mpi
from .console import Console
from .deadline import Deadline
from .environment import ConfigError
from .files import VolumeError
from .probes import Target, verdicts
from .restarts import RestartBackoff, RestartPolicy, restarts, restarts_all
from .resume import LOST_MESSAGE
from .status import LOST, ContainerRecord, Role, Running, Terminated, Waiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from datetime import datetime

    from anyio.abc import TaskGroup

    from ktrain.framework import Env
    from ktrain.local.sandbox.executor import Process, ProcessSpec, Sandbox

    from .launch import Attempt
    from .spec import Container, Probe

CONFIG_RETRY_S: Final = 1.0
"""Between looks for a ConfigMap or Secret that a container needs."""
_TERM_AT_LEAST_S: Final = 2.0
"""What is left for SIGTERM when preStop has used up the grace period (pod lifecycle: termination flow)."""
_HOOK_TIMEOUT_S: Final = 86_400.0
"""postStart has no limit of its own; one day is none either."""


@dataclass(frozen=True, slots=True)
class PodSide:
    """What a container needs of its pod; the worker provides it."""

    env: Env
    label: str
    """`name_namespace(uid)`, as messages name the pod."""
    restart_policy: str
    grace_s: int
    restarts: RestartPolicy
    sandbox: Callable[[], Sandbox]
    target: Callable[[Container], Process | None]
    """Beside which process a container is to run: None for all but those that look into another. ConfigError."""
    prepare: Callable[[ContainerRecord], Awaitable[Attempt]]
    """Raises ConfigError, VolumeError, FrameworkError (tried again) or StartError (counts as an attempt)."""
    restart_all: Callable[[Terminated], None]
    """Ask for all containers of the pod to start anew, because one of them ended so."""
    changed: Callable[[], None]
    event: Callable[[str, str, str], None]
    """Type, reason, message."""


@dataclass(frozen=True, slots=True)
class Live:
    """A container that runs."""

    process: Process
    target: Target
    console: Console | None
    """Input and terminal, if the spec asks for them."""


class ContainerRunner:
    """Runs one container until it has ended for good. `record` is what is known of it, at any time."""

    def __init__(self, record: ContainerRecord, pod: PodSide) -> None:
        self.record = record
        self.initialized = asyncio.Event()
        """What comes after this container may start; also set when it has ended for good."""
        self.ended = asyncio.Event()
        self._pod = pod
        self._backoff = RestartBackoff(pod.restarts)
        self._stopping = asyncio.Event()
        self.live: Live | None = None
        self._terminating: Process | None = None
        self._begun = False
        self._hooks = True

    @property
    def name(self) -> str:
        """The container's name."""
        return self.record.container.name

    def begin(self, tasks: TaskGroup) -> None:
        """Start running, as a task of this group."""
        self._begun = True
        tasks.start_soon(self._run, name=f"container {self.name} of {self._pod.label}")

    def lose(self) -> None:
        """Record that it is gone without anybody having seen how: its task was cancelled, or its kubelet died."""
        record = self.record
        if isinstance(record.state, Terminated):
            return
        if isinstance(record.state, Waiting) and record.last is not None:
            ended, last = record.last, None  # It was between two attempts: how the last one ended is known.
        else:
            now = self._pod.env.clock.now()
            begun = record.state.started_at if isinstance(record.state, Running) else now
            ended, last = Terminated(137, LOST, begun, now, LOST_MESSAGE), record.last
        self._set(replace(record, state=ended, last=last, ready=False, started=False))

    def anew(self) -> ContainerRunner:
        """Return the runner that comes after this one, which has ended, when all containers start anew."""
        record = self.record
        last = record.state if isinstance(record.state, Terminated) else record.last
        return ContainerRunner(replace(record, state=Waiting(), last=last, ready=False, started=False), self._pod)

    async def stop(self, deadline: Deadline, *, hooks: bool = True) -> None:
        """End it for good: preStop, SIGTERM, and SIGKILL at the deadline. Returns when it has ended."""
        self._stopping.set()
        self._hooks = hooks
        if self.live is not None:
            await self._terminate(self.live.process, deadline)
        if self._begun:
            await self.ended.wait()

    async def _run(self) -> None:
        # How it ended under a kubelet before this one, if it did.
        ended = self.record.state if isinstance(self.record.state, Terminated) else None
        try:
            while not self._stopping.is_set():
                if ended is None and (ended := await self._attempt()) is None:
                    await self._pause(CONFIG_RETRY_S)
                    continue
                if self._stopping.is_set():
                    break
                if self.record.role is not Role.EPHEMERAL and restarts_all(self.record.container, ended.exit_code):
                    self._pod.restart_all(ended)
                    break
                if not self._restarts(ended):
                    break
                await self._back_off(ended)
                ended = None
        finally:
            self.initialized.set()
            self.ended.set()

    def _restarts(self, ended: Terminated) -> bool:
        record = self.record
        return restarts(record.container, record.role, self._pod.restart_policy, ended.exit_code)

    async def _back_off(self, ended: Terminated) -> None:
        delay = self._backoff.delay_s(ended)
        if not delay:
            return
        before = self.record
        message = f"back-off {delay:g}s restarting failed container={self.name} pod={self._pod.label}"
        self._set(replace(before, state=Waiting("CrashLoopBackOff", message), last=ended))
        self._pod.event("Warning", "BackOff", message)
        await self._pause(delay)
        if self._stopping.is_set():
            self._set(before)

    async def _pause(self, seconds: float) -> None:
        """Wait, or until it is to be stopped."""
        with anyio.move_on_after(seconds):
            await self._stopping.wait()

    async def _attempt(self) -> Terminated | None:
        """Run it once and return how it ended; None when it cannot be configured yet."""
        before = self.record
        previous = before.state if isinstance(before.state, Terminated) else before.last
        begun = self._pod.env.clock.now()
        try:
            beside = self._pod.target(before.container)
            attempt = await self._pod.prepare(before)
        except (ConfigError, VolumeError, FrameworkError) as error:
            waiting = Waiting("CreateContainerConfigError", str(error))
            if before.state != waiting:
                # Once per reason: it is tried again every second.
                self._pod.event("Warning", "Failed", f"container {self.name}: {error}")
            self._set(replace(before, state=waiting, last=previous))
            return None
        except StartError as error:
            return self._not_started(error, begun, previous)
        try:
            async with _console(attempt) as console:
                process = await self._pod.sandbox().start(_with_console(attempt.process, console), beside=beside)
                if console is not None:
                    console.started()
                self.record = replace(before, attempts=before.attempts + 1, last=previous)
                sandbox, clock = self._pod.sandbox(), self._pod.env.clock
                target = Target(sandbox, self.record.container, attempt.process, clock, main=process)
                code = await self._live(Live(process, target, console), begun)
        except StartError as error:
            return self._not_started(error, begun, previous)
        finally:
            # Also when this task is cancelled or the sandbox has died, which no further attempt would change: who
            # follows the log must come to its end.
            attempt.logs.end(attempt.log)
        ended = await self._end(process, attempt, code, begun)
        self._set(replace(self.record, state=ended, ready=False, started=False))
        return ended

    def _not_started(self, error: Exception, begun: datetime, previous: Terminated | None) -> Terminated:
        self._pod.event("Warning", "Failed", f"container {self.name}: {error}")
        ended = Terminated(128, "StartError", begun, self._pod.env.clock.now(), str(error))
        self._set(replace(self.record, state=ended, last=previous, attempts=self.record.attempts + 1))
        return ended

    async def _live(self, live: Live, begun: datetime) -> int:
        """Watch over the process until it has ended; return its exit code."""
        self.live = live
        if self._stopping.is_set():
            live.process.signal(signal.SIGKILL)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch_over, live.process, live.target, begun)
                code = await live.process.wait()
                tasks.cancel_scope.cancel()
        finally:
            self.live = None
        return code

    async def _end(self, process: Process, attempt: Attempt, code: int, begun: datetime) -> Terminated:
        message = await attempt.last_words(code)
        reason = "OOMKilled" if process.oom_killed else "Completed" if code == 0 else "Error"
        return Terminated(code, reason, begun, self._pod.env.clock.now(), message)

    async def _watch_over(self, process: Process, target: Target, begun: datetime) -> None:
        """Carry out postStart, then the startup probe, then the others; cancelled when the process has ended."""
        container = mpi.probed(self.record.container, target.process.argv)
        hook = container.lifecycle.post_start
        if hook is not None and (failure := await target.perform(hook, _HOOK_TIMEOUT_S)):
            self._pod.event("Warning", "FailedPostStartHook", f"container {self.name}: {failure}")
            await self._end_by_itself(process, self._pod.grace_s)
            return
        self._set(replace(self.record, state=Running(begun)))
        self._pod.event("Normal", "Started", f"container {self.name} started")
        if container.startup_probe is not None and not await self._starts_up(process, target, container.startup_probe):
            return
        ready = container.readiness_probe is None and self.record.role in (Role.MAIN, Role.SIDECAR)
        self._set(replace(self.record, started=True, ready=ready))
        if self.record.role is Role.SIDECAR:
            self.initialized.set()
        async with anyio.create_task_group() as probes:
            if container.readiness_probe is not None:
                probes.start_soon(self._watch_readiness, target, container.readiness_probe)
            if container.liveness_probe is not None:
                probes.start_soon(self._watch_liveness, process, target, container.liveness_probe)

    async def _starts_up(self, process: Process, target: Target, probe: Probe) -> bool:
        # It counts as neither up nor down: the first verdict decides, whichever it is.
        async with aclosing(verdicts(probe, target.perform, self._pod.env.clock, healthy=None)) as found:
            async for verdict in found:
                if verdict.healthy:
                    return True
                await self._fail(process, "startup", verdict.message, probe)
                return False
        return False

    async def _watch_readiness(self, target: Target, probe: Probe) -> None:
        async with aclosing(verdicts(probe, target.perform, self._pod.env.clock, healthy=False)) as found:
            async for verdict in found:
                self._set(replace(self.record, ready=verdict.healthy))
                if not verdict.healthy:
                    self._pod.event("Warning", "Unhealthy", f"container {self.name}: readiness: {verdict.message}")

    async def _watch_liveness(self, process: Process, target: Target, probe: Probe) -> None:
        async with aclosing(verdicts(probe, target.perform, self._pod.env.clock, healthy=True)) as found:
            async for verdict in found:
                if not verdict.healthy:
                    await self._fail(process, "liveness", verdict.message, probe)
                    return

    async def _fail(self, process: Process, kind: str, message: str, probe: Probe) -> None:
        if self._stopping.is_set():
            return  # It is being brought to its end already, in its pod's time.
        self._pod.event("Warning", "Unhealthy", f"container {self.name}: {kind}: {message}")
        self._pod.event("Normal", "Killing", f"container {self.name} failed its {kind} probe and is stopped")
        grace = probe.termination_grace_period_seconds
        await self._end_by_itself(process, self._pod.grace_s if grace is None else grace)

    async def _end_by_itself(self, process: Process, grace_s: float) -> None:
        deadline = Deadline(self._pod.env.clock)
        deadline.shorten(grace_s)
        await self._terminate(process, deadline)

    async def _terminate(self, process: Process, deadline: Deadline) -> None:
        """End a process: preStop and SIGTERM while there is time and nobody did it before, then SIGKILL."""
        if deadline.remaining_s > 0:
            if self._terminating is not process:
                self._terminating = process
                await self._pre_stop(deadline)
                process.signal(signal.SIGTERM)
            hooked = self.record.container.lifecycle.pre_stop is not None
            with deadline.scope(at_least_s=_TERM_AT_LEAST_S if hooked else 0):
                await process.wait()
                return
        process.signal(signal.SIGKILL)
        await process.wait()

    async def _pre_stop(self, deadline: Deadline) -> None:
        hook = self.record.container.lifecycle.pre_stop
        if hook is None or self.live is None or not self._hooks:
            return
        failure: str | None = "the grace period ended first"
        with deadline.scope():
            failure = await self.live.target.perform(hook, min(deadline.remaining_s, _HOOK_TIMEOUT_S))
        if failure:
            self._pod.event("Warning", "FailedPreStopHook", f"container {self.name}: {failure}")

    def _set(self, record: ContainerRecord) -> None:
        if record != self.record:
            self.record = record
            self._pod.changed()


@asynccontextmanager
async def _console(attempt: Attempt) -> AsyncIterator[Console | None]:
    """Open what the container's spec asks for; closed when the process has ended. StartError when none is left."""
    container = attempt.container
    if not (container.stdin or container.tty):
        yield None
        return
    try:
        console = Console(attempt.process.log, stdin=container.stdin, tty=container.tty)
    except OSError as error:
        raise StartError(f"no terminal or pipe can be made: {error.strerror}") from error
    try:
        yield console
    finally:
        await console.aclose()


def _with_console(process: ProcessSpec, console: Console | None) -> ProcessSpec:
    return process if console is None else replace(process, stdio=console.stdio)
