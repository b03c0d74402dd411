"""What was decided, for a while: so that who asks again is answered without asking anybody."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ktrain.framework.env import Env

V = TypeVar("V")


class Remembered(Generic[V]):
    """
    Values for a while, the least lately used dropped first.

    Args:
        env: Time.
        most: How many are kept.
    """

    def __init__(self, env: Env, most: int) -> None:
        self._env = env
        self._most = most
        self._kept: OrderedDict[Hashable, tuple[V, float]] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        if key not in self._kept:
            return False
        if self._env.clock.monotonic() >= self._kept[key][1]:
            del self._kept[key]
            return False
        self._kept.move_to_end(key)
        return True

    def __getitem__(self, key: Hashable) -> V:
        return self._kept[key][0]

    def keep(self, key: Hashable, value: V, for_s: float) -> None:
        """Remember a value for some seconds."""
        self._kept[key] = value, self._env.clock.monotonic() + for_s
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
