"""
One run from start to end: submit, follow, end; and what a signal or the time-out does to it.

The exit code is the run's result: 0 Complete, 1 Failed, 2 refused, 124 timeout, 130 interrupted. The first Ctrl-C (or
SIGTERM) deletes the job gracefully, the second kills: leaving the session's context ends every process of it.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import click
import msgspec

from ktrain.api.trainer import CONDITION_FAILED, TRAIN_JOBS, TrainJob
from ktrain.framework import Cache
from ktrain.framework.env import Env, system_env
from ktrain.framework.errors import ConfigError, Conflict, FrameworkError, NotFound
from ktrain.framework.manager.signals import Signals
from ktrain.framework.parallel import first_cause
from ktrain.framework.telemetry.logging import configure
from ktrain.local.plane import PlaneError

from .display import Display, OutputClosed, close_quietly, make_display
from .explain import explain_error, explain_failure, full_disk, nothing_ran
from .follow import Follower
from .logs import LogFollower
from .options import Options, Outcome
from .session import Session, cluster_session, local_session
from .submit import Refused, Submission, read, submit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from anyio.abc import TaskGroup

    from ktrain.api.meta import Json

LOG_LEVEL = "error"
"""The controllers' warnings (a watch restarted, a conflict retried) mean something to operators, nothing to users."""
TICK_S = 0.25
DRAIN_S = 5.0
DELETE_S = 60.0
"""The longest that a graceful deletion is waited for; pods have 30 s of grace unless they say otherwise."""


def run(objects: Sequence[Json], options: Options) -> int:
    """Run to the end; returns the exit code."""
    try:
        submission = read(objects, options.namespace)
    except Refused as error:
        click.echo(f"ktrain: {error}", err=True)
        return Outcome.REFUSED.value
    configure(level=LOG_LEVEL)
    return anyio.run(_run, submission, options)


