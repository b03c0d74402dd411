"""Random choices that are short to write."""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..objects import Json

T = TypeVar("T")


class Dice(random.Random):
    """A source of chance."""

    def likely(self, chance: float) -> bool:
        """Say yes so often."""
        return self.random() < chance

    def one(self, values: Sequence[T]) -> T:
        """Choose a value; a copy, as others may change it."""
        return copy.deepcopy(self.choice(values))

    def some(self, values: Sequence[T], most: int = 3) -> list[T]:
        """Choose up to so many different values, in any order."""
        return copy.deepcopy(self.sample(values, self.randint(0, min(most, len(values)))))

    def fields(self, table: Mapping[str, Sequence[object]], chance: float = 0.15) -> Json:
        """Choose some fields of a table, each with one of its values."""
        return {name: self.one(values) for name, values in table.items() if self.likely(chance)}
