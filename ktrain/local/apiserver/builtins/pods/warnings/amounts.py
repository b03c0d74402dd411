"""Bytes that are counted in fractions, which nobody meant."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.local.apiserver.access.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json


_SMALL: Final = ("m", "u", "n")


def warn_of_fraction(amounts: Json, name: str, field: str) -> Iterator[str]:
    """Yield a warning if there is no whole number of an amount, to the thousandth."""
    amount = str(amounts.get(name, ""))
    if not amount.endswith(_SMALL) and "e-" not in amount:
        return  # the canonical form of a whole number
    try:
        broken = math.ceil(quantity.parse(amount) * 1000) % 1000
    except ValueError:
        return  # validation names the field
    if broken:
        yield f"{field}[{name}]: fractional byte value {quote(amount)} is invalid, must be an integer"
