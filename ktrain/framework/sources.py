"""
From events to keys: what a controller registers at its informers.

On an update the mapping sees the old object and the new one, so that a child that changes hands wakes both owners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ktrain.api.meta import Key, Resource

from .client.codec import metadata_of

if TYPE_CHECKING:
    from .cache.informer import Informer

T = TypeVar("T")

MapFunction = Callable[[T], Iterable[Key]]


class Reason(NamedTuple):
    """Why a key is due: which event of which object. Formatted only when somebody looks."""

    event: str
    kind: str
    key: Key

    def __str__(self) -> str:
        return f"{self.kind} {self.key} {self.event}"


@dataclass(frozen=True, slots=True, eq=False)
class EnqueueHandler(Generic[T]):
    """Maps every event to keys and hands them over with the reason."""

    kind: str
    map: MapFunction[T]
    enqueue: Callable[[Key, Reason], None]

    def on_add(self, obj: T, *, initial: bool) -> None:
        """Enqueue for a new object."""
        reason = Reason("existed" if initial else "added", self.kind, metadata_of(obj).key)
        for key in self.map(obj):
            self.enqueue(key, reason)

    def on_update(self, old: T, new: T) -> None:
        """Enqueue for the object as it was and as it is."""
        reason = Reason("updated", self.kind, metadata_of(new).key)
        for key in dict.fromkeys([*self.map(new), *self.map(old)]):
            self.enqueue(key, reason)

    def on_delete(self, obj: T) -> None:
        """Enqueue for an object that is gone."""
        reason = Reason("deleted", self.kind, metadata_of(obj).key)
        for key in self.map(obj):
            self.enqueue(key, reason)


def own_key(obj: object) -> Iterable[Key]:
    """Map an object to its own key."""
    return (metadata_of(obj).key,)


def owner_key(owner: Resource[Any]) -> MapFunction[Any]:
    """
    Map an object to the key of its controller, if that is of the owner's group and kind; the version does not matter.

    The key is a guess from names: only the reconciler, which knows the owner's UID, can tell whose child it is.
    """

    def map_to_owner(obj: object) -> Iterable[Key]:
        meta = metadata_of(obj)
        ref = meta.controller
        if ref is None or ref.kind != owner.kind or _group(ref.api_version) != owner.group:
            return ()
        return (Key(meta.namespace if owner.namespaced else "", ref.name),)

    return map_to_owner


@dataclass(frozen=True, slots=True)
class Source(Generic[T]):
    """One informer that a controller listens to."""

    informer: Informer[T]
    handler: EnqueueHandler[T]


def _group(api_version: str) -> str:
    group, slash, _ = api_version.rpartition("/")
    return group if slash else ""
