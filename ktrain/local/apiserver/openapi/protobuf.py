"""
OpenAPI v2 as protobuf (gnostic's `openapi.v2.Document`), which is how kubectl reads it.

Needed because kubectl checks files of `kind: List` by itself, and finds schemas for that nowhere else. Only what those
documents hold is encoded. Numbers are those of gnostic's OpenAPIv2.proto. A message that is sent in parts is merged by
whoever reads it, so a document can be sent a group at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ktrain.api.meta import Json

    Encoder = Callable[[int, Any], bytes]

CONTENT_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
ACCEPTED: Final = (CONTENT_TYPE, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
_VARINT: Final = 0
_LENGTH: Final = 2


def head(info: Json) -> bytes:
    """Encode the version of OpenAPI, and what the document is about."""
    return _text(1, "2.0") + _bytes(2, _text(1, info["title"]) + _text(2, info["version"]))


def paths(found: Json) -> bytes:
    """Encode a part of the paths."""
    return _bytes(8, b"".join(_named(2, path, _message(_PATH, _PATH_EXTENSIONS, item)) for path, item in found.items()))


def definition(name: str, schema: Json) -> bytes:
    """Encode one definition."""
    return _bytes(9, _named(1, name, _schema(schema)))


# --- wire format ------------------------------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH) + _varint(len(value)) + value


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())


def _texts(number: int, values: Iterable[str]) -> bytes:
    return b"".join(_text(number, value) for value in values)


def _flag(number: int, value: bool) -> bytes:  # noqa: FBT001 -- the value that is encoded
    return _varint(number << 3 | _VARINT) + _varint(int(value))


def _named(number: int, name: str, value: bytes) -> bytes:
    """An entry of a map: gnostic keeps the order of keys, so its maps are lists."""
    return _bytes(number, _text(1, name) + _bytes(2, value))


def _any(number: int, value: object) -> bytes:
    """Any value, which is sent as YAML; JSON is."""
    return _bytes(number, _any_body(value))


def _any_body(value: object) -> bytes:
    return _text(2, msgspec.json.encode(value).decode())


def _anys(number: int, values: Iterable[object]) -> bytes:
    return b"".join(_any(number, value) for value in values)


def _message(fields: Mapping[str, tuple[int, Encoder]], extensions: int, value: Json) -> bytes:
    """Encode an object; keys that are no fields are left out, unless they are extensions."""
    parts: list[bytes] = []
    for key, inner in value.items():
        if key in fields:
            number, encode = fields[key]
            parts.append(encode(number, inner))
        elif key.startswith("x-"):
            parts.append(_named(extensions, key, _any_body(inner)))
    return b"".join(parts)


# --- messages ---------------------------------------------------------------------------------------------------------


def _schema(value: Json) -> bytes:
    return _message(_SCHEMA, _SCHEMA_EXTENSIONS, value)


def _inner_schema(number: int, value: Json) -> bytes:
    """A schema inside a message of which it is one alternative, or the only field."""
    return _bytes(number, _bytes(1, _schema(value)))


def _additional(number: int, value: Json | bool) -> bytes:  # noqa: FBT001 -- the value that is encoded
    return _bytes(number, _flag(2, value)) if isinstance(value, bool) else _inner_schema(number, value)


def _properties(number: int, value: Json) -> bytes:
    return _bytes(number, b"".join(_named(1, name, _schema(inner)) for name, inner in value.items()))


def _types(number: int, value: str) -> bytes:
    return _bytes(number, _text(1, value))


_SCHEMA_EXTENSIONS: Final = 31
_SCHEMA: Final[Mapping[str, tuple[int, Encoder]]] = {
    "$ref": (1, _text),
    "format": (2, _text),
    "description": (4, _text),
    "default": (5, _any),
    "pattern": (13, _text),
    "required": (19, _texts),
    "enum": (20, _anys),
    "additionalProperties": (21, _additional),
    "type": (22, _types),
    "items": (23, _inner_schema),
    "properties": (25, _properties),
}
_BODY: Final[Mapping[str, tuple[int, Encoder]]] = {
    "name": (2, _text),
    "in": (3, _text),
    "required": (4, _flag),
    "schema": (5, lambda number, value: _bytes(number, _schema(value))),
}
_QUERY: Final[Mapping[str, tuple[int, Encoder]]] = {
    "required": (1, _flag),
    "in": (2, _text),
    "name": (4, _text),
    "type": (6, _text),
}
_IN_PATH: Final[Mapping[str, tuple[int, Encoder]]] = {**_QUERY, "type": (5, _text)}


def _parameters(number: int, values: Iterable[Json]) -> bytes:
    return b"".join(_bytes(number, _bytes(1, _parameter(value))) for value in values)


def _parameter(value: Json) -> bytes:
    if value["in"] == "body":
        return _bytes(1, _message(_BODY, 6, value))
    if value["in"] == "query":
        return _bytes(2, _bytes(3, _message(_QUERY, 23, value)))
    return _bytes(2, _bytes(4, _message(_IN_PATH, 22, value)))


def _responses(number: int, value: Json) -> bytes:
    return _bytes(number, b"".join(_named(1, code, _bytes(1, _response(one))) for code, one in value.items()))


def _response(value: Json) -> bytes:
    return _text(1, value["description"]) + (_inner_schema(2, value["schema"]) if "schema" in value else b"")


_OPERATION: Final[Mapping[str, tuple[int, Encoder]]] = {
    "tags": (1, _texts),
    "operationId": (5, _text),
    "produces": (6, _texts),
    "consumes": (7, _texts),
    "parameters": (8, _parameters),
    "responses": (9, _responses),
    "schemes": (10, _texts),
}


def _operation(number: int, value: Json) -> bytes:
    return _bytes(number, _message(_OPERATION, 13, value))


_PATH_EXTENSIONS: Final = 10
_PATH: Final[Mapping[str, tuple[int, Encoder]]] = {
    "get": (2, _operation),
    "put": (3, _operation),
    "post": (4, _operation),
    "delete": (5, _operation),
    "patch": (8, _operation),
    "parameters": (9, _parameters),
}
