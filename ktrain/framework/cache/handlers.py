"""
Who is told of changes, and how.

Handlers are plain functions called in the order of events, so a slow one would hold up everybody: they put keys into
queues. Consumers that need to wait use a subscription instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import structlog

from ktrain.framework.client.codec import metadata_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Resource

    from .store import Change

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.cache")

CHANGES_PER_TURN: Final = 256
"""After a list handlers are told of this many changes in one go (some milliseconds), then other tasks have a turn."""


class Handler(Protocol[T_contra]):
    """Told of every change, in order. Must not wait; what it raises is logged and costs this call only."""

    def on_add(self, obj: T_contra, *, initial: bool) -> None:
        """Handle an object that is new to the cache; `initial` if it was there before the handler came to know."""

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """Handle a change of one object. Never of two: one that was deleted and made anew is a deletion and an add."""

    def on_delete(self, obj: T_contra) -> None:
        """Handle the end of an object, or of its matching the selectors, with the last state that is known."""


class Handlers(Generic[T]):
    """The handlers of one informer."""

    def __init__(self, resource: Resource[T]) -> None:
        self._resource = resource
        self._handlers: list[Handler[T]] = []

    def join(self, handler: Handler[T], present: Iterable[T]) -> None:
        """Add a handler and tell it what is there."""
        self._handlers.append(handler)
        for obj in present:
            self._call(handler, None, obj, initial=True)

    def leave(self, handler: Handler[T]) -> None:
        """Tell a handler nothing more. ValueError if it is none of these."""
        self._handlers.remove(handler)

    def clear(self) -> None:
        """Tell nobody anything more."""
        self._handlers.clear()

    def tell(self, old: T | None, new: T | None) -> None:
        """Tell everybody of one change, to another state or another life of the object."""
        handlers = tuple(self._handlers)
        for before, after in lives(old, new):
            for handler in handlers:
                self._call(handler, before, after, initial=False)

    def telling(self, changes: Iterable[Change[T]], *, initial: bool) -> Iterator[None]:
        """
        Tell those who are handlers now of many changes, in order; yields where others may have a turn.

        Who joins between two turns was shown the whole content then, so it is told none of this; who leaves, no more.
        """
        audience = tuple(self._handlers)
        for number, (_, old, new) in enumerate(changes, 1):
            for before, after in steps(old, new):
                for handler in audience:
                    self._call(handler, before, after, initial=initial)
            if number % CHANGES_PER_TURN == 0:
                yield
                audience = tuple(handler for handler in audience if handler in self._handlers)

    def _call(self, handler: Handler[T], old: T | None, new: T | None, *, initial: bool) -> None:
        try:
            if old is None:
                if new is not None:
                    handler.on_add(new, initial=initial)
            elif new is None:
                handler.on_delete(old)
            else:
                handler.on_update(old, new)
        except Exception:
            # The boundary to other people's code: one bad handler must not stop the cache for everybody.
            log.exception("handler.failed", resource=self._resource.qualified_name, handler=repr(handler))


def steps(old: T | None, new: T | None) -> Iterable[tuple[T | None, T | None]]:
    """
    What a change of one key means to those who are told.

    Nothing, if it is the same state again. A deletion and an add, if the object was deleted and made anew while nobody
    watched: two lives of one name must not look like one.
    """
    if old is None or new is None:
        return () if old is new else ((old, new),)
    return () if is_same(old, new) else lives(old, new)


def lives(old: T | None, new: T | None) -> tuple[tuple[T | None, T | None], ...]:
    """Split a change to another state between two lives of one name, if it is one."""
    if old is not None and new is not None and metadata_of(old).uid != metadata_of(new).uid:
        return ((old, None), (None, new))
    return ((old, new),)


def is_same(old: object, new: object) -> bool:
    """Whether these are one state of one object."""
    if old is new:
        return True
    before, after = metadata_of(old), metadata_of(new)
    return before.resource_version == after.resource_version and before.uid == after.uid
