"""
What decoding makes of values, beyond refusing them: typed decoding for built-in kinds, free decoding for custom ones.

Go's decoder does not skip a null as an element of a list or a map, as it does as the value of a field: it is the zero
value of its type, so `containers: [null]` is one container without a name. Times are kept in UTC. And a number is an
integer wherever it can be one, `1.0` is stored as `1`, and a float where 64 bits cannot hold it.

Each is rare, and the text of an object tells that it is not there at a tenth of the cost of a walk.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ktrain.api.schema.validate import LARGEST_EXACT
from ktrain.local.apiserver.storage.store import encode

if TYPE_CHECKING:
    from ktrain.api.meta import Json, JsonValue
    from ktrain.api.schema.node import Node

_ZERO: Final[dict[str, JsonValue]] = {
    "string": "",
    "integer": 0,
    "number": 0,
    "int-or-string": 0,
    "quantity": "0",
    "boolean": False,
}
_OFFSET: Final = re.compile(rb':\d\d(?:\.\d+)?[+-]\d\d:\d\d"')
_ELSEWHERE: Final = re.compile(r"(.*?)(\.\d+)?([+-]\d\d:\d\d)")
_WHOLE: Final = re.compile(rb"\d\.0[,}\]]|\d{19}")


def typed(obj: Json, root: Node) -> Json:
    """Return an object of a built-in kind, of the right shape, as typed decoding has it; itself if that is the same."""
    text = encode(obj)
    if b"null" in text or _OFFSET.search(text):
        obj = _typed(obj, root)
    return _whole(obj, integers=False) if _WHOLE.search(text) else obj


def free(obj: Json) -> Json:
    """Return an object of a custom kind with integers for what are whole numbers; itself if it has no others."""
    if not _WHOLE.search(encode(obj)):
        return obj
    decoded: Json = _whole(obj, integers=True)
    return decoded


def _typed(value: JsonValue, node: Node | None) -> JsonValue:
    if node is None:
        return value
    if isinstance(value, dict):
        return {name: _member(child, name, node) for name, child in value.items()}
    if isinstance(value, list) and node.items is not None:
        return [_zero(node.items) if item is None else _typed(item, node.items) for item in value]
    return _in_utc(value) if node.format == "date-time" and isinstance(value, str) else value


def _member(value: JsonValue, name: str, node: Node) -> JsonValue:
    field = node.properties.get(name)
    if field is None and value is None and node.additional is not None:
        return _zero(node.additional)
    return _typed(value, field or node.additional)


def _zero(node: Node) -> JsonValue:
    return {} if node.type == "object" else _ZERO.get(node.type)


def _in_utc(time: str) -> str:
    if not (elsewhere := _ELSEWHERE.fullmatch(time)):
        return time
    try:
        here = datetime.fromisoformat(f"{elsewhere[1]}{elsewhere[3]}").astimezone(UTC)
    except (ValueError, OverflowError):
        return time
    return f"{here:%Y-%m-%dT%H:%M:%S}{elsewhere[2] or ''}Z"


def _whole(value: JsonValue, *, integers: bool) -> JsonValue:
    """Make integers of whole floats; if `integers`, also floats of what 64 bits cannot hold: quantities can."""
    if isinstance(value, dict):
        return {name: _whole(child, integers=integers) for name, child in value.items()}
    if isinstance(value, list):
        return [_whole(item, integers=integers) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST_EXACT:
        return int(value)
    is_large = integers and type(value) is int and not -(2**63) <= value < 2**63
    return float(value) if is_large else value
