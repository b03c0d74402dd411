"""
Keys in, reconciles out.

A controller owns a workqueue and N workers. Sources put keys in (`for_`, `owns`, `watches`, `listens`); each worker
takes a key, runs the reconcile function under its deadline, and applies the result:

    returns None or Result()          the key waits for its next event; its failures are forgotten
    returns Result(requeue_after_s)   as above, and runs again after that time
    raises                            runs again after the key's back-off, or after Retry-After if that is longer
    raises Blocked                    as above, but is no error: something that users have to change
    raises TerminalError              waits for its next event; its failures are forgotten, as the next is a new story

Sources fill the queue as soon as the cache runs; workers start with `run`, so that a standby is warm when it comes to
lead. A key that wrote something stays with the queue as "processing" until the cache shows the writes, so that the next
pass of the *same* key cannot be blind to them; workers and other keys do not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import anyio
import structlog

from ktrain.framework.client.fairness import FLOW
from ktrain.framework.metrics import Metrics
from ktrain.framework.metrics.controller import ControllerMetrics
from ktrain.framework.metrics.queue import QueueMetrics
from ktrain.framework.parallel import unwrap
from ktrain.framework.telemetry.tracing import Tracing
from ktrain.framework.workqueue.queue import QueueClosed, QueuedKey, QueueStatistics, WorkQueue
from ktrain.framework.writes import recording

from .context import Pass, current_pass
from .holds import Holds
from .results import REQUEUED, Result, Results
from .sources import BatchTime, EnqueueHandler, MapFunction, Reason, Sink, own_key, owner_key
from .starting import WhileMissing, once, wait_for_content
from .stuck import Passes, task_stack

if TYPE_CHECKING:
    from anyio.abc import TaskStatus
    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Key, Resource
    from ktrain.framework.cache.cache import Cache
    from ktrain.framework.cache.informer import Informer
    from ktrain.framework.env import Env
    from ktrain.framework.telemetry.tracing import Cause
    from ktrain.framework.workqueue.limiters import Limiter

    from .predicates import Predicate
    from .sources import Channel

T = TypeVar("T")

__all__ = ["Controller", "Reconcile", "Result"]

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.controller")

AGEING_S: Final = 0.1
"""With this a key of the initial list (-100) waits for new events (0) ten seconds at the most."""
STUCK_AFTER_S: Final = 300.0
EXEMPLAR_EVERY_S: Final = 1.0
"""Passes that are not traced tell their reason so often: Prometheus keeps one exemplar of each bucket and scrape."""
TURN_S: Final = 0.001
TURN_PASSES: Final = 32
"""Workers whose passes never wait let others run after so much time each, or so many passes of all of them."""

Reconcile = Callable[["Key"], Awaitable[Result | None]]


class Controller:
    """
    Reconciles the keys of one kind, one pass per key at a time.

    Args:
        name: In logs and metrics; unique in the process.
        reconcile: Brings one object to its desired state. Must be idempotent; reads from informers.
        env: Time and randomness.
        cache: Whose informers it reads. Own writes are awaited there, and in the caches of all informers it watches.
        max_concurrent_reconciles: Number of workers.
        reconcile_timeout_s: Deadline of one pass; past it the pass is cancelled and counts as an error.
        sync_timeout_s: How long `run` waits for the informers' first content.
        metrics: Where to count; the manager's are used if none are given.
        tracing: One span per pass.
        limiter: How long failed keys wait; `limiters.Exponential` by default.
        ageing_s: Seconds of waiting that weigh as much as one point of priority, see `turns`; None for strict ones.
        stuck_after_s: A pass that runs for longer is logged once, with its stack; None for never.
        needs_leader: Whether the manager runs it only while it leads.
        while_missing: Runs, with the informers of the kinds that the API server does not have, until it has them all:
            no pass begins before, so whoever waits for one may want to be told.

    Raises:
        ValueError: No workers, or no time for a pass: nothing would ever be reconciled.
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
        tracing: Tracing | None = None,
        limiter: Limiter[Key] | None = None,
        ageing_s: float | None = AGEING_S,
        stuck_after_s: float | None = STUCK_AFTER_S,
        needs_leader: bool = True,
        while_missing: WhileMissing | None = None,
    ) -> None:
        if max_concurrent_reconciles < 1:
            raise ValueError(
                f"controller {name}: max_concurrent_reconciles is {max_concurrent_reconciles}, not 1 or more"
            )
        if reconcile_timeout_s is not None and not reconcile_timeout_s > 0:
            raise ValueError(
                f"controller {name}: reconcile_timeout_s is {reconcile_timeout_s:g}, not more than 0 or None"
            )
        self.name = name
        self.needs_leader = needs_leader
        self._reconcile = reconcile
        self._env = env
        self._cache = cache
        self._workers = max_concurrent_reconciles
        self._timeout_s = reconcile_timeout_s
        self._sync_timeout_s = sync_timeout_s
        self._tracing = tracing or Tracing()
        self._while_missing = while_missing
        metrics = metrics or Metrics()
        self._metrics = ControllerMetrics.of(metrics, name)
        self._queue: WorkQueue[Key] = WorkQueue(
            env,
            metrics=QueueMetrics.of(metrics, name),
            limiter=limiter,
            group=attrgetter("namespace"),
            ageing_s=ageing_s,
        )
        self._sink = Sink(name, self._on_event, self._metrics.lost_event)
        self._informers: list[Informer[Any]] = []  # of different kinds
        self._due: dict[Key, tuple[Reason | str, Cause | None]] = {}
        self._passes = Passes(timeout_s=reconcile_timeout_s, stuck_after_s=stuck_after_s, on_stuck=self._on_stuck)
        self._caches = [cache]
        self._holds = Holds(name, env=env, caches=self._caches, metrics=self._metrics, release=self._queue.done)
        self._results = Results(self._queue, self._metrics)
        self._exemplar_due_s = float("-inf")
        self._started = False
        self._syncing: anyio.CancelScope | None = None
        self._metrics.max_workers(self._workers)
        self._metrics.read(self._passes.__len__, self._holds.__len__)

    # What to watch

    def for_(self, informer: Informer[T], *, predicate: Predicate[T] | None = None, batch_s: BatchTime = 0.0) -> None:
        """Enqueue each object of the kind that this controller is for."""
        self.watches(informer, predicate=predicate, batch_s=batch_s)

    def owns(
        self,
        informer: Informer[T],
        *,
        owner: Resource[Any],
        predicate: Predicate[T] | None = None,
        every_owner: bool = False,
        batch_s: BatchTime = 0.0,
    ) -> None:
        """
        Enqueue the owner's key for each event of an object that it owns.

        That is: whose controller reference (with `every_owner`: any owner reference) names that group and kind.
        """
        self.watches(informer, owner_key(owner, every_owner=every_owner), predicate=predicate, batch_s=batch_s)

    def watches(
        self,
        informer: Informer[T],
        mapping: MapFunction[T] | None = None,
        *,
        predicate: Predicate[T] | None = None,
        batch_s: BatchTime = 0.0,
    ) -> None:
        """
        Enqueue the keys that `mapping` gives for each event's object; without one, the object's own key.

        An event waits `batch_s` (seconds, or a function from its key to them) for others of its key, to be worked on in
        one pass: that latency saves passes and writes where changes come in bursts.

        It may be added at any time, but `run` waits only for the informers that it knows when it starts.
        """
        handler = EnqueueHandler(informer.resource.kind, mapping or own_key, predicate, self._sink, batch_s)
        self._informers.append(informer)
        if informer.cache is not None and informer.cache not in self._caches:
            self._caches.append(informer.cache)
        informer.add_handler(handler)

    def listens(self, channel: Channel[T], mapping: MapFunction[T]) -> None:
        """Enqueue the keys that `mapping` gives for each event of a channel."""
        channel.listen(mapping, self._sink)

    def enqueue(self, key: Key, *, after_s: float = 0.0, priority: int = 0, reason: str = "requested") -> None:
        """
        Ask for a pass over a key. `reason` is what `current_reason` will say, unless an event comes first.

        Raises:
            ValueError: The delay is not a number.
        """
        if after_s == 0:
            self._enqueue(key, reason, priority=priority)
            return
        self._queue.add_after(key, after_s, priority=priority)
        if not self._queue.closed:
            self._due.setdefault(key, (reason, self._tracing.context()))

    # Life

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """
        Wait for every watched informer's content, then work until `shut_down`, or until cancelled.

        A kind that the API server does not have (yet) is waited for without limit, after `started` was reported.
        Cancellation reaches passes that are under way. Can be run once.

        Raises:
            CacheSyncTimeout: An informer got no content in time.
            RuntimeError: It ran before.
        """
        if self._started:
            raise RuntimeError(f"controller {self.name} ran before, and its queue is closed: make another one")
        self._started = True
        started = once(task_status.started)
        try:
            with anyio.CancelScope() as self._syncing:
                if not self._queue.closed:
                    await wait_for_content(
                        self.name, self._cache, self._informers, self._sync_timeout_s, started, self._while_missing
                    )
            if not self._queue.closed:
                await self._run_workers(started)
            started()
        finally:
            self._queue.shut_down()
            self._passes.close()

    def shut_down(self) -> None:
        """Take no more keys; `run` returns when the passes under way have ended. What is queued is dropped."""
        self._queue.shut_down()
        if self._syncing is not None:
            self._syncing.cancel()

    # Looking

    def statistics(self) -> QueueStatistics:
        """A look at the queue."""
        return self._queue.statistics()

    def dump(self, limit: int = 100) -> list[QueuedKey[Key]]:
        """At most `limit` keys of the queue, one by one."""
        return self._queue.dump(limit)

    def check_stuck(self) -> str | None:
        """Say which passes run for too long; None if none does. A check for `HealthServer`."""
        now = self._env.clock.monotonic()
        stuck = [f"{one.key} for {now - one.started_s:.0f} s" for one in self._passes.stuck()]
        return f"reconcile of {self.name} runs: {', '.join(sorted(stuck))}" if stuck else None

    # Working

    async def _run_workers(self, started: Callable[[], None]) -> None:
        try:
            async with anyio.create_task_group() as workers:
                for number in range(self._workers):
                    workers.start_soon(self._work, name=f"{self.name} worker {number}")
                log.info(
                    "controller.started", controller=self.name, workers=self._workers, sources=len(self._informers)
                )
                started()
        finally:
            self._holds.close()

    def _on_event(self, key: Key, reason: Reason | str, /, *, priority: int = 0, after_s: float = 0.0) -> None:
        if after_s > 0 and not self._queue.closed:
            self._queue.add_after(key, after_s, priority=priority, is_retry=False)
            self._due[key] = (reason, self._tracing.context())
        else:
            self._enqueue(key, reason, priority=priority)

    def _enqueue(self, key: Key, reason: Reason | str, /, *, priority: int = 0) -> None:
        if self._queue.closed:  # informers go on telling: for other controllers
            return
        self._queue.add(key, priority=priority)
        self._due[key] = (reason, self._tracing.context())

    async def _work(self) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        FLOW.set(self.name)
        turn_passes = max(TURN_PASSES // self._workers, 1)
        passes = 0
        while True:
            try:
                key = await self._queue.get()
            except QueueClosed:
                return
            with recording() as writes:
                try:
                    took_s = await self._pass(key, task)
                except BaseException:
                    self._queue.done(key)
                    raise
            if writes:
                await self._holds.hold(key, writes)
            else:
                self._queue.done(key)
            passes += 1
            if took_s > TURN_S or passes % turn_passes == 0:
                await asyncio.sleep(0)

    async def _pass(self, key: Key, task: asyncio.Task[Any]) -> float:
        """Run one reconcile and apply its result. Returns its length; raises nothing but cancellation."""
        reason, cause = self._due.pop(key, (REQUEUED, None))
        started_s = self._env.clock.monotonic()
        number = self._env.random.getrandbits(64)
        this = Pass(self.name, key, str(reason), number=number, started_s=started_s, task=task)
        token = current_pass.set(this)
        exemplar = None
        try:
            with self._tracing.reconcile(
                self.name, key, reason=this.reason, reconcile_id=this.reconcile_id, cause=cause
            ) as span:
                log.debug("reconcile.started")
                try:
                    again = self._results.returned(key, await self._call(this))
                except Exception as raised:  # noqa: BLE001 - the worker's boundary: one key's failure is its own
                    error = unwrap(raised)
                    span.fail(error)
                    again = self._results.raised(key, error)
                if again:
                    self._due.setdefault(key, (again, self._tracing.context()))
                if span.trace_id:
                    span.set("ktrain.priority", self._queue.taken_priority(key))
                    span.set("ktrain.runs_again", again or "with its next event")
                    exemplar = {"trace_id": span.trace_id, "reason": this.reason}
                elif started_s >= self._exemplar_due_s:
                    self._exemplar_due_s = started_s + EXEMPLAR_EVERY_S
                    exemplar = {"reconcile_id": this.reconcile_id, "reason": this.reason}
        finally:
            current_pass.reset(token)
            took_s = self._env.clock.monotonic() - started_s
            self._metrics.duration(took_s, exemplar)
        return took_s

    async def _call(self, this: Pass) -> Result | None:
        """
        Call the reconcile function under its deadline.

        A worker must survive any cancellation that is not its own: a task group would take its end for a wish.
        """
        self._passes.begin(this)
        try:
            return await self._reconcile(this.key)
        except asyncio.CancelledError as cancelled:
            expired = this.cancellations > 0
            if this.task.cancelling() > this.cancellations:
                raise
            if expired:
                raise TimeoutError(f"cancelled after {self._timeout_s:g} s: that is its deadline") from None
            raise RuntimeError(
                "it ended as cancelled, and nobody had cancelled it: a task it awaited was"
            ) from cancelled
        finally:
            self._passes.end(this)
            if this.cancellations:
                self._metrics.timeout()

    def _on_stuck(self, stuck: Pass) -> None:
        self._metrics.stuck()
        log.error(
            "reconcile.stuck",
            controller=stuck.controller,
            object=str(stuck.key),
            reconcile_id=stuck.reconcile_id,
            reason=stuck.reason,
            running_s=round(self._env.clock.monotonic() - stuck.started_s, 1),
            stack=task_stack(stuck.task),
        )
