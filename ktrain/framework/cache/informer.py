"""
One kind in one scope: content, indexes, handlers.

Everything that follows from one event, the change of the store, of its indexes, the calls of the handlers, happens in
one stretch without `await`. So a handler sees the store as the event left it, handlers of one informer see the same
order, and nobody ever sees half a change. Handlers are therefore plain functions and quick: they put keys into queues.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import anyio
import structlog

from ktrain.api.selectors import LabelSelector
from ktrain.framework.client.codec import metadata_of

from .store import IndexFunction, Store
from .waiting import Waiters

if TYPE_CHECKING:
    from ktrain.api.meta import Key, Resource
    from ktrain.framework.errors import FrameworkError
    from ktrain.framework.writes import Write

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

log = structlog.get_logger("ktrain.framework.cache")


class Handler(Protocol[T_contra]):
    """Told of every change, in order. Must not wait; what it raises is logged and costs this call only."""

    def on_add(self, obj: T_contra, *, initial: bool) -> None:
        """Handle an object that is new to the cache; `initial` if it was there before the handler came to know."""

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """Handle a change. UIDs differ if the object was deleted and created again while nobody watched."""

    def on_delete(self, obj: T_contra) -> None:
        """Handle the end of an object, or of its matching the selectors, with the last state that is known."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects of a kind an informer holds."""

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""


@dataclass(frozen=True, slots=True)
class InformerStatistics:
    """A look at an informer."""

    objects: int
    version: int
    synced: bool
    last_error: str


class Informer(Generic[T]):
    """A live copy of one kind. Objects handed out are shared: nobody may change them. Made by `Cache.informer`."""

    def __init__(self, resource: Resource[T], scope: Scope) -> None:
        self.resource = resource
        self.scope = scope
        self.version = 0
        """The resource version up to which the content is complete."""
        self.last_error: FrameworkError | None = None
        """Why the API server could not be followed, until it can."""
        self._labels = LabelSelector.parse(scope.label_selector) if scope.label_selector else None
        self._store: Store[T] = Store()
        self._handlers: list[Handler[T]] = []
        self._waiters = Waiters()
        self._synced = anyio.Event()

    # Reading

    def get(self, key: Key) -> T | None:
        """The object, or None. Never waits."""
        return self._store.get(key)

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
        """Add a handler; it is told of what is there already (as initial), then of every change."""
        self._handlers.append(handler)
        for obj in self._store.values():
            self._tell(handler, None, obj, initial=True)

    def remove_handler(self, handler: Handler[T]) -> None:
        """Tell a handler nothing more."""
        self._handlers.remove(handler)

    @property
    def synced(self) -> bool:
        """Whether the first content is complete and every handler was told of it."""
        return self._synced.is_set()

    async def wait_for_sync(self) -> None:
        """Wait until `synced`; without a limit of its own."""
        await self._synced.wait()

    def statistics(self) -> InformerStatistics:
        """Count and state, for health checks and metrics."""
        return InformerStatistics(len(self._store), self.version, self.synced, str(self.last_error or ""))

    # Own writes

    def shows(self, write: Write) -> bool:
        """Whether the content includes this write, or never will because the object is outside the scope."""
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
            await self._waiters.wait(write)

    def _may_match(self, write: Write) -> bool:
        if self.scope.field_selector:
            # What a field selector would say of the object is not known here; not waiting is the safe guess.
            return False
        return self._labels is None or self._labels.matches(write.labels)

    # The sink of the reflector

    def replace(self, objects: dict[Key, T], version: int) -> None:
        """Make this the whole content, then tell handlers: deletions first, then the rest in order."""
        initial = not self.synced
        changes = self._store.replace_all(objects)
        self._advance(version)
        for _, old, new in changes:
            self._notify(old, new, initial=initial)
        self._synced.set()
        self._waiters.release_all()

    def put(self, key: Key, obj: T, version: int) -> None:
        """Add or change an object."""
        old = self._store.put(key, obj)
        self._advance(version)
        self._notify(old, obj)
        self._waiters.release(key, self.version)

    def remove(self, key: Key, last: T | None, version: int) -> None:
        """Remove an object; handlers get its final state, or the last one known."""
        old = self._store.remove(key)
        self._advance(version)
        if old is not None:
            self._notify(old if last is None else last, None)
        self._waiters.release(key, self.version)

    def reached(self, version: int) -> None:
        """The content is complete up to this version."""
        self._advance(version)
        self._waiters.release(None, self.version)

    def failed(self, error: FrameworkError) -> None:
        """Remember why the API server cannot be followed."""
        self.last_error = error

    def _advance(self, version: int) -> None:
        self.version = max(self.version, version)
        self.last_error = None

    def _notify(self, old: T | None, new: T | None, *, initial: bool = False) -> None:
        if (
            old is not None
            and new is not None
            and metadata_of(old).resource_version == metadata_of(new).resource_version
        ):
            return  # the same state again, after a relist
        for handler in self._handlers:
            self._tell(handler, old, new, initial=initial)

    def _tell(self, handler: Handler[T], old: T | None, new: T | None, *, initial: bool) -> None:
        try:
            if new is not None:
                if old is None:
                    handler.on_add(new, initial=initial)
                else:
                    handler.on_update(old, new)
            elif old is not None:
                handler.on_delete(old)
        except Exception:
            # The boundary to other people's code: one bad handler must not stop the cache for everybody.
            log.exception("handler.failed", resource=self.resource.qualified_name, handler=repr(handler))
