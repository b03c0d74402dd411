"""
Events do not stay: a while after they were last written they are deleted.

A cluster's store does it by leases, here new events push the old ones out: without them there is nothing that grows,
and an idle server has no timer. So a list may show events past their time, as long as nothing else happened.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from ktrain.local.apiserver.controllers.working import Worklist
from ktrain.local.apiserver.storage.store import Change, RevisionMismatch

if TYPE_CHECKING:
    from ktrain.api.meta import Key
    from ktrain.local.apiserver.backend import Backend

_EVENTS: Final = "events"


class _Written(NamedTuple):
    """An event, and until when it stays if nobody writes it again."""

    until: datetime
    key: Key
    revision: int


class EventExpiry:
    """Deletes events that were last written longer ago than `keep_s` seconds."""

    def __init__(self, backend: Backend, keep_s: float) -> None:
        self._backend = backend
        self._keep = timedelta(seconds=keep_s)
        self._written: deque[_Written] = deque()
        self._queue: Worklist[str] = Worklist(_EVENTS, backend.env)
        backend.store.listen(self._observe)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._queue.work(self._settle)

    def _observe(self, collection: str, change: Change) -> None:
        if collection != _EVENTS or change.after is None:
            return
        now = self._backend.now()
        self._written.append(_Written(now + self._keep, change.key, change.after.revision))
        if self._written[0].until <= now:
            self._queue.add(_EVENTS)

    async def _settle(self, _name: str) -> None:
        now = self._backend.now()
        while self._written and self._written[0].until <= now:
            written = self._written.popleft()
            item = self._backend.store.collection(_EVENTS).get(written.key)
            if item is None or item.revision != written.revision:
                continue
            try:
                self._backend.store.remove(_EVENTS, written.key, expected=item.revision)
            except RevisionMismatch:
                continue
