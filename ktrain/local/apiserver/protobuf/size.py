"""
How many bytes an object of a built-in kind has in protobuf, as kube-apiserver stores it.

A message is what its fields are, each with a tag and, where it has one, a length. Go writes most fields that are empty,
too, which the tables do not tell; so what is computed is some bytes short for each part of an object. Definitions of
custom kinds, whose schemas have unions, are not stored this way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .tables import load

if TYPE_CHECKING:
    from ktrain.api.meta import Json, JsonValue

    from .tables import Field, Tables

_ENVELOPE: Final = 30
"""The magic number, apiVersion and kind around it."""
_FIXED: Final = {"b": 1, "d": 8, "Time": 8, "MicroTime": 12}
_INTEGERS: Final = ("i", "l")


def size_of(obj: Json) -> int:
    """Return the size of an object; of a kind without a table, that of its JSON."""
    known = load()
    message = known.message_of(obj["apiVersion"], obj["kind"])
    return len(msgspec.json.encode(obj)) if message is None else _ENVELOPE + _message(known, message, obj)


def _message(known: Tables, name: str, obj: JsonValue) -> int:
    size = 0
    for number, field in known.fields(name).items():
        if field.inline:
            size += _framed(number, _message(known, field.type, obj))
            continue
        value = obj if field.name == "" else obj.get(field.name) if isinstance(obj, dict) else None
        if value is None:
            continue
        if field.map:
            for key, inner in value.items():
                entry = _framed(1, len(key.encode())) + _framed(2, _value(known, field, inner))
                size += _framed(number, entry)
        else:
            for one in value if field.repeated else (value,):
                plain = field.type in _FIXED or field.type in _INTEGERS
                size += (
                    _tag(number) + _value(known, field, one) if plain else _framed(number, _value(known, field, one))
                )
    return size


def _value(known: Tables, field: Field, value: JsonValue) -> int:
    match field.type:
        case "s":
            return len(value.encode())
        case "y":
            return len(value) * 3 // 4
        case "i" | "l":
            return _varint(value) if value >= 0 else 10
        case "Quantity":
            return 2 + len(str(value))
        case "IntOrString":
            return 6 + len(str(value))
        case "Raw":
            return 3 + len(msgspec.json.encode(value))
        case kind if kind in _FIXED:
            return _FIXED[kind]
        case kind:
            return _message(known, kind, value)


def _framed(number: int, size: int) -> int:
    return _tag(number) + _varint(size) + size


def _tag(number: int) -> int:
    return _varint(number << 3)


def _varint(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)
