"""The embedded server's store as plugins read caches: one object by its key, or several by an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json, Key, Resource
    from ktrain.local.apiserver.server import ApiServer
    from ktrain.pipeline import Index

T = TypeVar("T")


class Find(Protocol):
    """Reads one object of the server's store."""

    def __call__(self, group: str, version: str, plural: str, key: Key) -> Json | None:
        """Return an object, which the caller must not change, or None."""


class Objects(Protocol):
    """Reads all objects of a kind in the server's store."""

    def __call__(self, resource: Resource[Any], namespace: str) -> Iterator[Json]:
        """Yield the objects, which the caller must not change; of all namespaces if none is named."""


class StoreReader:
    """Reads the store and no cache, in the shapes that plugins declare: a TrainJob may follow its runtime at once."""

    def __init__(self, find: Find, objects: Objects) -> None:
        self._find = find
        self._objects = objects

    @classmethod
    def of(cls, server: ApiServer) -> StoreReader:
        """Return the reader of a server's store."""

        def objects(resource: Resource[Any], namespace: str) -> Iterator[Json]:
            return (item.obj for _, item in server.store.collection(resource.qualified_name).entries(namespace))

        return cls(server.find, objects)

    def lookup(self, resource: Resource[T], key: Key) -> T | None:
        """Return an object, or None."""
        found = self._find(resource.group, resource.version, resource.plural, key)
        return None if found is None else _decoded(found, resource)

    def find(self, index: Index[T], value: str) -> Sequence[T]:
        """Return the objects that *index* has under *value*, by a look at all of the kind: one machine has few."""
        found = (_decoded(obj, index.resource) for obj in self._objects(index.resource, ""))
        return [obj for obj in found if value in index.values(obj)]


def _decoded(obj: Json, resource: Resource[T]) -> T:
    return msgspec.json.decode(msgspec.json.encode(obj), type=resource.type)
