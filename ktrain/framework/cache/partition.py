"""
Objects of one kind in one namespace, or in all: what one reflector keeps up to date for an informer.

Every contract of the cache about versions is kept here, so it holds for each namespace by itself: a list of one
namespace replaces the objects of that namespace only, and a write is compared with the version of its own namespace.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import structlog

from ktrain.api.selectors import LabelSelector
from ktrain.framework.client.codec import BadObject, metadata_of
from ktrain.framework.errors import Forbidden, KindMissing

from .footprint import Footprint
from .handlers import is_same
from .names import Departures, Names
from .record import WatchRecord
from .replays import Deletions, version_number
from .scope import Scope, describe
from .store import NotIndexed, Store
from .waiting import Waiters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Key, Resource
    from ktrain.framework.errors import FrameworkError
    from ktrain.framework.writes import Write

    from .handlers import Handlers

T = TypeVar("T")

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.cache")

OBJECTS_PER_TURN: Final = 128
"""This many objects are put into new indexes in one go, then other tasks have a turn."""


class Partition(Generic[T]):
    """
    The sink of a reflector. Made by an informer, whose handlers it calls.

    Attributes:
        scope: Of one namespace, or of all; with the informer's selectors.
        store: The objects and their indexes.
        changed: Called when `synced`, `missing` or `refused` may have changed.
    """

    def __init__(self, resource: Resource[T], scope: Scope, handlers: Handlers[T], changed: Callable[[], None]) -> None:
        self.resource = resource
        self.scope = scope
        self.store: Store[T] = Store()
        self.version: int = 0
        """The resource version up to which the content is complete."""
        self.last_error: FrameworkError | None = None
        """Why the API server could not be followed, until it can."""
        self.missing: bool = False
        """Whether the API server does not serve the kind at all: its CRD is not installed."""
        self.refused: bool = False
        """Whether the API server refused (403) to show the kind, and has shown nothing of it since."""
        self.synced: bool = False
        """Whether the first content is complete and every handler was told of it."""
        self.record: WatchRecord = WatchRecord()
        """What the reflector counts."""
        self._handlers = handlers
        self._footprint = Footprint()
        self._labels = LabelSelector.parse(scope.label_selector) if scope.label_selector else None
        self._left_out = Names()
        self._departures = Departures()
        self._telling: Iterator[None] = iter(())
        self._deletions = Deletions()
        self._waiters = Waiters()
        self._changed = changed

    def __str__(self) -> str:
        return describe(self.resource, self.scope)

    def leaves_out(self, key: Key) -> bool:
        """Whether there is an object of this name that is not held."""
        return key in self._left_out

    @property
    def left_out(self) -> int:
        """How many objects are there and not held."""
        return len(self._left_out)

    @property
    def bytes(self) -> int:
        """Memory of the objects, estimated."""
        return round(self._footprint.mean * len(self.store)) + self._left_out.bytes

    def when_gone(self, key: Key, call: Callable[[], None]) -> None:
        """Call this once, when the object of a name is gone."""
        self._departures.tell(key, call)

    # Own writes

    def shows(self, write: Write) -> bool:
        """
        Whether the content includes this write, or never will because the selectors do not match the object.

        An informer without content (yet, or because the kind is missing, or released) is not worth waiting for either.
        """
        if not self.synced:
            return True
        stored = self.store.get(write.key)
        if write.version:
            return self.version >= write.version or (stored is None and not self._may_match(write))
        if stored is None:
            return True
        meta = metadata_of(stored)
        return meta.uid != write.uid or meta.deletion_timestamp is not None

    async def wait_for(self, write: Write) -> None:
        """Wait until `shows(write)`; without a limit of its own."""
        while not self.shows(write):
            change = self._waiters.next_change(write)
            try:
                await change
            finally:
                self._waiters.give_up(write, change)

    def next_change(self, write: Write) -> asyncio.Future[None]:
        """Return a future that is done when `shows` may have changed for this write; `give_up` ends it."""
        return self._waiters.next_change(write)

    def give_up(self, write: Write, change: asyncio.Future[None]) -> None:
        """Wait for a change no more; nothing if it has come."""
        self._waiters.give_up(write, change)

    def _may_match(self, write: Write) -> bool:
        if self.scope.field_selector:
            # What a field selector would say of the object is not known here; not waiting is the safe guess.
            return False
        return self._labels is None or self._labels.matches(write.labels)

    # The sink of the reflector

    async def replace(self, objects: dict[Key, T], version: int, left_out: Names | None = None) -> None:
        """
        Make this the whole content, then tell handlers: deletions first, then the rest in order (see above).

        Takes over both. Safe to cancel: either nothing has changed, or the rest is told before the next content.
        """
        await self._tell_rest()
        after = self.store.successor(objects)
        bad: dict[Key, NotIndexed] = {}
        for number, (key, obj) in enumerate(objects.items(), 1):
            old = self.store.get(key)
            if old is not None and is_same(old, obj):
                # Handlers are not told, so what they hold stays the one that is here; and nothing is held twice.
                objects[key] = old
            try:
                after.index(key, objects[key])
            except NotIndexed as error:
                bad[key] = error
            self._footprint.note(obj)
            if number % OBJECTS_PER_TURN == 0:
                await asyncio.sleep(0)
        for key, failure in bad.items():
            self._note_bad(objects.pop(key), failure)
        self._telling = self._handlers.telling(self.store.become(after), initial=not self.synced)
        self._left_out = left_out or Names()
        # Not the highest ever seen: a list may show that the server was put back to an earlier state.
        self.version = version
        self._deletions.clear()
        self._heard()
        self._waiters.release_all()
        self._departures.check(lambda key: key in self._left_out or self.store.get(key) is not None)
        await self._tell_rest()
        self.missing = False
        self.synced = True
        self._changed()

    def put(self, key: Key, obj: T, version: int) -> None:
        """
        Add or change an object. A state that is known, or older than the one known, is dropped (see `replays`).

        One that cannot be indexed leaves the content, like one that cannot be read: it costs itself only.
        """
        known = self.store.get(key)
        if self._is_past(known, key, version):
            return
        if known is not None and is_same(known, obj):
            self.reached(version)
            return
        try:
            old = self.store.put(key, obj)
        except NotIndexed as error:
            self._note_bad(obj, error)
            self._lose(key, known, version)
            return
        self._footprint.note(obj)
        self._left_out.discard(key)
        self._advance(version)
        self._handlers.tell(old, obj)
        self._waiters.release(key, self.version)

    def leave_out(self, key: Key, version: int) -> None:
        """Know of an object only that it is there. To handlers one that was held is deleted."""
        if self._is_past(self.store.get(key), key, version):
            return
        old = self.store.remove(key)
        self._left_out.add(key)
        self._advance(version)
        if old is not None:
            self._handlers.tell(old, None)
        self._waiters.release(key, self.version)

    def remove(self, key: Key, last: T | None, version: int) -> None:
        """Remove an object; handlers get its final state, or the last one known."""
        if self._is_past(self.store.get(key), key, version):
            return
        old = self.store.remove(key)
        self._deletions.note(key, version)
        self._lose(key, last if old is not None and last is not None else old, version)
        self._departures.gone(key)

    def reached(self, version: int) -> None:
        """The content is complete up to this version."""
        self._advance(version)
        self._waiters.release(None, self.version)

    def failed(self, error: FrameworkError) -> None:
        """Remember why the API server cannot be followed."""
        self.last_error = error
        if isinstance(error, KindMissing):
            self.missing = True
            self.refused = self.synced = False
            self._waiters.release_all()
        elif isinstance(error, Forbidden):
            # A 403 does not tell whether the kind is there.
            self.missing = False
            self.refused = True
        else:
            return
        self._changed()

    def release(self) -> None:
        """Empty it and wake everyone who waits. The informer calls this when its last user gave it back."""
        self.synced = False
        self._telling = iter(())
        self._left_out = Names()
        self._departures.clear()
        self.store = Store()
        self._waiters.release_all()

    async def _tell_rest(self) -> None:
        for _ in self._telling:
            await asyncio.sleep(0)

    def _note_bad(self, obj: T, error: NotIndexed) -> None:
        meta = metadata_of(obj)
        log.error("object.unreadable", resource=self.resource.qualified_name, key=str(meta.key), reason=str(error))
        self.record.unreadable(BadObject(meta.key, str(error), meta.resource_version))

    def _lose(self, key: Key, last: T | None, version: int) -> None:
        """Tell that an object has left the content, if it was in it."""
        self._left_out.discard(key)
        self._advance(version)
        if last is not None:
            self._handlers.tell(last, None)
        self._waiters.release(key, self.version)

    def _is_past(self, stored: T | None, key: Key, version: int) -> bool:
        if stored is None:
            # Which version has what is left out is not known, but events come in the order of versions.
            late = 0 < version < self.version and key in self._left_out
            return late or self._deletions.include(key, version)
        return 0 < version < version_number(metadata_of(stored).resource_version)

    def _advance(self, version: int) -> None:
        self.version = max(self.version, version)
        self._heard()

    def _heard(self) -> None:
        self.last_error = None
        self.refused = False
