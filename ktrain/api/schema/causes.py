"""One violation as `Status.details.causes` carries it, and the API server's exact words for each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from ..meta import JsonValue

NO_FIELD: Final = "<nil>"
"""The field of a cause about the object as a whole, and of oneOf, anyOf, not and number ranges, which carry no path."""

_BLOCKING: Final = frozenset(
    f"FieldValue{name}" for name in ("Required", "TypeInvalid", "NotSupported", "TooLong", "TooMany")
)


class Cause(NamedTuple):
    """A violated rule: where, which kind of violation, and the text without the path."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    @property
    def blocks_rules(self) -> bool:
        """Whether CEL rules are not run beside it: they could not rely on the shape of the object."""
        return self.reason in _BLOCKING


def show(value: JsonValue) -> str:
    """The value as messages print it: JSON."""
    return msgspec.json.encode(value).decode()


def type_name(value: JsonValue) -> str:
    """JSON's name for the type of a value."""
    if value is None:
        return "null"
    return _TYPE_NAMES[type(value)]


_TYPE_NAMES: Final = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    tuple: "array",
    dict: "object",
}


def invalid(path: str, value: JsonValue, detail: str) -> Cause:
    """The value breaks a rule."""
    return Cause(path or NO_FIELD, "FieldValueInvalid", f"Invalid value: {show(value)}: {detail}")


def wrong_type(path: str, text_path: str, expected: str, value: JsonValue) -> Cause:
    """The value is of another JSON type. The API server prints that type in the value's place."""
    return wrong_type_name(path, text_path, expected, type_name(value))


def wrong_type_name(path: str, text_path: str, expected: str, found: str) -> Cause:
    """The same for a value whose type is called something else than JSON's."""
    text = f'Invalid value: "{found}": {text_path} in body must be of type {expected}: "{found}"'
    return Cause(path or NO_FIELD, "FieldValueTypeInvalid", text)


def wrong_format(path: str, text_path: str, expected: str, value: str) -> Cause:
    """The string is not of its format, which counts as a wrong type."""
    text = f"Invalid value: {show(value)}: {text_path} in body must be of type {expected}: {show(value)}"
    return Cause(path or NO_FIELD, "FieldValueTypeInvalid", text)


def required(path: str, detail: str = "") -> Cause:
    """A field is missing."""
    return Cause(path, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def not_supported(path: str, value: JsonValue, supported: list[JsonValue]) -> Cause:
    """The value is not one of an enumeration; the alternatives are printed in the schema's order, and quoted."""
    quoted = ", ".join(show(v if isinstance(v, str) else show(v)) for v in supported)
    text = f"Unsupported value: {show(value)}: supported values: {quoted}"
    return Cause(path or NO_FIELD, "FieldValueNotSupported", text)


def duplicate(path: str, value: JsonValue) -> Cause:
    """The item occurs before in its list."""
    return Cause(path, "FieldValueDuplicate", f"Duplicate value: {show(value)}")


def too_long(path: str, limit: int) -> Cause:
    """The string is longer than allowed. The text says bytes though characters are counted."""
    return Cause(path or NO_FIELD, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def too_many(path: str, count: int, limit: int) -> Cause:
    """The list or map has too many entries."""
    noun = "item" if limit == 1 else "items"
    return Cause(path or NO_FIELD, "FieldValueTooMany", f"Too many: {count}: must have at most {limit} {noun}")


def forbidden(path: str, detail: str) -> Cause:
    """The field must not be there, or not have this value."""
    return Cause(path or NO_FIELD, "FieldValueForbidden", f"Forbidden: {detail}")
