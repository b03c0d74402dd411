"""
Request bodies: JSON, YAML or protobuf bytes to a plain object, and which keys were given twice.

msgspec keeps the last of two equal keys and says nothing. Looking for them costs more than decoding, so it is done only
when encoding the result again does not give the same bytes; bodies from our own client are compact and always pass.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.local.apiserver import go_fields
from ktrain.local.apiserver.errors import bad_request, unsupported_media_type
from ktrain.local.apiserver.fields import spelling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json, JsonValue
    from ktrain.api.schema.node import Node
    from ktrain.local.apiserver.errors import StatusError

_JSON_TYPES: Final = frozenset({"", "application/json"})
_YAML_TYPE: Final = "application/yaml"
_PROTOBUF_TYPE: Final = "application/vnd.kubernetes.protobuf"
_WORD: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETERS: Final = re.compile(rf'(?:\s*;\s*{_WORD}=(?:{_WORD}|"(?:[^"\\]|\\.)*"))*\s*;?\s*')
_SHOWN_BYTES: Final = 30
MAX_DEPTH: Final = 200
"""Of objects and lists in each other. Kubernetes' own have a few dozen; up to this, whatever walks them may recurse."""
_parse: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class TooDeep(msgspec.DecodeError):
    """A document nested deeper than anything may be."""


class Body:
    """A decoded body, and complaints about keys it holds twice, in the words of fieldValidation."""

    __slots__ = ("duplicates", "obj")

    def __init__(self, obj: Json, duplicates: list[str]) -> None:
        self.obj = obj
        self.duplicates = duplicates


def media_type(content_type: str) -> str:
    """Return a Content-Type without parameters, in lower case; if these cannot be read, what nobody understands."""
    name, semicolon, parameters = content_type.partition(";")
    return name.strip().lower() if _PARAMETERS.fullmatch(semicolon + parameters) else content_type


def decode_object(
    body: bytes,
    content_type: str,
    *,
    kind: str,
    api_version: str = "",
    protobuf: bool = True,
    root: Node | None = None,
) -> Body:
    """
    Decode the body of a POST or PUT.

    `kind` is for the message; a protobuf body that names no kind of its own is of this one, in `api_version`. Custom
    kinds have no `protobuf`, and built-in ones a schema: its `root`.

    Raises:
        StatusError: 415 for another media type, 400 for a body that is no object.
    """
    given = media_type(content_type)
    if given in _JSON_TYPES:
        return _decode_json(body, kind, api_version, root)
    if given == _YAML_TYPE:
        decoded = decode_yaml(body, kind=kind)
        # The decoder of POST and PUT reports all of them as one complaint; the one of apply reports each.
        lines = "".join(f"\n  {line}" for line in decoded.duplicates)
        return Body(decoded.obj, [f"yaml: unmarshal errors:{lines}"] if lines else [])
    if given == _PROTOBUF_TYPE and protobuf:
        return Body(_decode_protobuf(body, api_version, kind), [])
    raise unsupported_media_type()


def decode_yaml(body: bytes, *, kind: str) -> Body:
    """
    Decode YAML 1.1. Most of it is JSON, which is a part of YAML and much faster to read.

    Raises:
        StatusError: 400 when it is no YAML object.
    """
    try:
        decoded = _checked(_decode(body), body, kind)
    except TooDeep as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass  # No JSON, so it is read as YAML below.
    else:
        if not decoded.duplicates:
            return decoded
    # Reading YAML loads PyYAML, which our own clients never need.
    from ktrain.api.documents.errors import DocumentError
    from ktrain.api.documents.parse import RepeatedKey, parse

    repeated: list[RepeatedKey] = []
    try:
        document = next(parse(body, "body", repeated=repeated), None)
    except DocumentError as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from error
    duplicates = [f'line {line}: key "{key}" already set in map' for key, line in repeated]
    return Body(_object(document.value if document else None, body, kind), duplicates)


def decode_patch(body: bytes) -> tuple[object, list[str]]:
    """
    Decode a patch document; return it and complaints about the keys it holds twice.

    Raises:
        StatusError: 400.
    """
    try:
        document: object = _decode(body)
    except UnicodeDecodeError:
        return decode_patch(_as_utf8(body))
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {_patch_text(error, body)}") from error
    return document, [] if _encode(document) == body else find_duplicates(body)


def _decode(body: bytes) -> object:
    try:
        value: object = _parse(body)
    except RecursionError as error:
        raise TooDeep("exceeded max depth") from error
    check_depth(value, body)
    return value