async def _run(submission: Submission, options: Options) -> int:
    env = system_env()
    started = env.clock.monotonic()
    stream = sys.stderr if options.output else sys.stdout
    display = make_display(submission.key.name, lambda: env.clock.monotonic() - started, stream=stream)
    signals = Signals(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    outcome = Outcome.INTERRUPTED
    async with anyio.create_task_group() as group:
        await group.start(signals.listen)
        try:
            async with _session(env, options) as session:
                run = Run(env, session, submission, options, display, signals)
                outcome = await _killable(run, session, signals, display)
        except Exception as error:  # noqa: BLE001 -- raised on unless it is known
            outcome = _failed(error, display)
        group.cancel_scope.cancel()
    return outcome.value


async def _killable(run: Run, session: Session, signals: Signals, display: Display) -> Outcome:
    """Run to the end, or until the second signal."""
    outcome = Outcome.INTERRUPTED
    with anyio.CancelScope() as scope:
        signals.on_kill(scope.cancel)
        outcome = await run.run()
    if scope.cancelled_caught and session.kill is not None:
        await session.kill()
        display.note("killed")
    return outcome


def _failed(error: BaseException, display: Display) -> Outcome:
    """Say why the run could not take place. Errors that nobody expects are raised on."""
    error = first_cause(error)
    if isinstance(error, OutputClosed):
        close_quietly()
        return Outcome.OUTPUT_CLOSED
    if isinstance(error, Refused | PlaneError | ConfigError):
        display.note(f"refused: {error}")
        return Outcome.REFUSED
    if isinstance(error, FrameworkError | OSError):
        for line in explain_error(error):
            display.note(line)
        return Outcome.FAILED
    raise error


def _session(env: Env, options: Options) -> AbstractAsyncContextManager[Session]:
    if options.on_cluster:
        return cluster_session(env, kubeconfig=options.kubeconfig, context=options.context)
    return local_session(env, pods=options.pods, serve=options.keep, nodes=options.nodes, gates=options.gates)


class Run:
    """One run in a session."""

    def __init__(
        self,
        env: Env,
        session: Session,
        submission: Submission,
        options: Options,
        display: Display,
        signals: Signals,
    ) -> None:
        self._env = env
        self._session = session
        self._client = session.client
        self._submission = submission
        self._options = options
        self._display = display
        self._interrupted = signals.interrupted
        self._final = b""

    async def run(self) -> Outcome:
        """Submit and follow to the end. Raises Refused when the input is refused."""
        job = await submit(self._client, self._submission, is_local=self._session.is_local)
        cache = Cache(self._client, self._env)
        follower = Follower(cache, job)
        async with anyio.create_task_group() as group:
            group.start_soon(cache.run)
            with self._display:
                group.start_soon(self._tick)
                outcome, logs = await self._follow(group, follower)
            final = follower.job or job
            self._report(outcome, follower, final, logs)
            if self._options.output:
                self._print()
            if self._options.keep and outcome is not Outcome.INTERRUPTED:
                await self._wait_for_interrupt()
            group.cancel_scope.cancel()
        return outcome

    async def _follow(self, group: TaskGroup, follower: Follower) -> tuple[Outcome, LogFollower]:
        for note in self._session.notes:
            self._display.note(note)
        logs = LogFollower(self._client.transport, group, self._display.log)
        changed = _Changes(follower)
        group.start_soon(self._wake_on_interrupt, changed)
        outcome: Outcome | None = None
        with anyio.move_on_after(self._options.timeout_s):
            outcome = await self._wait_for_end(follower, logs, changed)
        if outcome is None:
            outcome = Outcome.TIMEOUT
            self._display.note(f"timeout: the job did not end within {self._options.timeout_s:g} s")
            if reason := follower.progress().waiting:
                self._display.note(f"what it waited for: {reason}")
        if self._options.output:
            self._final = await self._read(follower)
        word = ""
        if outcome is Outcome.INTERRUPTED or (outcome is Outcome.TIMEOUT and not self._options.keep):
            word = await self._stop(follower, logs, changed)
        elif outcome is not Outcome.TIMEOUT:
            await follower.catch_up(self._client)
            logs.update(follower.all_pods)
            await logs.drain(DRAIN_S)
        if word:
            await logs.drain(DRAIN_S)
            self._display.note(word)
        if follower.job is not None:
            self._display.status(follower.progress())
        return outcome, logs

    async def _wait_for_end(self, follower: Follower, logs: LogFollower, changed: _Changes) -> Outcome:
        """Watch until the job has ended or Ctrl-C came."""
        while True:
            if follower.is_gone:
                self._display.note(f"TrainJob {follower.key} was deleted by somebody else")
                return Outcome.FAILED
            job = follower.job
            if job is not None and job.is_finished:
                logs.update(follower.all_pods)  # the end is shown when their last lines have been
                failed = any(c.type == CONDITION_FAILED and c.is_true for c in job.status.conditions)
                return Outcome.FAILED if failed else Outcome.COMPLETE
            if self._interrupted.is_set():
                return Outcome.INTERRUPTED
            self._look(follower, logs)
            await changed.wait()

    async def _tick(self) -> None:
        while True:
            self._display.tick()
            await self._env.clock.sleep(TICK_S)

    async def _wake_on_interrupt(self, changed: _Changes) -> None:
        await self._interrupted.wait()
        changed.notify()

    def _look(self, follower: Follower, logs: LogFollower) -> None:
        self._display.status(follower.progress())
        logs.update(follower.all_pods)

    async def _stop(self, follower: Follower, logs: LogFollower, changed: _Changes) -> str:
        """
        Delete the job and wait until its pods have ended; on a cluster only if the user wants that.

        Returns what came of it, for the user.
        """
        if not self._session.is_local and not await self._wants_deletion():
            return f"TrainJob {follower.key} goes on running; follow it with kubectl"
        self._display.note("stopping: pods get SIGTERM and their grace period; Ctrl-C again kills")
        try:
            await self._client.delete(TRAIN_JOBS, follower.key, uid=follower.uid, propagation="Foreground")
        except (NotFound, Conflict):
            return f"{follower.key} was deleted by somebody else"
        with anyio.move_on_after(DELETE_S) as waiting:
            while not follower.is_gone:
                self._look(follower, logs)
                await changed.wait()
        return "some pods did not stop in time" if waiting.cancelled_caught else f"deleted {follower.key}"

    async def _wants_deletion(self) -> bool:
        if self._options.timeout_s is not None and not self._interrupted.is_set():
            return True
        if not sys.stdin.isatty():
            return False
        self._display.note("Delete the job on the cluster? [y/N]")
        # Not in a thread: one that waits for a line cannot be cancelled by the second Ctrl-C.
        await anyio.wait_readable(sys.stdin)
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def _report(self, outcome: Outcome, follower: Follower, job: TrainJob, logs: LogFollower) -> None:
        lines: list[str] = []
        if outcome is Outcome.COMPLETE:
            lines = nothing_ran(job)
        elif outcome is Outcome.FAILED:
            tails = {key: list(tail) for key, tail in logs.tails.items()}
            lines = explain_failure(job, follower.all_pods, tails)
            if self._session.is_local:
                directory = Path(tempfile.gettempdir())
                lines = [*full_disk(directory, shutil.disk_usage(directory).free), *lines]
        for line in lines:
            self._display.note(line)

    async def _read(self, follower: Follower) -> bytes:
        """Return the whole TrainJob, not only what ktrain reads of it; empty if somebody deleted it."""
        try:
            answer = await self._client.raw("GET", TRAIN_JOBS.path(*follower.key))
        except NotFound:
            return b""
        return answer.body

    def _print(self) -> None:
        if not self._final:
            return
        job = msgspec.json.decode(self._final)
        job["metadata"].pop("managedFields", None)  # as kubectl does: noise to people
        if self._options.output == "json":
            text = msgspec.json.format(msgspec.json.encode(job), indent=2).decode()
        else:
            import yaml

            text = yaml.safe_dump(job, sort_keys=False)
        click.echo(text.rstrip())

    async def _wait_for_interrupt(self) -> None:
        self._display.note(f"kept: kubectl --kubeconfig {self._session.kubeconfig} get pods; Ctrl-C ends it")
        await self._interrupted.wait()


class _Changes:
    """Wakes one waiter when anything about the job changed; many changes make one wake-up."""

    def __init__(self, follower: Follower) -> None:
        self._event = anyio.Event()
        for informer in follower.informers:
            informer.add_handler(self)

    def on_add(self, obj: object, *, initial: bool) -> None:
        self.notify()

    def on_update(self, old: object, new: object) -> None:
        self.notify()

    def on_delete(self, obj: object) -> None:
        self.notify()

    def notify(self) -> None:
        """Wake the waiter, now or at its next wait."""
        self._event.set()

    async def wait(self) -> None:
        """Return when something has changed since the last return."""
        await self._event.wait()
        self._event = anyio.Event()
