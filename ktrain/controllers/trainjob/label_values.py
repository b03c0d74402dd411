"""Bounds the values of a label. A value that no object has is replaced when another value needs its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

V = TypeVar("V", bound="Hashable")


class LabelValues(Generic[V]):
    """
    Counts the objects that have a label value.

    Args:
        most: How many values have series of their own.
        forget: Called with a value that makes room for another: its series are to go.
    """

    def __init__(self, most: int, forget: Callable[[V], None]) -> None:
        self._most = most
        self._forget = forget
        self._objects: dict[V, int] = {}
        self._idle: dict[V, None] = {}
        """Values that no object has, the longest unused first."""

    def take(self, value: V) -> bool:
        """Count one more object with this value; False if there is no room for it, and nothing is counted."""
        if value not in self._objects and len(self._objects) >= self._most and not self._make_room():
            return False
        self._idle.pop(value, None)
        self._objects[value] = self._objects.get(value, 0) + 1
        return True

    def release(self, value: V) -> None:
        """Count one object less; its series stay until their place is needed."""
        if not (objects := self._objects.get(value)):
            return
        self._objects[value] = objects - 1
        if objects == 1:
            self._idle[value] = None

    def _make_room(self) -> bool:
        value = next(iter(self._idle), None)
        if value is None:
            return False
        del self._idle[value], self._objects[value]
        self._forget(value)
        return True
