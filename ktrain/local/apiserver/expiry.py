"""
Events do not stay: a while after they were last written they are deleted.

A cluster's store does it by leases; here one task sleeps until the oldest event is due, and has no timer while there is
none. All stay equally long, so the order in which they were written is the order in which they go.
"""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from ktrain.local.apiserver.storage.store import Change, RevisionMismatch

if TYPE_CHECKING:
    from ktrain.api.meta import Key
    from ktrain.local.apiserver.backend import Backend

_EVENTS: Final = "events"
_YIELD_EVERY: Final = 32
"""Events deleted before other tasks get their turn."""


class _Written(NamedTuple):
    """An event, and until when it stays if nobody writes it again."""

    until: datetime
    key: Key
    revision: int


class EventExpiry:
    """Deletes events that were last written `keep_s` seconds ago."""

    def __init__(self, backend: Backend, keep_s: float) -> None:
        self._backend = backend
        self._keep = timedelta(seconds=keep_s)
        self._written: deque[_Written] = deque()
        self._any = asyncio.Event()
        backend.store.listen(self._observe)

    async def run(self) -> None:
        """Work until cancelled."""
        done = 0
        while True:
            await self._any.wait()
            while self._written:
                rest_s = (self._written[0].until - self._backend.now()).total_seconds()
                if rest_s > 0:
                    await self._backend.env.clock.sleep(rest_s)
                    continue
                self._expire(self._written.popleft())
                done += 1
                if done % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)
            self._any.clear()

    def _observe(self, collection: str, change: Change) -> None:
        if collection == _EVENTS and change.after is not None:
            until = self._backend.now() + self._keep
            self._written.append(_Written(until, change.key, change.after.revision))
            self._any.set()

    def _expire(self, written: _Written) -> None:
        item = self._backend.store.collection(_EVENTS).get(written.key)
        if item is None or item.revision != written.revision:
            return
        try:
            self._backend.store.remove(_EVENTS, written.key, expected=item.revision)
        except RevisionMismatch:
            return  # written meanwhile: its time begins anew
