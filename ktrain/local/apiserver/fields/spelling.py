"""
Numbers in JSON bodies, as Go's decoder reads them: by their text, and by the type of the field that they are for.

A quantity keeps its text, `1.250` or `1e3`. An integer must be written as one, so `1.0` is none. All others are floats
of 64 bits, in which `1e400` has no room. That is so for what is decoded straight into a type: bodies of POST and PUT of
built-in kinds in JSON. Patches and YAML become free values first, whose numbers have lost their spelling.

Few bodies have such numbers, and their text tells which; they are read twice.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ktrain.api.meta import JsonValue
    from ktrain.api.schema.node import Node

_SPELLED: Final = re.compile(rb"(?:\"\s*:|[\[,])\s*-?[0-9]+(?:\.[0-9]|[eE]|[0-9]{308})")

_MOST_DIGITS: Final = 308
"""Of an integer that surely is a float of 64 bits, too."""


class UnfitNumber(ValueError):
    """A number that its field has no room for, in Go's words. `path` is that of a field for integers."""

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(f"json: cannot unmarshal number {text} into Go value of type float64")
        self.text = text
        self.path = path


class _Number(str):
    """The text of a number that is not written as an integer."""

    __slots__ = ()


def is_spelled(body: bytes) -> bool:
    """Whether there may be numbers with a fraction, an exponent or hundreds of digits in a JSON text."""
    return _SPELLED.search(body) is not None


def decode(body: bytes, root: Node | None) -> JsonValue:
    """
    Decode a JSON text for an object with this schema; without one its values are free.

    Raises:
        UnfitNumber: A number is no integer where one must be, or out of range.
        ValueError: It is no JSON.
    """
    return _read(json.loads(body, parse_float=_Number, parse_int=_integer, parse_constant=_no_number), root, "")


def _no_number(text: str) -> float:
    raise ValueError(f"invalid character '{text.lstrip('-')[0]}' looking for beginning of value")


def _integer(text: str) -> int | _Number:
    return int(text) if len(text) <= _MOST_DIGITS else _Number(text)


def _read(value: JsonValue, node: Node | None, path: str) -> JsonValue:
    if isinstance(value, _Number):
        return _number(value, node, path)
    if isinstance(value, dict):
        return {
            name: _read(child, node and node.child(name), f"{path}.{name}" if path else name)
            for name, child in value.items()
        }
    if isinstance(value, str):
        value.encode()  # Half of a pair of surrogates is no text, though this decoder takes it.
    if isinstance(value, list):
        return [_read(item, node and node.items, f"{path}[{index}]") for index, item in enumerate(value)]
    return value


def _number(text: _Number, node: Node | None, path: str) -> str | float:
    wanted = node.type if node else ""
    if node and wanted == "quantity":
        return str(text)
    if node and wanted in {"integer", "int-or-string"}:
        raise UnfitNumber(text, path)
    if math.isinf(number := float(text)):
        raise UnfitNumber(text)
    return number
