"""
Keys in, reconciles out.

A controller owns a workqueue and N workers. Informers put keys in (`watches`, `owns`); each worker takes a key, runs
the reconcile function under its deadline, and applies the result:

    returns None or Result()          the key waits for its next event; its failures are forgotten
    returns Result(requeue_after_s)   as above, and runs again after that time
    raises                            runs again after the key's back-off, or after Retry-After if that is longer
    raises TerminalError              waits for its next event; its failures are forgotten, as the next is a new story

A key that wrote something stays with the queue as "processing" until the cache shows the writes, so that the next pass
of the *same* key cannot be blind to them; workers and other keys do not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import structlog
from structlog.contextvars import bound_contextvars

from .errors import ApiError, Conflict, FrameworkError, TerminalError
from .metrics import Metrics
from .metrics.controller import ControllerMetrics
from .metrics.queue import QueueMetrics
from .parallel import unwrap
from .sources import EnqueueHandler, MapFunction, Reason, Source, own_key, owner_key
from .workqueue import QueueClosed, QueueStatistics, WorkQueue
from .writes import Write, recording

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus

    from ktrain.api.meta import Key, Resource

    from .cache.cache import Cache
    from .cache.informer import Informer
    from .env import Env

T = TypeVar("T")

log = structlog.get_logger("ktrain.framework.controller")

OWN_WRITE_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Result:
    """What a reconcile asks for: None waits for the next event."""

    requeue_after_s: float | None = None


Reconcile = Callable[["Key"], Awaitable[Result | None]]


class Controller:
    """
    Reconciles the keys of one kind, one pass per key at a time.

    Args:
        name: In logs and metrics; unique in the process.
        reconcile: Brings one object to its desired state. Must be idempotent; reads from informers.
        env: Time and randomness.
        cache: Whose informers it reads; own writes are awaited there.
        max_concurrent_reconciles: Number of workers.
        reconcile_timeout_s: Deadline of one pass; past it the pass is cancelled and counts as an error.
        sync_timeout_s: How long `run` waits for the informers' first content.
        metrics: Where to count; the manager's are used if none are given.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        env: Env,
        cache: Cache,
        max_concurrent_reconciles: int = 1,
        reconcile_timeout_s: float | None = 120.0,
        sync_timeout_s: float = 120.0,
        metrics: Metrics | None = None,
    ) -> None:
        self.name = name
        self._reconcile = reconcile
        self._env = env
        self._cache = cache
        self._workers = max_concurrent_reconciles
        self._timeout_s = reconcile_timeout_s
        self._sync_timeout_s = sync_timeout_s
        self._sources: list[Source[Any]] = []  # informers of different kinds
        self._reasons: dict[Key, Reason | str] = {}
        metrics = metrics or Metrics()
        self._metrics = ControllerMetrics.of(metrics, name)
        self._queue: WorkQueue[Key] = WorkQueue(env, metrics=QueueMetrics.of(metrics, name))
        self._busy = 0

    # What to watch

    def watches(self, informer: Informer[T], mapping: MapFunction[T] | None = None) -> None:
        """Enqueue the keys that `mapping` gives for each event's object; without one, the object's own key."""
        handler = EnqueueHandler(informer.resource.kind, mapping or own_key, self._enqueue)
        self._sources.append(Source(informer, handler))
        informer.add_handler(handler)

    def owns(self, informer: Informer[T], *, owner: Resource[Any]) -> None:
        """Enqueue the owner's key for each event of an object whose controller reference names that group and kind."""
        self.watches(informer, owner_key(owner))

    def enqueue(self, key: Key, *, after_s: float = 0.0) -> None:
        """Ask for a pass over a key, from outside of any informer."""
        if after_s > 0:
            self._queue.add_after(key, after_s)
        else:
            self._enqueue(key, "requested")

    # Life

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """
        Wait for every watched informer's content, then work until `shut_down`, or until cancelled.

        Cancellation reaches passes that are under way. Can be run once.

        Raises:
            CacheSyncTimeout: An informer got no content in time.
        """
        informers = [source.informer for source in self._sources]
        await self._cache.wait_for_sync(self._sync_timeout_s, informers=informers)
        self._metrics.max_workers(self._workers)
        async with anyio.create_task_group() as holders:
            async with anyio.create_task_group() as workers:
                for number in range(self._workers):
                    workers.start_soon(self._work, holders, name=f"{self.name} worker {number}")
                log.info("controller.started", controller=self.name, workers=self._workers)
                task_status.started()
            holders.cancel_scope.cancel()

    def shut_down(self) -> None:
        """Take no more keys; `run` returns when the passes under way have ended. What is queued is dropped."""
        self._queue.shut_down()

    def statistics(self) -> QueueStatistics:
        """A look at the queue."""
        return self._queue.statistics()

    def _enqueue(self, key: Key, reason: Reason | str) -> None:
        self._reasons[key] = reason
        self._queue.add(key)

    async def _work(self, holders: TaskGroup) -> None:
        while True:
            try:
                key = await self._queue.get()
            except QueueClosed:
                return
            with recording() as writes:
                try:
                    await self._pass(key)
                except BaseException:
                    self._queue.done(key)
                    raise
            if writes and not self._cache.shows(writes):
                holders.start_soon(self._hold, key, writes, name=f"{self.name} holds {key}")
            else:
                self._queue.done(key)

    async def _pass(self, key: Key) -> None:
        """Run one reconcile and apply its result. Raises nothing but cancellation."""
        reason = self._reasons.pop(key, "retry or requeue")
        started = self._env.clock.monotonic()
        self._busy += 1
        self._metrics.active_workers(self._busy)
        reconcile_id = f"{self._env.random.getrandbits(64):016x}"
        with bound_contextvars(controller=self.name, object=str(key), reconcile_id=reconcile_id):
            log.debug("reconcile.started", reason=str(reason))
            try:
                async with asyncio.timeout(self._timeout_s) as deadline:
                    result = await self._reconcile(key)
            except Exception as error:  # noqa: BLE001 - the worker's boundary: one key's failure is its own
                if deadline.expired():
                    self._metrics.timeout()
                self._on_error(key, unwrap(error))
            else:
                self._on_result(key, result or Result())
            finally:
                self._busy -= 1
                self._metrics.active_workers(self._busy)
                self._metrics.duration(self._env.clock.monotonic() - started)

    def _on_result(self, key: Key, result: Result) -> None:
        self._queue.forget(key)
        if result.requeue_after_s is None:
            self._metrics.result("success")
        else:
            self._metrics.result("requeue_after")
            self._queue.add_after(key, result.requeue_after_s)

    def _on_error(self, key: Key, error: BaseException) -> None:
        self._metrics.result("error")
        if isinstance(error, TerminalError):
            self._metrics.terminal_error()
            self._queue.forget(key)
            log.error("reconcile.failed_for_good", error=str(error))
            return
        asked_s = error.status.details.retry_after_seconds if isinstance(error, ApiError) else 0
        retry_in_s = self._queue.retry(key, at_least_s=asked_s)
        details = {"failures": self._queue.failures(key), "retry_in_s": round(retry_in_s, 3)}
        if isinstance(error, Conflict):
            log.info("reconcile.conflict", error=str(error), **details)
        elif isinstance(error, FrameworkError | TimeoutError):
            log.warning("reconcile.failed", error=str(error), **details)
        else:
            self._metrics.panic()
            log.error("reconcile.crashed", error=repr(error), exc_info=error, **details)

    async def _hold(self, key: Key, writes: list[Write]) -> None:
        """Keep a key from its next pass until the cache shows its writes, or the time is up."""
        started = self._env.clock.monotonic()
        try:
            seen = await self._cache.wait_for_writes(writes, timeout_s=OWN_WRITE_TIMEOUT_S)
        finally:
            self._queue.done(key)
        self._metrics.own_write_wait(self._env.clock.monotonic() - started)
        if not seen:
            self._metrics.own_write_timeout()
            log.warning("cache.own_write_not_seen", controller=self.name, object=str(key), waited_s=OWN_WRITE_TIMEOUT_S)
