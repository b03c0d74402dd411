"""
Objects of one kind by key, and indexes over them.

Plain dicts; nothing awaits, so that a change and its indexes appear to everyone at once. Dicts also serve as sets: they
keep insertion order, which makes a simulation repeat itself whatever the hash seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from ktrain.api.meta import Key

T = TypeVar("T")

IndexFunction = Callable[[T], Iterable[str]]


class Change(NamedTuple, Generic[T]):
    """One difference between two contents. `new` is None for a deletion, `old` for an addition."""

    key: Key
    old: T | None
    new: T | None


class Index(Generic[T]):
    """Keys by a value computed from the object. The function must be pure: it runs again to find the old values."""

    def __init__(self, function: IndexFunction[T]) -> None:
        self.function = function
        self._keys: dict[str, dict[Key, None]] = {}

    def keys(self, value: str) -> Iterable[Key]:
        """Keys of the objects that have this value, in the order they got it."""
        return self._keys.get(value, ())

    def replace(self, key: Key, old: T | None, new: T | None) -> None:
        """Move one object from its old values to its new ones."""
        before = () if old is None else tuple(self.function(old))
        after = () if new is None else tuple(self.function(new))
        if before == after:
            return
        for value in before:
            keys = self._keys.get(value)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    # An empty set per value ever seen is a leak (kubernetes/kubernetes#84959).
                    del self._keys[value]
        for value in after:
            self._keys.setdefault(value, {})[key] = None

    def forget(self, key: Key) -> None:
        """Take a key out of every value, however it got there. Linear in the number of values."""
        for value in [value for value, keys in self._keys.items() if key in keys]:
            del self._keys[value][key]
            if not self._keys[value]:
                del self._keys[value]


class NotIndexed(Exception):
    """An index function, which is foreign code, failed on an object, which is therefore not in the store."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"an index function failed: {error!r}")


class Store(Generic[T]):
    """The content of one informer."""

    def __init__(self) -> None:
        self._objects: dict[Key, T] = {}
        self._indexes: dict[str, Index[T]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: Key) -> T | None:
        """The object, or None."""
        return self._objects.get(key)

    def values(self) -> Iterable[T]:
        """Every object. Do not await while iterating."""
        return self._objects.values()

    def items(self) -> Iterable[tuple[Key, T]]:
        """Every key and object. Do not await while iterating."""
        return self._objects.items()

    def by_index(self, name: str, value: str) -> list[T]:
        """The objects with this value of the index. KeyError if there is no such index."""
        return [self._objects[key] for key in self._indexes[name].keys(value)]

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Add an index and build it from the content. ValueError if the name is taken."""
        if name in self._indexes:
            raise ValueError(f"there is already an index named {name!r}")
        index = Index(function)
        for key, obj in self._objects.items():
            index.replace(key, None, obj)
        self._indexes[name] = index

    def put(self, key: Key, new: T) -> T | None:
        """
        Add or replace an object; return the one before.

        Raises:
            NotIndexed: It cannot be indexed, so it is not here, and neither is the one before.
        """
        old = self._objects.get(key)
        self._objects[key] = new
        try:
            for index in self._indexes.values():
                index.replace(key, old, new)
        except Exception as error:
            self._forget(key)
            raise NotIndexed(error) from error
        return old

    def remove(self, key: Key) -> T | None:
        """Remove an object; return it, or None if there was none."""
        old = self._objects.pop(key, None)
        if old is not None:
            for index in self._indexes.values():
                index.replace(key, old, None)
        return old

    def successor(self, objects: dict[Key, T]) -> Store[T]:
        """
        Begin the next whole content beside this one; it owns the dict from now on.

        Its indexes are empty yet: call its `index` for every object, in as many turns as needed, then `become` it.
        """
        after: Store[T] = Store()
        after._objects = objects
        after._indexes = {name: Index(index.function) for name, index in self._indexes.items()}
        return after

    def index(self, key: Key, obj: T) -> None:
        """
        Put an object of a successor into its indexes.

        Raises:
            NotIndexed: It cannot be indexed, and is in none; take it out of the content, too.
        """
        try:
            for index in self._indexes.values():
                index.replace(key, None, obj)
        except Exception as error:
            for index in self._indexes.values():
                index.forget(key)
            raise NotIndexed(error) from error

    def become(self, after: Store[T]) -> Iterator[Change[T]]:
        """Take over a finished successor in one step; yields what changed, deletions first."""
        before = self._objects
        late = [(name, index.function) for name, index in self._indexes.items() if name not in after._indexes]
        self._objects, self._indexes = after._objects, after._indexes
        for name, function in late:  # added while the successor was built
            self.add_index(name, function)
        return _differences(before, dict(self._objects))

    def _forget(self, key: Key) -> None:
        del self._objects[key]
        for index in self._indexes.values():
            index.forget(key)


def _differences(before: Mapping[Key, T], after: Mapping[Key, T]) -> Iterator[Change[T]]:
    for key, old in before.items():
        if key not in after:
            yield Change(key, old, None)
    for key, new in after.items():
        yield Change(key, before.get(key), new)
