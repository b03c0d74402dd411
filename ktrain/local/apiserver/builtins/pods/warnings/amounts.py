"""Bytes that are counted in fractions, which nobody meant."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ktrain.api import quantity
from ktrain.local.apiserver.access.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json


def warn_of_fraction(amounts: Json, name: str, field: str) -> Iterator[str]:
    """Yield a warning if there is no whole number of an amount, to the thousandth."""
    amount = amounts.get(name)
    if amount is None:
        return
    try:
        broken = math.ceil(quantity.parse(amount) * 1000) % 1000
    except ValueError:
        return  # validation names the field
    if broken:
        yield f"{field}[{name}]: fractional byte value {quote(str(amount))} is invalid, must be an integer"
