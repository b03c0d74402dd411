"""
The queue between events and workers.

Every key is in at most one place: *waiting* for its time (`delays`); *ready*, in the order of `turns`; or *held*, added
while a worker had it. Keys that workers have are *processing* besides. A key added while processing is held and runs
again after `done`, so no change is lost, no key is ever in two workers, and any number of adds cost one run.

Two wishes for one key become one (controller-runtime's priority queue): the earlier time counts and the higher
priority. A raise of a ready key puts it at the end of its new priority; anything else leaves it where it is. A retry
keeps the priority with which the key was taken, unless it is given one.

All methods but `get` and `drain` return at once, in O(log n) or better.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar

from ktrain.framework.metrics.queue import QueueMetrics

from .delays import Delays
from .limiters import JITTER, Exponential
from .turns import Turns

if TYPE_CHECKING:
    from ktrain.framework.env import Env

    from .limiters import Limiter
    from .turns import Group

K = TypeVar("K", bound=Hashable)

MAX_DELAY_S: Final = 180 * 24 * 3600.0
"""Longer delays are cut to half a year: nobody means them, and timers need not be able to hold them."""

State = Literal["processing", "held", "ready", "waiting"]


class QueueClosed(Exception):
    """Raised by `get` when there will be no more keys."""


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """A look at a queue; times in seconds."""

    ready: int
    processing: int
    delayed: int
    failing: int
    longest_running_s: float
    depths: dict[int, int]
    """Ready keys by priority."""


@dataclass(frozen=True, slots=True)
class QueuedKey(Generic[K]):
    """A look at one key in a queue."""

    key: K
    state: State
    age_s: float
    """Seconds in this state; for a waiting key negative: the seconds until it is ready."""
    priority: int
    failures: int


class _Item:
    """A key that is due, now or later."""

    __slots__ = ("priority", "state", "when")

    def __init__(self, priority: int, when: float, state: State) -> None:
        self.priority = priority
        self.when = when  # it was added; of a waiting one: it will be ready
        self.state: State = state


class WorkQueue(Generic[K]):
    """
    Hands out keys, each to one worker at a time. Must be used inside one running event loop.

    Args:
        env: Time and randomness.
        metrics: Where to count.
        limiter: How long failed keys wait; `limiters.Exponential` by default.
        group: Which keys share a turn among those of one priority, see `turns`; by default there are no turns.
        ageing_s: Seconds of waiting that weigh as much as one point of priority; None for strict priorities.
    """

    def __init__(
        self,
        env: Env,
        *,
        metrics: QueueMetrics | None = None,
        limiter: Limiter[K] | None = None,
        group: Group[K] | None = None,
        ageing_s: float | None = None,
    ) -> None:
        self._env = env
        self._metrics = metrics or QueueMetrics()
        self._limiter: Limiter[K] = limiter or Exponential(env)
        self._items: dict[K, _Item] = {}
        self._ready: Turns[K] = Turns(group=group, ageing_s=ageing_s)
        self._processing: dict[K, tuple[float, int]] = {}  # since when, with which priority
        self._waiting: Delays[K] = Delays(env, self._make_due)
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._closed = False
        self._draining = False
        self._see_priority = self._metrics.read(self)
        self._see_priority(0)

    # Adding

    def add(self, key: K, *, priority: int = 0) -> None:
        """Ask for a run of this key now. After shutdown it does nothing."""
        if self._closed or self._draining:
            return
        item = self._items.get(key)
        if item is None:
            self._items[key] = _Item(priority, 0.0, "waiting")
            self._make_due(key)
        elif item.state == "waiting":
            item.priority = max(item.priority, priority)
            self._waiting.remove(key)
            self._make_due(key)
        else:
            self._raise(key, item, priority)

    def add_after(self, key: K, delay_s: float, *, priority: int = 0, is_retry: bool = True) -> None:
        """
        Ask for a run in `delay_s` seconds: at once if that is not positive, in half a year if it is longer than that.

        `is_retry`: whether it counts as one, as it does in client-go.

        Raises:
            ValueError: The delay is not a number.
        """
        if math.isnan(delay_s):
            raise ValueError(f"cannot add {key} after {delay_s} seconds: that is not a number")
        if self._closed or self._draining:
            return
        if delay_s <= 0:
            self.add(key, priority=priority)
            return
        if is_retry:
            self._metrics.retries()
        when = self._env.clock.monotonic() + min(delay_s, MAX_DELAY_S)
        item = self._items.get(key)
        if item is None:
            self._items[key] = _Item(priority, when, "waiting")
            self._waiting.put(key, when)
        elif item.state == "waiting":
            item.priority = max(item.priority, priority)
            if when < item.when:
                item.when = when
                self._waiting.put(key, when)
        else:
            self._raise(key, item, priority)

    def retry(self, key: K, *, at_least_s: float = 0.0, priority: int | None = None) -> float:
        """
        Ask for a run after the delay that the limiter wants, and count a failure.

        Args:
            key: Usually in progress.
            at_least_s: What the API server asked for; up to a fifth is added by chance.
            priority: None for the one with which the key was taken.

        Returns:
            The delay in seconds.
        """
        delay = self._limiter.delay_s(key)
        if at_least_s > delay:
            delay = at_least_s * self._env.random.uniform(1.0, 1.0 + JITTER)
        self.add_after(key, delay, priority=self.taken_priority(key) if priority is None else priority)
        return delay

    def forget(self, key: K) -> None:
        """Forget the failures of a key: its next back-off is the first."""
        self._limiter.forget(key)

    def failures(self, key: K) -> int:
        """How often in a row a key was retried."""
        return self._limiter.failures(key)

    def taken_priority(self, key: K) -> int:
        """The priority with which a key in progress was taken; 0 for others."""
        taken = self._processing.get(key)
        return taken[1] if taken else 0

    # Taking

    async def get(self) -> K:
        """
        Take the next key; `done` must follow. Safe to cancel: no key is lost.

        Raises:
            QueueClosed: The queue was shut down, or drained.
        """
        while not self._ready:
            if self._closed or self._draining:
                raise QueueClosed
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except BaseException:
                # The wake-up may have been for a key that is still there: pass it on.
                if getter in self._getters:
                    self._getters.remove(getter)
                elif self._ready:
                    self._wake()
                raise
        key = self._ready.pop()
        item = self._items.pop(key)
        now = self._env.clock.monotonic()
        self._metrics.queue_duration(now - item.when)
        self._processing[key] = (now, item.priority)
        return key

    def done(self, key: K) -> None:
        """
        Release a key, and make it ready again if it was added meanwhile. Once for each `get`, whatever happened.

        Raises:
            KeyError: The key is not in progress.
        """
        started, _ = self._processing.pop(key)
        now = self._env.clock.monotonic()
        self._metrics.work_duration(now - started)
        item = self._items.get(key)
        if item is not None and item.state == "held":
            self._push(key, item, now)
        elif self._idle:
            self._check_idle()

    # Ending

    def shut_down(self) -> None:
        """Stop at once: what is queued is dropped, `get` and `drain` end, adds are ignored. Idempotent."""
        self._closed = True
        self._items.clear()
        self._ready.clear()
        self._waiting.clear()
        self._wake_all()
        self._check_idle()

    async def drain(self) -> None:
        """
        Stop gently: no new keys; return when all that were due are done, those held included. Safe to cancel.

        Waiting keys are dropped: their time has not come. `shut_down` drops the rest and ends this wait, too.
        """
        self._draining = True
        for key in self._waiting:
            del self._items[key]
        self._waiting.clear()
        while not self._is_idle():
            idle = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            await idle
        self._wake_all()

    # Looking

    @property
    def closed(self) -> bool:
        """Whether it was shut down."""
        return self._closed

    def statistics(self) -> QueueStatistics:
        """Counts and ages, for metrics and for people."""
        return QueueStatistics(
            ready=len(self._ready),
            processing=len(self._processing),
            delayed=len(self._waiting),
            failing=self._limiter.failing(),
            longest_running_s=self.longest_running_s(),
            depths=self._ready.depths(),
        )

    def dump(self, limit: int = 100) -> list[QueuedKey[K]]:
        """At most `limit` keys, one by one, for people: those in progress first, then ready, then waiting ones."""
        now = self._env.clock.monotonic()
        look = islice(self._look(), limit)
        return [QueuedKey(key, state, now - since, p, self.failures(key)) for key, state, since, p in look]

    def depth(self, priority: int) -> int:
        """How many keys of this priority are ready."""
        return self._ready.depth(priority)

    def unfinished_s(self) -> float:
        """Seconds for which all keys in progress together are in progress."""
        return sum(self._running_s())

    def longest_running_s(self) -> float:
        """Seconds for which the first of the keys in progress is in progress."""
        return max(self._running_s(), default=0.0)

    def __len__(self) -> int:
        """Keys that are ready."""
        return len(self._ready)

    def _look(self) -> Iterator[tuple[K, State, float, int]]:
        for key, (since, priority) in self._processing.items():
            yield (key, "processing", since, priority)
        for keys in (self._processing, self._ready, self._waiting):
            for key in keys:
                item = self._items.get(key)
                if item is not None and (keys is not self._processing or item.state == "held"):
                    yield (key, item.state, item.when, item.priority)

    def _running_s(self) -> list[float]:
        if not self._processing:
            return []
        now = self._env.clock.monotonic()
        return [now - since for since, _ in self._processing.values()]

    # Moving

    def _make_due(self, key: K) -> None:
        """Move a new key, or one that waited, to where it is taken from."""
        item = self._items[key]
        item.when = self._env.clock.monotonic()
        if key in self._processing:
            item.state = "held"
        else:
            self._push(key, item, item.when)

    def _push(self, key: K, item: _Item, now: float) -> None:
        item.state = "ready"
        self._ready.push(key, priority=item.priority, now=now)
        self._see_priority(item.priority)
        self._metrics.adds()
        if self._getters:
            self._wake()

    def _raise(self, key: K, item: _Item, priority: int) -> None:
        """Give a key that is due a higher priority."""
        if priority <= item.priority:
            return
        if item.state == "ready":
            self._ready.remove(key, priority=item.priority)
            self._ready.push(key, priority=priority, now=self._env.clock.monotonic())
            self._see_priority(priority)
        item.priority = priority

    # Waking

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _wake_all(self) -> None:
        while self._getters:
            self._wake()

    def _is_idle(self) -> bool:
        return self._closed or not (self._ready or self._processing)

    def _check_idle(self) -> None:
        if self._is_idle():
            for waiter in self._idle:
                if not waiter.done():
                    waiter.set_result(None)
            self._idle.clear()
