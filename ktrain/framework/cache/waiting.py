"""Who waits for which write to show up in an informer. Each waiter is woken once, not by every event."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ktrain.api.meta import Key
    from ktrain.framework.writes import Write

SWEEP_FROM: Final = 64


class Waiters:
    """Futures by the version or the key they wait for. A woken waiter looks again; waking one too many is harmless."""

    def __init__(self) -> None:
        self._by_version: list[tuple[int, int, asyncio.Future[None]]] = []
        self._by_key: dict[Key, list[asyncio.Future[None]]] = {}
        self._sequence = count()
        self._given_up = 0

    def next_change(self, write: Write) -> asyncio.Future[None]:
        """
        Return what is done when something happened that may show this write: its version, or for deletions its key.

        Who does not wait for it any more must say so (`give_up`).
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if write.version:
            heapq.heappush(self._by_version, (write.version, next(self._sequence), future))
        else:
            self._by_key.setdefault(write.key, []).append(future)
        return future

    def give_up(self, write: Write, change: asyncio.Future[None]) -> None:
        """Wait for a change no more; nothing if it has come."""
        if change.cancelled() or change.cancel():
            self._forget(write.key)

    def release(self, key: Key | None, version: int) -> None:
        """Wake those who wait for this key, or for a version up to this one."""
        waiting = self._by_version
        while waiting and waiting[0][0] <= version:
            _wake(heapq.heappop(waiting)[2])
        if self._by_key and key is not None:
            for future in self._by_key.pop(key, ()):
                _wake(future)

    def release_all(self) -> None:
        """Wake everybody: the content was replaced."""
        while self._by_version:
            _wake(self._by_version.pop()[2])
        for key in list(self._by_key):
            self.release(key, 0)

    def _forget(self, key: Key) -> None:
        """Let go of those who gave up: an informer that hears nothing wakes nobody, and must not keep them either."""
        if key in self._by_key:
            self._by_key[key] = [future for future in self._by_key[key] if not future.done()]
            if not self._by_key[key]:
                del self._by_key[key]
        self._given_up += 1
        if self._given_up > SWEEP_FROM + len(self._by_version) // 2:
            self._given_up = 0
            self._by_version = [waiter for waiter in self._by_version if not waiter[2].done()]
            heapq.heapify(self._by_version)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():  # its waiter was cancelled
        future.set_result(None)
