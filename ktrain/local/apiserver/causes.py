"""
Causes of an Invalid answer, in the words of the API machinery's field errors.

Built-in kinds are validated by code (`builtins/`), custom ones by their schemas (`ktrain.api.schema`); both end in
`Cause`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ktrain.api.schema import Cause
from ktrain.local.apiserver.access.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

IMMUTABLE = "field is immutable"


def required(field: str, detail: str = "") -> Cause:
    """Build the cause of a missing value."""
    return Cause(field, "FieldValueRequired", _with("Required value", detail))


def invalid(field: str, value: object, detail: str) -> Cause:
    """Build the cause of a value that breaks a rule."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {_show(value)}: {detail}")


def not_supported(field: str, value: object, supported: Iterable[str]) -> Cause:
    """Build the cause of a value outside an enumeration; the values are listed in the order given."""
    listed = ", ".join(f'"{one}"' for one in supported)
    return Cause(field, "FieldValueNotSupported", f"Unsupported value: {_show(value)}: supported values: {listed}")


def duplicate(field: str, value: object) -> Cause:
    """Build the cause of a value given twice."""
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {_show(value)}")


def forbidden(field: str, detail: str) -> Cause:
    """Build the cause of a field that must not be there, or must not change."""
    return Cause(field, "FieldValueForbidden", f"Forbidden: {detail}")


def too_long(field: str, limit: int) -> Cause:
    """Build the cause of a text or blob past its size."""
    return Cause(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def too_many(field: str, count: int, limit: int) -> Cause:
    """Build the cause of a list past its length."""
    return Cause(field, "FieldValueTooMany", f"Too many: {count}: must have at most {limit} items")


def missing_reference(field: str, value: str, detail: str = "") -> Cause:
    """Build the cause of a reference to something that is not declared."""
    return Cause(field, "FieldValueNotFound", _with(f"Not found: {_show(value)}", detail))


def non_negative(field: str, value: object) -> list[Cause]:
    """Check a number that may be absent but not below zero."""
    if isinstance(value, int | float) and value < 0:
        return [invalid(field, value, "must be greater than or equal to 0")]
    return []


def _with(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text


def _show(value: object) -> str:
    return quote(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