def check_depth(value: object, text: bytes) -> None:
    """
    Refuse a JSON value that is nested too deeply; `text` is its JSON.

    Raises:
        TooDeep: It is.
    """
    # Nearly all have fewer containers in all than may be in each other.
    if text.count(b"{") + text.count(b"[") <= MAX_DEPTH:
        return
    level: list[JsonValue] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise TooDeep("exceeded max depth")


def _decode_json(body: bytes, kind: str, api_version: str, root: Node | None) -> Body:
    try:
        obj = _decode(body)
    except UnicodeDecodeError:
        return _decode_json(_as_utf8(body), kind, api_version, root)
    except msgspec.DecodeError as error:
        if "out of range" in str(error) and body.startswith(b"{"):
            return _decode_spelled(body, kind, api_version, root)
        raise _unrecognized(kind, body, f"couldn't get version/kind; json parse error: {_go_text(error)}") from error
    if spelling.is_spelled(body):
        return _decode_spelled(body, kind, api_version, root)
    return _checked(obj, body, kind)


def _decode_spelled(body: bytes, kind: str, api_version: str, root: Node | None) -> Body:
    try:
        obj = spelling.decode(body, root)
        check_depth(obj, body)
    except spelling.UnfitNumber as error:
        version, said = api_version.rpartition("/")[2], str(error)
        if error.path:
            said = go_fields.mismatch(api_version, kind, error.path, f"number {error.text}")
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {said}') from error
    except (ValueError, RecursionError) as error:
        raise _unrecognized(kind, body, f"couldn't get version/kind; json parse error: {error}") from error
    return _checked(obj, body, kind)


def _decode_protobuf(body: bytes, api_version: str, kind: str) -> Json:
    # Most servers never see such a body; the tables load with the first one.
    from ktrain.local.apiserver import protobuf

    try:
        envelope = protobuf.unwrap(body)
    except protobuf.WireError as error:
        raise _unrecognized(kind, body, str(error)) from error
    if not envelope.kind:
        envelope = envelope._replace(kind=kind, api_version=api_version)
    try:
        return protobuf.decode(envelope)
    except protobuf.WireError as error:
        found, version = envelope.kind, envelope.api_version.rpartition("/")[2]
        raise bad_request(f'{found} in version "{version}" cannot be handled as a {kind}: {error}') from error


def _as_utf8(body: bytes) -> bytes:
    """Return a body with U+FFFD for what is no UTF-8, as Go reads it."""
    return body.decode("utf-8", "replace").encode()


def _checked(decoded: object, body: bytes, kind: str) -> Body:
    obj = _object(decoded, body, kind)
    return Body(obj, [] if _encode(obj) == body else find_duplicates(body))


def _object(obj: object, body: bytes, kind: str) -> Json:
    if isinstance(obj, dict):
        return obj
    if obj is None and body:
        # Decoding null leaves a Go value as it is: empty.
        return {}
    detail = f"json: cannot unmarshal {_type_name(obj)} into Go value"
    raise _unrecognized(kind, body, f"couldn't get version/kind; json parse error: {detail}")


def _unrecognized(kind: str, body: bytes, detail: str) -> StatusError:
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {detail} ({excerpt(body)})")


def excerpt(body: bytes) -> str:
    """Return how a body begins, as messages show it: as text only if it looks like JSON."""
    cut = " ..." if len(body) > _SHOWN_BYTES else ""
    start = body[:_SHOWN_BYTES]
    shown = start.decode("utf-8", "replace") if start.startswith(b"{") else start.hex()
    return f"{shown}{cut}" if shown else "<empty>"


def _go_text(error: Exception) -> str:
    text = str(error)
    return "unexpected end of JSON input" if "truncated" in text else text


def _patch_text(error: Exception, body: bytes) -> str:
    if "out of range" in str(error):
        try:
            spelling.decode(body, None)
        except (ValueError, RecursionError) as known:
            return str(known)
    return _go_text(error)


def _type_name(value: object) -> str:
    if isinstance(value, list):
        return "array"
    return {"str": "string", "bool": "bool", "NoneType": "null"}.get(type(value).__name__, "number")


class _Pairs(list[tuple[str, object]]):
    """An object with its keys as they came."""


def find_duplicates(body: bytes) -> list[str]:
    """Return `duplicate field "a.b"` for each key that one JSON object holds twice."""
    return [f'duplicate field "{path}"' for path in _duplicate_paths(json.loads(body, object_pairs_hook=_Pairs), "")]


def _duplicate_paths(value: object, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, child in value:
            below = f"{path}.{name}" if path else name
            if name in seen:
                yield below
            seen.add(name)
            yield from _duplicate_paths(child, below)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _duplicate_paths(child, f"{path}[{index}]")
