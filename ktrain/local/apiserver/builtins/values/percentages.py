"""Fields that hold a count or a percentage: `3` or `"25%"`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes

if TYPE_CHECKING:
    from ktrain.api.schema import Cause

_PERCENT: Final = re.compile(r"[0-9]+%")
_GRAMMAR: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)


def validate(value: object, field: str, *, limited: bool = True) -> list[Cause]:
    """Check one; a `limited` one may not be more than 100 %."""
    if not isinstance(value, str):
        return causes.non_negative(field, value)
    if not _PERCENT.fullmatch(value):
        return [causes.invalid(field, value, _GRAMMAR)]
    if limited and int(value[:-1]) > 100:
        return [causes.invalid(field, value, "must not be greater than 100%")]
    return []


def amount(value: object) -> int:
    """Return the number in it, whether of things or of a hundred; 0 for what is neither."""
    if isinstance(value, str):
        return int(value[:-1]) if _PERCENT.fullmatch(value) else 0
    return value if isinstance(value, int) else 0


def of(value: object, total: int) -> int:
    """Return how many of `total` it means; fractions count as one more."""
    if isinstance(value, str):
        return -(-amount(value) * total // 100)
    return amount(value)
