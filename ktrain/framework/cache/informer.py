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

An informer of some namespaces has a `Partition` for each of them, with a list and a watch of its own: a user may be
allowed to read namespaces one by one, and not all at once. Objects of two namespaces never share a key, so all of the
above holds for each partition by itself. The informer is synced when all partitions are, but for those of namespaces of
which the API server shows nothing at all: a namespace that is deleted, and with it the Role in it, must not stop the
work in the others. (One informer for each namespace was rejected: every user would have to join their indexes, handlers
and states.)
"""

from __future__ import annotations

import asyncio
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from ktrain.framework.errors import Forbidden
from ktrain.framework.metrics.cache import InformerMetrics

from .handlers import Handler, Handlers
from .partition import Partition
from .record import MAX_BAD, InformerStatistics, summed
from .scope import Scope, describe
from .subscription import Subscription

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrain.api.meta import Key, Resource
    from ktrain.framework.env import Clock
    from ktrain.framework.errors import FrameworkError
    from ktrain.framework.metrics import Metrics
    from ktrain.framework.writes import Write

    from .cache import Cache
    from .store import IndexFunction

__all__ = ["Handler", "Informer", "InformerStatistics", "Scope"]

T = TypeVar("T")

SHUTTING_S: Final = 900.0
"""
After a namespace was deleted, each of its watches is refused when it ends, ten minutes later at the latest. As long the
content of one that is refused may grow old.
"""


class Informer(Generic[T]):
    """A live copy of one kind. Objects handed out are shared: nobody may change them. Made by `Cache.informer`."""

    def __init__(self, resource: Resource[T], scope: Scope) -> None:
        self.resource = resource
        self.scope = scope
        self.cache: Cache | None = None
        """What keeps it up to date."""
        self.released: bool = False
        """Whether the last user gave it back: it is empty, and follows nothing any more."""
        self._handlers: Handlers[T] = Handlers(resource)
        self._change = asyncio.Event()
        self.partitions: tuple[Partition[T], ...] = tuple(
            Partition(resource, one, self._handlers, self._changed) for one in scope.partitions()
        )
        """One for each namespace of the scope, or one for all. A reflector feeds each."""
        self._by_namespace = {one.scope.namespace: one for one in self.partitions}
        # What has the keys of every other namespace: all objects, or never any.
        self._rest = self._by_namespace.get("") or Partition(resource, scope, self._handlers, self._changed)
        self._subscriptions: list[Subscription[T]] = []
        self._clock: Clock | None = None

    def __str__(self) -> str:
        return describe(self.resource, self.scope)

    # Reading

    def get(self, key: Key) -> T | None:
        """The object, or None. Never waits."""
        return self._partition(key).store.get(key)

    def leaves_out(self, key: Key) -> bool:
        """Whether there is an object of this name that is not held. The API server knows which."""
        return self._partition(key).leaves_out(key)

    def by_index(self, name: str, value: str) -> list[T]:
        """The objects for which the index has this value. KeyError if there is no such index."""
        if len(self.partitions) == 1:
            return self.partitions[0].store.by_index(name, value)
        return [obj for partition in self.partitions for obj in partition.store.by_index(name, value)]

    def list(self, namespace: str = "") -> list[T]:
        """All objects, or those of one namespace. Linear in the size of the cache; an index is not."""
        items = chain.from_iterable(partition.store.items() for partition in self.partitions)
        return [obj for key, obj in items if not namespace or key.namespace == namespace]

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Add an index by a pure function of the object. ValueError if the name is taken."""
        for partition in self.partitions:
            partition.store.add_index(name, function)

    def __len__(self) -> int:
        return sum(len(partition.store) for partition in self.partitions)

    # Following

    def add_handler(self, handler: Handler[T]) -> None:
        """
        Add a handler; it is told of what is there already (as initial), then of every change.

        Raises:
            RuntimeError: The informer was released.
        """
        self._check_alive()
        self._handlers.join(handler, self.list())

    def remove_handler(self, handler: Handler[T]) -> None:
        """Tell a handler nothing more."""
        self._handlers.leave(handler)

    def when_gone(self, key: Key, call: Callable[[], None]) -> None:
        """Call this once, when the object of a name is gone, held or not. Equal calls for one name are one call."""
        self._check_alive()
        self._partition(key).when_gone(key, call)

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
        self._handlers.join(subscription, self.list())
        return subscription

    @property
    def synced(self) -> bool:
        """
        Whether the first content is complete and every handler was told of it. Not any more if the kind vanished.

        A namespace of which the API server refuses to show any kind is not waited for, if it shows another namespace.
        """
        parts = self.partitions
        return any(one.synced for one in parts) and all(one.synced or self._is_shut(one) for one in parts)

    @property
    def missing(self) -> bool:
        """Whether the API server does not serve the kind at all: its CRD is not installed."""
        return any(partition.missing for partition in self.partitions)

    @property
    def version(self) -> int:
        """The resource version up to which the content of every namespace is complete."""
        return min(partition.version for partition in self.partitions)

    @property
    def last_error(self) -> FrameworkError | None:
        """Why the API server could not be followed, until it can: the first error of a namespace."""
        return next((one.last_error for one in self.partitions if one.last_error is not None), None)

    async def wait_for_sync(self) -> None:
        """
        Wait until `synced`; without a limit of its own, also while the kind is missing.

        Raises:
            RuntimeError: The informer was released.
        """
        while not self.synced:
            self._check_alive()
            await self._change.wait()

    async def wait_for_decision(self) -> None:
        """Wait until `synced`, `missing` or `released`; without a limit of its own."""
        while not (self.synced or self.missing or self.released):
            await self._change.wait()

    def statistics(self) -> InformerStatistics:
        """Count and state, for health checks and metrics."""
        parts, records = self.partitions, [partition.record for partition in self.partitions]
        bad = chain.from_iterable(record.bad.items() for record in records)
        shut = [one.scope.namespace for one in parts if self._is_shut(one)]
        return InformerStatistics(
            objects=len(self),
            version=self.version,
            synced=self.synced,
            last_error=self._errors(),
            missing=self.missing,
            forbidden=any(isinstance(one.last_error, Forbidden) for one in parts) and not self._is_excused(),
            shut=tuple(shut) if len(shut) < len(parts) else (),
            left_out=sum(one.left_out for one in parts),
            bytes=sum(one.bytes for one in parts),
            age_s=self._age_s(),
            relists=summed(record.relists for record in records),
            restarts=summed(record.restarts for record in records),
            bad=dict(islice(bad, MAX_BAD)),
        )

    def observe(self, clock: Clock, metrics: Metrics, cache: str) -> None:
        """Show the statistics as metrics, until it is released. `Cache.informer` calls this."""
        self._clock = clock
        made = InformerMetrics.of(
            metrics, cache, self.resource.qualified_name, self.resource.type.__name__, str(self.scope), self.statistics
        )
        for partition in self.partitions:
            partition.record.metrics = made

    def release(self) -> None:
        """Empty it and end its subscriptions; handlers are told nothing. `Cache.release` calls this."""
        self.released = True
        self.partitions[0].record.metrics.forget()
        self._handlers.clear()
        for subscription in tuple(self._subscriptions):
            subscription.end()
        for partition in self.partitions:
            partition.release()
        self._changed()

    # Own writes

    def shows(self, write: Write) -> bool:
        """
        Whether the content includes this write, or never will because the object is outside the scope.

        An informer without content (yet, or because the kind is missing, or released) is not worth waiting for either.
        """
        return self._partition(write.key).shows(write)

    async def wait_for(self, write: Write) -> None:
        """Wait until `shows(write)`; without a limit of its own."""
        await self._partition(write.key).wait_for(write)

    def next_change(self, write: Write) -> asyncio.Future[None]:
        """Return a future that is done when `shows` may have changed for this write; `give_up` ends it."""
        return self._partition(write.key).next_change(write)

    def give_up(self, write: Write, change: asyncio.Future[None]) -> None:
        """Wait for a change no more; nothing if it has come."""
        self._partition(write.key).give_up(write, change)

    def _partition(self, key: Key) -> Partition[T]:
        return self._by_namespace.get(key.namespace, self._rest)

    def _errors(self) -> str:
        errors = {one.scope.namespace: str(one.last_error) for one in self.partitions if one.last_error is not None}
        if len(self.partitions) == 1:
            return "".join(errors.values())
        return "; ".join(f"namespace {namespace}: {error}" for namespace, error in errors.items())

    def _age_s(self) -> float | None:
        """Seconds since the API server was heard of the namespace of which it was heard longest ago, if it shows it."""
        shown = [one for one in self.partitions if not self._is_shut(one)] or self.partitions
        heard_s = [partition.record.heard_at_s for partition in shown]
        oldest_s = None if None in heard_s else min(one for one in heard_s if one is not None)
        return None if oldest_s is None or self._clock is None else self._clock.monotonic() - oldest_s

    def refuses(self, namespace: str) -> bool:
        """Whether the API server shows nothing of the kind in this namespace; also if the informer is not of it."""
        partition = self._by_namespace.get(namespace)
        return partition is None or partition.refused or partition.missing

    def wake(self) -> None:
        """Have those who wait look again."""
        self._change.set()
        self._change = asyncio.Event()

    def _changed(self) -> None:
        if len(self.partitions) == 1 or self.cache is None:
            self.wake()
        else:
            self.cache.wake()  # what is refused of one kind decides what others wait for

    def _is_shut(self, partition: Partition[T]) -> bool:
        """Whether nothing is shown of the namespace of a partition, of this kind and of all others."""
        return partition.refused and (self.cache is None or self.cache.refuses(partition.scope.namespace))

    def _is_excused(self) -> bool:
        """Whether each refusal is of a namespace that is shut, or may be about to be, and another one is not."""
        now_s = self._clock.monotonic() if self._clock else 0.0
        refused = [one for one in self.partitions if one.refused]
        return len(refused) < len(self.partitions) and all(
            self._is_shut(one) or (one.synced and now_s - (one.record.heard_at_s or 0.0) < SHUTTING_S)
            for one in refused
        )

    def _check_alive(self) -> None:
        if self.released:
            raise RuntimeError(f"the informer of {self} was released: ask the cache for it again")

    def _unsubscribe(self, subscription: Subscription[T]) -> None:
        self._subscriptions.remove(subscription)
        if not self.released:
            self._handlers.leave(subscription)
