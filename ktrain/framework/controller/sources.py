"""
From events to keys: what a controller registers at its informers and channels.

On an update the mapping sees the old object and the new one, so that a child that changes hands wakes both owners. All
of it is plain functions that run where the event happens: nothing waits between an event and the queue, so there is no
buffer in between to bound.

A predicate or mapping that raises costs the one event and is logged and counted under the controller's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

import structlog

from ktrain.api.meta import Key, Resource
from ktrain.framework.client.codec import metadata_of

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from .predicates import Predicate

T = TypeVar("T")

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.controller")

MapFunction = Callable[[T], Iterable[Key]]
BatchTime = float | Callable[[Key], float]
"""How many seconds an event waits for others of its key: always, or for this key."""

LOW_PRIORITY: Final = -100
"""Of what is no news: content that was there at the start, and replays. Whoever waits for a change comes first."""


class Reason(NamedTuple):
    """Why a key is due: which event of which object."""

    event: str
    kind: str
    key: Key

    def __str__(self) -> str:
        return f"{self.kind} {self.key} {self.event}"


class Enqueue(Protocol):
    """Takes a key."""

    def __call__(self, key: Key, reason: Reason | str, /, *, priority: int = 0, after_s: float = 0.0) -> None:
        """Ask for a pass."""


@dataclass(frozen=True, slots=True)
class Sink:
    """Where a source delivers."""

    controller: str
    enqueue: Enqueue
    failed: Callable[[], None]
    """Count an event that was lost to an error."""


@dataclass(frozen=True, slots=True, eq=False)
class EnqueueHandler(Generic[T]):
    """Maps every event to keys and hands them over with the reason. A handler of informers."""

    kind: str
    map: MapFunction[T]
    predicate: Predicate[T] | None
    sink: Sink
    batch_s: BatchTime = 0.0

    def on_add(self, obj: T, *, initial: bool) -> None:
        """Enqueue for a new object."""
        self._deliver("existed" if initial else "added", None, obj, priority=LOW_PRIORITY if initial else 0)

    def on_update(self, old: T, new: T) -> None:
        """Enqueue for the object as it was and as it is."""
        replay = metadata_of(old).resource_version == metadata_of(new).resource_version
        self._deliver("updated", old, new, priority=LOW_PRIORITY if replay else 0)

    def on_delete(self, obj: T) -> None:
        """Enqueue for an object that is gone."""
        self._deliver("deleted", obj, None, priority=0)

    def _deliver(self, event: str, old: T | None, new: T | None, *, priority: int) -> None:
        try:
            if self.predicate is not None:
                old, new = self.predicate.rest(old, new)
            objects = [obj for obj in (new, old) if obj is not None]
            if not objects:
                return
            about = metadata_of(objects[0]).key
            reason = Reason(event, self.kind, about)
            # The usual mapping gives both states of an object the one key that is known already.
            keys = (about,) if self.map is own_key else dict.fromkeys(key for obj in objects for key in self.map(obj))
            for key in keys:
                after_s = self.batch_s(key) if callable(self.batch_s) else self.batch_s
                self.sink.enqueue(key, reason, priority=priority, after_s=after_s)
        except Exception:
            # The boundary to other people's code: what it cannot digest must not cost others their events.
            self.sink.failed()
            lost = next((str(metadata_of(obj).key) for obj in (new, old) if obj is not None), "")
            log.exception("event.lost", controller=self.sink.controller, kind=self.kind, object=lost, happened=event)


class Channel(Generic[T]):
    """
    Events from elsewhere than an API server: a timer, a webhook, a message.

    Args:
        name: In the reason of the passes that follow.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._listeners: list[Callable[[T], None]] = []

    def send(self, event: T) -> None:
        """
        Tell every listener; never waits. From another thread: `loop.call_soon_threadsafe(channel.send, event)`.

        A controller that does not run yet keeps the keys, not the events.
        """
        for listener in self._listeners:
            listener(event)

    def listen(self, mapping: MapFunction[T], sink: Sink) -> None:
        """Have the mapping's keys enqueued for each event."""

        def deliver(event: T) -> None:
            try:
                for key in dict.fromkeys(mapping(event)):
                    sink.enqueue(key, f"{self.name} sent", priority=0)
            except Exception:
                sink.failed()
                log.exception("event.lost", controller=sink.controller, channel=self.name)

        self._listeners.append(deliver)


def own_key(obj: object) -> Iterable[Key]:
    """Map an object to its own key."""
    return (metadata_of(obj).key,)


def owner_key(owner: Resource[Any], *, every_owner: bool = False) -> MapFunction[Any]:
    """
    Map an object to the key of its controller, if that is of the owner's group and kind; the version does not matter.

    The key is a guess from names: only the reconciler, which knows the owner's UID, can tell whose child it is.

    Args:
        owner: The kind of the owner.
        every_owner: Also owners that are not the controller.
    """

    def map_to_owner(obj: object) -> Iterable[Key]:
        meta = metadata_of(obj)
        return [
            Key(meta.namespace if owner.namespaced else "", ref.name)
            for ref in meta.owner_references
            if (every_owner or ref.controller) and ref.kind == owner.kind and _group(ref.api_version) == owner.group
        ]

    return map_to_owner


def _group(api_version: str) -> str:
    group, slash, _ = api_version.rpartition("/")
    return group if slash else ""
