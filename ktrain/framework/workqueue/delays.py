"""
Keys that wait for their time: a heap, and one timer for the earliest.

A key that leaves early, or gets another time, leaves its entry in the heap, to be skipped when it comes up. A busy
key that asks for a run in an hour with each of its passes would pile those up, so they are swept when they are the
majority.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from ktrain.framework.env import Env

K = TypeVar("K", bound=Hashable)

SWEEP_FROM: Final = 64
BATCH: Final = 1000
"""Keys that ripen in one step of the event loop, some milliseconds of work, however many are due."""


class Delays(Generic[K]):
    """Calls `ripe` with each key when its time has come. Needs a running event loop while keys wait."""

    def __init__(self, env: Env, ripe: Callable[[K], None]) -> None:
        self._env = env
        self._ripe = ripe
        self._entries: dict[K, tuple[float, int, K]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = count()
        self._timer: asyncio.TimerHandle | None = None

    def put(self, key: K, when: float) -> None:
        """Have a key wait until `when`, whatever its time was before."""
        if len(self._heap) > SWEEP_FROM + 2 * len(self._entries):
            self._heap = list(self._entries.values())
            heapq.heapify(self._heap)
        entry = self._entries[key] = (when, next(self._sequence), key)
        heapq.heappush(self._heap, entry)
        if self._timer is None or when < self._timer.when():
            self._arm()

    def remove(self, key: K) -> None:
        """Have a key wait no more. KeyError if it does not."""
        del self._entries[key]

    def clear(self) -> None:
        """Have no key wait any more."""
        self._entries.clear()
        self._heap.clear()
        self._arm()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap:
            loop = asyncio.get_running_loop()
            wait_s = max(0.0, self._heap[0][0] - self._env.clock.monotonic())
            self._timer = loop.call_at(loop.time() + wait_s, self._ripen)

    def _ripen(self) -> None:
        now = self._env.clock.monotonic()
        for _ in range(BATCH):
            if not self._heap or self._heap[0][0] > now:
                break
            entry = heapq.heappop(self._heap)
            key = entry[2]
            if self._entries.get(key) is entry:
                del self._entries[key]
                self._ripe(key)
        self._arm()
