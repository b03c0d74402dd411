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
    from collections.abc import Callable, Mapping

    from ktrain.api.meta import Json, JsonValue

    from .tables import Field, Tables

_ENVELOPE: Final = 30
"""The magic number, apiVersion and kind around it."""
_UNFRAMED: Final = ("b", "d", "i", "l")
"""Scalars that have no length before them."""


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
                inner_size = _value(known, field, one)
                size += _tag(number) + inner_size if field.type in _UNFRAMED else _framed(number, inner_size)
    return size


def _value(known: Tables, field: Field, value: JsonValue) -> int:
    scalar = _SCALARS.get(field.type)
    return _message(known, field.type, value) if scalar is None else scalar(value)


def _framed(number: int, size: int) -> int:
    return _tag(number) + _varint(size) + size


def _tag(number: int) -> int:
    return _varint(number << 3)


def _varint(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)


_SCALARS: Final[Mapping[str, Callable[[JsonValue], int]]] = {
    "s": lambda value: len(value.encode()),
    "y": lambda value: len(value) * 3 // 4,
    "i": lambda value: _varint(value) if value >= 0 else 10,
    "l": lambda value: _varint(value) if value >= 0 else 10,
    "b": lambda _: 1,
    "d": lambda _: 8,
    "Quantity": lambda value: 2 + len(str(value)),
    "IntOrString": lambda value: 6 + len(str(value)),
    "Raw": lambda value: 3 + len(msgspec.json.encode(value)),
    "Time": lambda _: 8,
    "MicroTime": lambda _: 12,
}
"""By letter or name in the tables: the bytes of a value."""
