"""
A document whose equal parts are written once: what pod templates repeat is nine tenths of our CRDs.

Packed, it is a list of its different objects and lists, the whole one last. Each is flat: in the place of an object or
list that it contains stands the number of that, in a list of its own.

    [{"a": 1}, {"x": [0], "y": [0]}]    is    {"x": {"a": 1}, "y": {"a": 1}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from .meta import JsonValue


def pack(document: JsonValue) -> bytes:
    """Return the JSON of a document, which is an object or a list, packed."""
    parts: list[JsonValue] = []
    numbers: dict[bytes, int] = {}

    def place(value: JsonValue) -> JsonValue:
        if not isinstance(value, dict | list):
            return value
        part: JsonValue
        if isinstance(value, dict):
            part = {key: place(item) for key, item in value.items()}
        else:
            part = [place(item) for item in value]
        number = numbers.setdefault(msgspec.json.encode(part), len(parts))
        if number == len(parts):
            parts.append(part)
        return [number]

    place(document)
    return msgspec.json.encode(parts)


def unpack(packed: bytes) -> JsonValue:
    """Return the document; its equal parts are the same objects, and nobody may change them."""
    parts: list[JsonValue] = msgspec.json.decode(packed)
    for part in parts:
        for key, value in part.items() if isinstance(part, dict) else enumerate(part):
            if isinstance(value, list):
                part[key] = parts[value[0]]
    return parts[-1]
