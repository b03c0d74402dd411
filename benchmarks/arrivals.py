"""Waits until as many objects of an informer as were asked for are in a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrain.api.meta import Key, Object
    from ktrain.framework import Informer

T = TypeVar("T", bound="Object")


class Arrivals(Generic[T]):
    """Set off by the `count`th object of an informer for which `matches` holds. Objects do not count twice."""

    def __init__(self, informer: Informer[T], count: int, matches: Callable[[T], bool] = lambda _obj: True) -> None:
        self._count = count
        self._matches = matches
        self._seen: set[Key] = set()
        self._all = anyio.Event()
        informer.add_handler(self)

    def on_add(self, obj: T, *, initial: bool) -> None:
        self._look(obj)

    def on_update(self, old: T, new: T) -> None:
        self._look(new)

    def on_delete(self, obj: T) -> None:
        pass

    def _look(self, obj: T) -> None:
        if self._matches(obj):
            self._seen.add(obj.key)
            if len(self._seen) >= self._count:
                self._all.set()

    async def wait(self, timeout_s: float) -> None:
        """
        Wait for the last of them.

        Raises:
            TimeoutError: Some did not come.
        """
        with anyio.move_on_after(timeout_s):
            await self._all.wait()
        if not self._all.is_set():
            raise TimeoutError(f"{len(self._seen)} of {self._count} came within {timeout_s:g} s")
