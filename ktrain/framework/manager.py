"""
Starts everything in order, keeps it running, stops it in the reverse order.

    1  services      health and metrics first (probes must answer while caches fill), then webhooks
    2  cache         and its first content
    3  recorder      events
    4  election      if there is one: wait to lead
    5  controllers

The stop lets passes under way end (up to the grace period) while their cache still lives, gives the lease up only when
no controller runs any more, so that a successor may start at once, then flushes events and closes the rest. So the last
events are sent by one who leads no more: the recorder's client must have no guard, and needs none, as what an event
tells has happened. All of it runs shielded from the cancellation that asked for it; signals are the command line's
business.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Protocol

import anyio
import structlog

from .errors import ShutdownTimeout
from .parallel import unwrap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from anyio.abc import TaskStatus

    from .cache.cache import Cache
    from .controller import Controller
    from .election import LeaderElection
    from .events import EventRecorder

log = structlog.get_logger("ktrain.framework.manager")


class Service(Protocol):
    """Something that runs until it is cancelled and says when it is ready."""

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run; call `task_status.started()` when ready."""


class Manager:
    """
    Runs controllers and what they need.

    Args:
        cache: Of all the controllers.
        controllers: In no particular order.
        services: Started first, in this order: health, metrics, webhooks.
        recorder: Flushed at the end, after the lease is given up; its client has no guard.
        leader_election: Controllers run only while it leads; without one they run at once.
        sync_timeout_s: How long the cache may take for its first content.
        grace_s: How long passes under way may take to end.
    """

    def __init__(
        self,
        *,
        cache: Cache,
        controllers: Sequence[Controller],
        services: Sequence[Service] = (),
        recorder: EventRecorder | None = None,
        leader_election: LeaderElection | None = None,
        sync_timeout_s: float = 120.0,
        grace_s: float = 30.0,
    ) -> None:
        self._cache = cache
        self._controllers = controllers
        self._services = services
        self._recorder = recorder
        self._election = leader_election
        self._sync_timeout_s = sync_timeout_s
        self._grace_s = grace_s
        self._working: set[str] = set()
        self._stopping = False
        self._waiting: anyio.CancelScope | None = None

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """
        Run until cancelled, then stop in order. Can be run once.

        `started` is reported when the controllers work, or, with an election, when everything is ready to lead.

        Raises:
            The first error of any part, as it was raised, not in a group: CacheSyncTimeout, LeadershipLost, a port
            that is taken; ShutdownTimeout if passes had to be cancelled at the end.
        """
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._sentinel, name="manager sentinel")
                # A cancelled scope cancels everything inside at once; the order of the stop needs a shield, and a
                # task outside of it that notices.
                with anyio.CancelScope(shield=True):
                    await self._live(task_status)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise unwrap(group) from None

    async def _sentinel(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self._stopping = True
            if self._waiting is not None:
                self._waiting.cancel()

    async def _live(self, task_status: TaskStatus[None]) -> None:
        async with AsyncExitStack() as stack:
            for service in (*self._services, self._cache):
                await stack.enter_async_context(self._running(service))
            if self._recorder is not None:
                await stack.enter_async_context(self._running(self._recorder))
            with self._interruptible():
                await self._cache.wait_for_sync(self._sync_timeout_s)
            if self._election is None:
                await self._lead(task_status.started)
                return
            if not self._stopping:
                task_status.started()
            with self._interruptible():
                await self._election.acquire()
            if self._election.is_leader:
                async with self._election.leading():
                    await self._lead()
        log.info("manager.stopped")

    async def _lead(self, started: Callable[[], None] | None = None) -> None:
        """Run the controllers until the manager stops, and let the passes under way end."""
        with anyio.CancelScope() as grace:
            async with anyio.create_task_group() as tasks:
                with self._interruptible():
                    for controller in self._controllers:
                        await tasks.start(self._run_controller, controller, name=f"controller {controller.name}")
                    if started is not None:
                        started()
                    log.info("manager.started", controllers=[controller.name for controller in self._controllers])
                    await anyio.sleep_forever()
                for controller in self._controllers:
                    controller.shut_down()
                grace.deadline = anyio.current_time() + self._grace_s
        if grace.cancelled_caught:
            names = ", ".join(sorted(self._working))
            raise ShutdownTimeout(f"reconciles of {names} were cancelled {self._grace_s:g} s after the stop")

    async def _run_controller(self, controller: Controller, *, task_status: TaskStatus[None]) -> None:
        self._working.add(controller.name)
        await controller.run(task_status=task_status)
        self._working.remove(controller.name)

    @asynccontextmanager
    async def _running(self, service: Service) -> AsyncIterator[None]:
        """Run a service around the block; it starts before it and is cancelled after it."""
        async with anyio.create_task_group() as tasks:
            with self._interruptible():
                await tasks.start(service.run, name=type(service).__name__)
            yield
            tasks.cancel_scope.cancel()

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """A block that the wish to stop cuts short; afterwards `_stopping` tells whether it did."""
        with anyio.CancelScope() as scope:
            self._waiting = scope
            if self._stopping:
                scope.cancel()
            try:
                yield
            finally:
                self._waiting = None
