"""Makes one field of a runtime or job other than it should be, of the right type."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..objects import Json
    from .dice import Dice

TEXTS = ["", "A b", "x" * 70, "x" * 300, "-a", "Node"]
NUMBERS = [-1, 0, 2**31 - 1, 70000]
FIXED = {"apiVersion", "kind"}


def one(dice: Dice, obj: Json) -> Json:
    """Return the object with another value in one place, or without it."""
    made = copy.deepcopy(obj)
    places = [(holder, key) for holder, key in _leaves(made["spec"]) if key not in FIXED]
    if places:
        holder, key = dice.choice(places)
        if dice.likely(0.2):
            del holder[key]
        elif isinstance(holder[key], bool):
            holder[key] = not holder[key]
        else:
            holder[key] = dice.one(TEXTS if isinstance(holder[key], str) else NUMBERS)
    return made


def _leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(item, dict | list):
            yield from _leaves(item)
        else:
            yield value, key
