"""
One running watch as the store sees it: a bounded queue of events that fit its filter.

The writer's side never waits. A watcher whose reader is too slow loses its queue and is closed: the client reconnects
from the last version it saw, which is cheaper for everybody than unbounded memory or a blocked writer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ktrain.local.apiserver.storage.store import Change, Expired, Item

Filter = Callable[["Item"], bool]
"""Whether an object is in a watcher's view: its namespace and selectors."""


class Event(NamedTuple):
    """What a watcher sees: ADDED, MODIFIED or DELETED, and the object."""

    type: str
    item: Item


def event_for(change: Change, accepts: Filter) -> Event | None:
    """
    Return what a change means for one view.

    An object that stops fitting the selectors is DELETED for this watcher, with its old content and the new version;
    one that begins to fit is ADDED.
    """
    before, after = change.before, change.after
    fits_now = after is not None and accepts(after)
    fitted = before is not None and accepts(before)
    if fits_now and after is not None:
        return Event("MODIFIED" if fitted else "ADDED", after)
    return Event("DELETED", change.departed) if fitted else None


class Watcher:
    """A queue between the store and one reader. `limit` bounds the events that wait, `after` leaves out early ones."""

    __slots__ = ("_accepts", "_after", "_events", "_limit", "_on_close", "_wakeup", "closed", "expired")

    def __init__(self, accepts: Filter, *, limit: int, after: int, on_close: Callable[[Watcher], None]) -> None:
        self._accepts = accepts
        self._after = after
        self._events: deque[Event] = deque()
        self._limit = limit
        self._on_close = on_close
        self._wakeup: asyncio.Future[bool] | None = None
        self.closed = False
        self.expired: Expired | None = None

    def offer(self, change: Change) -> None:
        """Queue a change if it concerns this view; close the watcher when its queue is full. Never waits."""
        event = event_for(change, self._accepts)
        if event is None or change.revision <= self._after:
            return
        if len(self._events) >= self._limit:
            self._events.clear()
            self.close()
            return
        self._events.append(event)
        self._wake()

    def drain(self) -> list[Event]:
        """Take everything that waits."""
        events = list(self._events)
        self._events.clear()
        return events

    async def wait(self, timeout_s: float) -> bool:
        """Wait until events are there or the watcher is closed; False after `timeout_s`. For one reader."""
        if self._events or self.closed:
            return True
        loop = asyncio.get_running_loop()
        self._wakeup = wakeup = loop.create_future()
        # A timer of its own: `asyncio.wait_for` costs as much as all the rest of an event.
        timer = loop.call_later(timeout_s, _resolve, wakeup, False)  # noqa: FBT003 -- what `wait` returns
        try:
            woken: bool = await wakeup
            return woken
        finally:
            timer.cancel()
            self._wakeup = None

    def close(self, *, expired: Expired | None = None) -> None:
        """Stop receiving. Events already queued can still be drained. Idempotent."""
        self.expired = self.expired or expired
        if not self.closed:
            self.closed = True
            self._on_close(self)
        self._wake()

    def _wake(self) -> None:
        if self._wakeup is not None:
            _resolve(self._wakeup, True)  # noqa: FBT003 -- what `wait` returns


def _resolve(future: asyncio.Future[bool], outcome: bool) -> None:  # noqa: FBT001 -- called by a timer
    if not future.done():
        future.set_result(outcome)
