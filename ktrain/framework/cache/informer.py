"""
One kind in one scope: content, indexes, handlers.

What must never be seen half done, and how that is kept without locks:

- One event: the change of the store and of its indexes and the calls of the handlers happen in one stretch without
  `await`. A handler sees the store as the event left it; handlers of one informer see the same order.
- A whole list: 10,000 objects in one stretch would hold up a lease renewal. So the new content and its indexes are
  built beside the old, a few at a time, then take their place in one step: readers see all of the old or all of the
  new. After that handlers are told, a few at a time, in order. Meanwhile the store may be newer than what a handler
  has heard, never older, and no later event is taken in before the last handler has heard the last of the list. Only
  then is the informer synced. If that is cancelled half-way, the next list begins by telling the rest.

An informer may be told which objects to hold. To readers and handlers the others are not there, and one that is held
no more is deleted; only its name is known to be taken.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import structlog

from ktrain.api.selectors import LabelSelector
from ktrain.framework.client.codec import BadObject, metadata_of
from ktrain.framework.errors import Forbidden, KindMissing
from ktrain.framework.metrics.cache import InformerMetrics

from .footprint import Footprint
from .handlers import Handler, Handlers, is_same
from .names import Departures, Names
from .record import InformerStatistics, WatchRecord
from .replays import Deletions, version_number
from .scope import Scope, describe
from .store import IndexFunction, NotIndexed, Store
from .subscription import Subscription
from .waiting import Waiters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Key, Resource
    from ktrain.framework.env import Clock
    from ktrain.framework.errors import FrameworkError
    from ktrain.framework.metrics import Metrics
    from ktrain.framework.writes import Write

    from .cache import Cache

__all__ = ["Handler", "Informer", "InformerStatistics", "Scope"]

T = TypeVar("T")

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.cache")

OBJECTS_PER_TURN: Final = 128
"""This many objects are put into new indexes in one go, then other tasks have a turn."""


class Informer(Generic[T]):
    """A live copy of one kind. Objects handed out are shared: nobody may change them. Made by `Cache.informer`."""

    def __init__(self, resource: Resource[T], scope: Scope) -> None:
        self.resource = resource
        self.scope = scope
        self.cache: Cache | None = None
        """What keeps it up to date."""
        self.version: int = 0
        """The resource version up to which the content is complete."""
        self.last_error: FrameworkError | None = None
        """Why the API server could not be followed, until it can."""
        self.missing: bool = False
        """Whether the API server does not serve the kind at all: its CRD is not installed."""
        self.released: bool = False
        """Whether the last user gave it back: it is empty, and follows nothing any more."""
        self.record: WatchRecord = WatchRecord()
        """What the reflector counts."""
        self._clock: Clock | None = None
        self._footprint = Footprint()
        self._labels = LabelSelector.parse(scope.label_selector) if scope.label_selector else None
        self._store: Store[T] = Store()
        self._left_out = Names()
        self._departures = Departures()
        self._handlers: Handlers[T] = Handlers(resource)
        self._subscriptions: list[Subscription[T]] = []
        self._telling: Iterator[None] = iter(())
        self._deletions = Deletions()
        self._waiters = Waiters()
        self._synced = asyncio.Event()
        self._decided = asyncio.Event()

    def __str__(self) -> str:
        return describe(self.resource, self.scope)

    # Reading

    def get(self, key: Key) -> T | None:
        """The object, or None. Never waits."""
        return self._store.get(key)

    def leaves_out(self, key: Key) -> bool:
        """Whether there is an object of this name that is not held. The API server knows which."""
        return key in self._left_out

    def by_index(self, name: str, value: str) -> list[T]:
        """The objects for which the index has this value. KeyError if there is no such index."""
        return self._store.by_index(name, value)

    def list(self, namespace: str = "") -> list[T]:
        """All objects, or those of one namespace. Linear in the size of the cache; an index is not."""
        return [obj for key, obj in self._store.items() if not namespace or key.namespace == namespace]

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Add an index by a pure function of the object. ValueError if the name is taken."""
        self._store.add_index(name, function)

    def __len__(self) -> int:
        return len(self._store)

    # Following

    def add_handler(self, handler: Handler[T]) -> None:
        """
        Add a handler; it is told of what is there already (as initial), then of every change.

        Raises:
            RuntimeError: The informer was released.
        """
        self._check_alive()
        self._handlers.join(handler, self._store.values())

    def remove_handler(self, handler: Handler[T]) -> None:
        """Tell a handler nothing more."""
        self._handlers.leave(handler)

    def when_gone(self, key: Key, call: Callable[[], None]) -> None:
        """Call this once, when the object of a name is gone, held or not. Equal calls for one name are one call."""
        self._check_alive()
        self._departures.tell(key, call)

    def subscribe(self) -> Subscription[T]:
        """
        Follow the changes from a task that needs to wait between them; starts with what is there already.

            with informer.subscribe() as changes:
                async for change in changes: ...

        Raises:
            RuntimeError: The informer was released.
        """
        self._check_alive()
        subscription: Subscription[T] = Subscription(self._unsubscribe)
        self._subscriptions.append(subscription)
        self._handlers.join(subscription, self._store.values())
        return subscription

    @property
    def synced(self) -> bool:
        """Whether the first content is complete and every handler was told of it. Not any more if the kind vanished."""
        return self._synced.is_set()

    async def wait_for_sync(self) -> None:
        """
        Wait until `synced`; without a limit of its own, also while the kind is missing.

        Raises:
            RuntimeError: The informer was released.
        """
        while not self.synced:
            self._check_alive()
            await self._synced.wait()

    async def wait_for_decision(self) -> None:
        """Wait until `synced`, `missing` or `released`; without a limit of its own."""
        while not (self.synced or self.missing or self.released):
            await self._decided.wait()

    def statistics(self) -> InformerStatistics:
        """Count and state, for health checks and metrics."""
        heard_at_s, clock = self.record.heard_at_s, self._clock
        return InformerStatistics(
            objects=len(self._store),
            version=self.version,
            synced=self.synced,
            last_error=str(self.last_error or ""),
            missing=self.missing,
            forbidden=isinstance(self.last_error, Forbidden),
            left_out=len(self._left_out),
            bytes=round(self._footprint.mean * len(self._store)) + self._left_out.bytes,
            age_s=None if heard_at_s is None or clock is None else clock.monotonic() - heard_at_s,
            relists=dict(self.record.relists),
            restarts=dict(self.record.restarts),
            bad=dict(self.record.bad),
        )

    def observe(self, clock: Clock, metrics: Metrics, cache: str) -> None:
        """Show the statistics as metrics, until it is released. `Cache.informer` calls this."""
        self._clock = clock
        self.record.metrics = InformerMetrics.of(
            metrics, cache, self.resource.qualified_name, self.resource.type.__name__, str(self.scope), self.statistics
        )

    # Own writes

    def shows(self, write: Write) -> bool:
        """
        Whether the content includes this write, or never will because the object is outside the scope.

        An informer without content (yet, or because the kind is missing, or released) is not worth waiting for either.
        """
        if not self.synced or (self.scope.namespace and write.key.namespace != self.scope.namespace):
            return True
        stored = self._store.get(write.key)
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
        """Return what is done when it is worth asking again whether it `shows` this write; or else to `give_up`."""
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
        after = self._store.successor(objects)
        bad: dict[Key, NotIndexed] = {}
        for number, (key, obj) in enumerate(objects.items(), 1):
            old = self._store.get(key)
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
        self._telling = self._handlers.telling(self._store.become(after), initial=not self.synced)
        self._left_out = left_out or Names()
        # Not the highest ever seen: a list may show that the server was put back to an earlier state.
        self.version = version
        self._deletions.clear()
        self._heard()
        self._waiters.release_all()
        self._departures.check(lambda key: key in self._left_out or self._store.get(key) is not None)
        await self._tell_rest()
        self.missing = False
        self._synced.set()
        self._decided.set()

    def put(self, key: Key, obj: T, version: int) -> None:
        """
        Add or change an object. A state that is known, or older than the one known, is dropped (see `replays`).

        One that cannot be indexed leaves the content, like one that cannot be read: it costs itself only.
        """
        known = self._store.get(key)
        if self._is_past(known, key, version):
            return
        if known is not None and is_same(known, obj):
            self.reached(version)
            return
        try:
            old = self._store.put(key, obj)
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
        if self._is_past(self._store.get(key), key, version):
            return
        old = self._store.remove(key)
        self._left_out.add(key)
        self._advance(version)
        if old is not None:
            self._handlers.tell(old, None)
        self._waiters.release(key, self.version)

    def remove(self, key: Key, last: T | None, version: int) -> None:
        """Remove an object; handlers get its final state, or the last one known."""
        if self._is_past(self._store.get(key), key, version):
            return
        old = self._store.remove(key)
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
            self._synced.clear()
            self._decided.set()
            self._waiters.release_all()
        elif isinstance(error, Forbidden):
            # Whether the kind is there is not known to who may not ask.
            self.missing = False

    def release(self) -> None:
        """Empty it and end its subscriptions; handlers are told nothing. `Cache.release` calls this."""
        self.released = True
        self.record.metrics.forget()
        self._telling = iter(())
        self._left_out = Names()
        self._departures.clear()
        self._handlers.clear()
        for subscription in tuple(self._subscriptions):
            subscription.end()
        self._store = Store()
        self._synced.set()  # wakes those who wait, who then see that it was released
        self._synced.clear()
        self._decided.set()
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

    def _check_alive(self) -> None:
        if self.released:
            raise RuntimeError(f"the informer of {self} was released: ask the cache for it again")

    def _unsubscribe(self, subscription: Subscription[T]) -> None:
        self._subscriptions.remove(subscription)
        if not self.released:
            self._handlers.leave(subscription)
