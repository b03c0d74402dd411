"""
Starts everything in order, keeps it running, stops it in the reverse order.

    1  services      health and metrics first (probes must answer while caches fill), then webhooks (a list of a kind
                     that is converted needs its webhook), one after another
    2  caches        of all clusters, and their first content
    3  recorder      events
    4  followers     controllers and runnables with `needs_leader = False`: they run in every replica
    5  election      if there is one: wait to lead
    6  leaders       all other controllers and runnables; then `elected` is set

The first error of any part stops everything, in the same order as a cancellation does, and is raised at the end.

The stop asks the leaders and followers to end at once and together, and lets passes under way end (up to the grace
period) while their cache still lives. The lease is given up when the leaders have ended, whatever followers still do,
so that a successor may start at once; then events are flushed and the rest is closed. So the last events are sent by
one who leads no more: the recorder's client must have no guard, and needs none, as what an event tells has happened.
All of it runs in a task of its own, shielded from the cancellation that asked for it; signals are for whoever owns the
process (`operator`).

A lease that is lost ends the leaders without any grace: another works already.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING

import anyio
import structlog

from ktrain.framework.errors import ShutdownTimeout
from ktrain.framework.parallel import unwrap

from .groups import Group, Runnable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anyio import CancelScope
    from anyio.abc import TaskStatus
    from structlog.typing import FilteringBoundLogger

    from ktrain.framework.cache.cache import Cache
    from ktrain.framework.controller.controller import Controller
    from ktrain.framework.election.election import LeaderElection
    from ktrain.framework.events import EventRecorder

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.manager")


class Manager:
    """
    Runs controllers and what they need.

    Args:
        cache: Of the controllers.
        caches: Of further clusters.
        controllers: In no particular order; all start at the same time.
        services: Started first and one after another, in this order: health, metrics, webhooks.
        runnables: Whatever else shall run; see `Runnable` for when.
        recorder: Flushed at the end, after the lease is given up; its client has no guard.
        leader_election: Controllers run only while it leads; without one they run at once.
        sync_timeout_s: How long the caches may take for their first content.
        grace_s: How long passes under way may take to end. 0 cancels them at once, which is then no error; with a
            negative number they have all the time they want.
    """

    def __init__(
        self,
        *,
        cache: Cache,
        caches: Sequence[Cache] = (),
        controllers: Sequence[Controller] = (),
        services: Sequence[Runnable] = (),
        runnables: Sequence[Runnable] = (),
        recorder: EventRecorder | None = None,
        leader_election: LeaderElection | None = None,
        sync_timeout_s: float = 120.0,
        grace_s: float = 30.0,
    ) -> None:
        self.elected: asyncio.Event = asyncio.Event()
        """Set once the leaders have been started: as leader, or without an election at the end of the start."""
        self._services = services
        self._caches = (cache, *caches)
        self._recorder = recorder
        self._election = leader_election
        self._sync_timeout_s = sync_timeout_s
        self._grace_s = grace_s
        self._followers = Group(self._failed)
        self._leaders = Group(self._failed)
        self._ready = asyncio.Event()
        self._stopping = False
        self._waiting: CancelScope | None = None
        self._error: Exception | None = None
        for runnable in (*controllers, *runnables):
            self.add(runnable)

    def add(self, runnable: Runnable) -> None:
        """
        Add a controller or a runnable. While the manager runs, it starts as soon as its turn has come: at once, or
        when this process leads.

        Raises:
            RuntimeError: The manager stops.
        """
        if self._stopping:
            raise RuntimeError("the manager stops: nothing can be added any more")
        group = self._leaders if getattr(runnable, "needs_leader", True) else self._followers
        group.add(runnable)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """
        Run until `stop`, or until cancelled; either way stop in order. Can be run once.

        `started` is reported when the controllers work, or, with an election, when everything is ready to lead.

        Raises:
            Exception: The first error of any part, as the part raised it, not in a group: CacheSyncTimeout,
                LeadershipLost, a port that is in use.
            ShutdownTimeout: If reconciles had to be cancelled at the end.
            ExceptionGroup: If both happened. Errors of parts while everything stops are only logged.
        """
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._live, tasks.cancel_scope, name="manager")
                try:
                    await self._ready.wait()
                    task_status.started()
                    await anyio.sleep_forever()
                finally:
                    self.stop()
        except BaseExceptionGroup as group:
            raise unwrap(group) from None

    def stop(self) -> None:
        """Ask for the end: `run` returns when everything has stopped in order. Idempotent."""
        if self._stopping:
            return
        self._stopping = True
        if self._waiting is not None:
            self._waiting.cancel()
        deadline = math.inf if self._grace_s < 0 else anyio.current_time() + self._grace_s
        for group in (self._leaders, self._followers):
            group.shut_down(deadline)

    async def _live(self, running: CancelScope) -> None:
        # Not cancelled with the task that runs the manager: the order of the stop is ours.
        with anyio.CancelScope(shield=True):
            late: Exception | None = None
            try:
                await self._start_and_stop()
            except Exception as error:  # noqa: BLE001 - joined with the first error below
                found = unwrap(error)
                late = found if isinstance(found, Exception) else error
            self._raise(late)
            log.info("manager.stopped")
        running.cancel()

    def _raise(self, late: Exception | None) -> None:
        """Raise the first error, together with the news that something did not stop in time."""
        errors = [error for error in (self._error, late) if error is not None][:1]
        if late is not None and late not in errors:
            log.error("manager.failed_while_stopping", error=str(late) or repr(late))
        overdue = ", ".join(sorted(self._leaders.overdue + self._followers.overdue))
        if overdue and self._grace_s > 0:
            errors.append(ShutdownTimeout(f"reconciles of {overdue} were cancelled {self._grace_s:g} s after the stop"))
        if len(errors) > 1:
            raise ExceptionGroup("the manager failed, and did not stop in time", errors)
        if errors:
            raise errors[0]

    async def _start_and_stop(self) -> None:
        """Each step does nothing once the stop has been asked for; leaving the stack is the stop."""
        async with AsyncExitStack() as stack:
            for service in self._services:
                await self._start(stack, Group(self._failed, [service]))
            await self._start(stack, Group(self._failed, self._caches))
            if self._recorder is not None:
                await self._start(stack, Group(self._failed, [self._recorder]))
            with self._interruptible():
                await self._wait_for_sync()
            await self._start(stack, self._followers)
            if self._election is not None:
                if not self._stopping:
                    self._ready.set()
                with self._interruptible():
                    await self._election.acquire()
                    while not self._election.is_leader:
                        # Stopped in the moment of winning, and for so long that it counts no more.
                        await self._election.acquire()
                if not self._election.is_leader:
                    return
                await stack.enter_async_context(self._election.leading())
            await self._start(stack, self._leaders)
            with self._interruptible():
                self.elected.set()
                self._ready.set()
                log.info("manager.started", controllers=[*self._followers.names, *self._leaders.names])
                await anyio.sleep_forever()

    async def _start(self, stack: AsyncExitStack, group: Group) -> None:
        """Run a group until the stack is left; return when it has started."""
        if self._stopping:
            return
        await stack.enter_async_context(group.running())
        with self._interruptible():
            await group.started()

    async def _wait_for_sync(self) -> None:
        async with anyio.create_task_group() as tasks:
            for cache in self._caches:
                tasks.start_soon(cache.wait_for_sync, self._sync_timeout_s)

    def _failed(self, runnable: Runnable, error: Exception, was_cancelled: bool) -> None:  # noqa: FBT001 - a callback
        if self._stopping or was_cancelled:
            log.error("manager.failed_while_stopping", part=type(runnable).__name__, error=str(error) or repr(error))
            return
        self._error = error
        self.stop()

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """A block that the wish to stop cuts short, or skips at its first wait."""
        with anyio.CancelScope() as scope:
            self._waiting = scope
            if self._stopping:
                scope.cancel()
            try:
                yield
            finally:
                self._waiting = None
