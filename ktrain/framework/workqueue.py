"""
The queue between events and workers.

Three sets (client-go's design): *ready*, the order in which keys are handed out; *dirty*, keys that need a run;
*processing*, keys that are with a worker. A key added while processing becomes dirty and runs again after `done`, so no
change is lost, no key is ever in two workers, and any number of adds cost one run.

Delayed keys wait in a heap with one timer for the earliest. All methods but `get` and `drain` return at once.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Generic, TypeVar

from .metrics.queue import QueueMetrics

if TYPE_CHECKING:
    from .env import Env

K = TypeVar("K", bound=Hashable)

RETRY_BASE_S = 0.005
RETRY_CAP_S = 1000.0
RETRY_JITTER = 0.2


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


class WorkQueue(Generic[K]):
    """Hands out keys, each to one worker at a time. Must be used inside one running event loop."""

    def __init__(self, env: Env, *, metrics: QueueMetrics | None = None) -> None:
        self._env = env
        self._metrics = metrics or QueueMetrics()
        self._ready: deque[K] = deque()
        self._dirty: dict[K, float] = {}  # since when
        self._processing: dict[K, float] = {}
        self._delayed: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}  # the valid entry of each delayed key; others in the heap are stale
        self._failures: dict[K, int] = {}
        self._sequence = count()
        self._timer: asyncio.TimerHandle | None = None
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._closed = False
        self._draining = False

    # Adding

    def add(self, key: K) -> None:
        """Ask for a run of this key. Does nothing if one is already due; after shutdown, nothing at all."""
        if self._closed or self._draining or key in self._dirty:
            return
        self._dirty[key] = self._env.clock.monotonic()
        if key not in self._processing:
            self._push(key)

    def add_after(self, key: K, delay_s: float) -> None:
        """Ask for a run in `delay_s` seconds. Of two delays for one key the earlier counts."""
        if self._closed or self._draining:
            return
        if not delay_s > 0:
            self.add(key)
            return
        when = self._env.clock.monotonic() + delay_s
        self._metrics.retries()
        if when >= self._due.get(key, float("inf")):
            return
        self._due[key] = when
        heapq.heappush(self._delayed, (when, next(self._sequence), key))
        if self._delayed[0][0] == when:
            self._arm()

    def retry(self, key: K, *, at_least_s: float = 0.0) -> float:
        """
        Ask for a run after the key's back-off: 5 ms doubling with each failure up to 1000 s, plus up to 20 % jitter.

        Returns the delay in seconds; `at_least_s` is what the API server asked for.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(RETRY_BASE_S * 2.0 ** min(failures, 64), RETRY_CAP_S)
        delay = max(delay, at_least_s) * self._env.random.uniform(1.0, 1.0 + RETRY_JITTER)
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Forget the failures of a key: its next back-off is the first."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often in a row a key was retried."""
        return self._failures.get(key, 0)

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
        key = self._ready.popleft()
        now = self._env.clock.monotonic()
        self._metrics.queue_duration(now - self._dirty.pop(key))
        self._metrics.depth(len(self._ready))
        self._processing[key] = now
        return key

    def done(self, key: K) -> None:
        """
        Release a key, and make it ready again if it was added meanwhile. Once for each `get`, whatever happened.

        Raises:
            KeyError: The key is not in progress.
        """
        started = self._processing.pop(key)
        self._metrics.work_duration(self._env.clock.monotonic() - started)
        if key in self._dirty:
            self._push(key)
        self._check_idle()

    # Ending

    def shut_down(self) -> None:
        """Stop at once: what is queued is dropped, `get` raises QueueClosed, adds are ignored. Idempotent."""
        self._closed = True
        self._ready.clear()
        self._dirty.clear()
        self._drop_delayed()
        self._wake_all()
        self._check_idle()

    async def drain(self) -> None:
        """Stop gently: no new keys; wait until all that were due are done. `shut_down` drops those not begun."""
        self._draining = True
        self._drop_delayed()
        if not self._ready:
            self._wake_all()
        while self._ready or self._processing:
            idle = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            await idle
        self._wake_all()

    def statistics(self) -> QueueStatistics:
        """Counts and ages, for metrics and for people."""
        now = self._env.clock.monotonic()
        longest = max((now - since for since in self._processing.values()), default=0.0)
        return QueueStatistics(len(self._ready), len(self._processing), len(self._due), len(self._failures), longest)

    def __len__(self) -> int:
        """Keys that are ready."""
        return len(self._ready)

    def _push(self, key: K) -> None:
        self._ready.append(key)
        self._metrics.adds()
        self._metrics.depth(len(self._ready))
        self._wake()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _wake_all(self) -> None:
        while self._getters:
            self._wake()

    def _check_idle(self) -> None:
        if not self._ready and not self._processing:
            for waiter in self._idle:
                if not waiter.done():
                    waiter.set_result(None)
            self._idle.clear()

    def _drop_delayed(self) -> None:
        self._delayed.clear()
        self._due.clear()
        self._arm()

    def _arm(self) -> None:
        """Set the one timer to the earliest delayed key."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._delayed:
            delay = max(0.0, self._delayed[0][0] - self._env.clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self._ripen)

    def _ripen(self) -> None:
        """Move what is due from the heap to the ready keys."""
        now = self._env.clock.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            when, _, key = heapq.heappop(self._delayed)
            if self._due.get(key) == when:
                del self._due[key]
                self.add(key)
        self._arm()
