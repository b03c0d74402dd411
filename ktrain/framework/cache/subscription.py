"""
Changes for consumers that need to wait between them.

A handler must not wait; a subscriber may, as long as it likes. What happens to a key meanwhile is merged into one
change from the state the subscriber saw last to the newest, so that a slow subscriber costs memory by the number of
keys, not by the number of events, and never holds up the cache. What came and went unseen is not told at all.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from ktrain.framework.client.codec import metadata_of

from .handlers import steps
from .store import Change

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from ktrain.api.meta import Key

T = TypeVar("T")


class Subscription(Generic[T]):
    """
    An async iterator of `Change`s, oldest key first; ends when it is closed or the informer is released.

    For one consumer. Use it as a context manager, or call `close`. Cancelling the wait for the next change loses none.
    """

    def __init__(self, leave: Callable[[Subscription[T]], None]) -> None:
        self._leave = leave
        self._pending: dict[Key, tuple[T | None, T | None]] = {}
        self._ready: deque[Change[T]] = deque()
        self._news = asyncio.Event()
        self._ended = False

    def __len__(self) -> int:
        """How many keys have changes that were not taken yet."""
        return len(self._pending) + bool(self._ready)

    def __aiter__(self) -> Subscription[T]:
        return self

    async def __anext__(self) -> Change[T]:
        """The next change. Both states are set for an update; an object made anew comes as two changes."""
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            if self._pending:
                key = next(iter(self._pending))
                self._ready.extend(Change(key, old, new) for old, new in steps(*self._pending.pop(key)))
            else:
                self._news.clear()
                await self._news.wait()
        return self._ready.popleft()

    def __enter__(self) -> Subscription[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Follow no more; what is pending is dropped. Idempotent."""
        if not self._ended:
            self.end()

    def end(self) -> None:
        """End the iteration. The informer calls this when it is released."""
        self._ended = True
        self._pending.clear()
        self._ready.clear()
        self._news.set()
        self._leave(self)

    # The handler

    def on_add(self, obj: T, *, initial: bool) -> None:  # to a subscriber everything is a change
        """Note an object that came."""
        self._note(None, obj)

    def on_update(self, old: T, new: T) -> None:
        """Note a change."""
        self._note(old, new)

    def on_delete(self, obj: T) -> None:
        """Note an object that went."""
        self._note(obj, None)

    def _note(self, old: T | None, new: T | None) -> None:
        key = metadata_of(old if new is None else new).key
        if key in self._pending:
            old, _ = self._pending.pop(key)
            if old is None and new is None:
                return  # came and went
        self._pending[key] = (old, new)
        self._news.set()
