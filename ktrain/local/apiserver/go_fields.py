"""
What Go's JSON decoder says of a value that does not fit its field: clients show it, and people search for it.

It names the struct that has the field, the way there by fields alone (no indices, no keys of maps), and the Go type.
The structs are the built-in definitions; what one embeds in another is not told from its own fields.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ktrain.api.quantity import NO_QUANTITY
from ktrain.api.schema import builtin_kinds, definition

if TYPE_CHECKING:
    from ktrain.api.meta import Json

_STEPS: Final = re.compile(r"\[(?P<key>[^\]]*)\]|(?P<field>[^.\[\]]+)")
_WORDS: Final = {"integer": "number", "boolean": "bool", "float64": "number"}
_SCALARS: Final = {
    "string": "string",
    "boolean": "bool",
    "integer": "int64",
    "number": "float64",
    "object": "map[string]interface {}",
}


_QUANTITY: Final = "api.resource.Quantity"


class _Place(NamedTuple):
    """Where a walk has come: the struct whose field it went through last, the fields so far, what is declared here."""

    struct: str
    fields: tuple[str, ...]
    schema: Json


def mismatch(api_version: str, kind: str, path: str, found: str, literal_in: Json | None = None) -> str:
    """
    Return the decoder's complaint about a field of a built-in kind.

    Args:
        path: As validation writes it: `spec.containers[0].name`.
        found: What is there, in JSON's words or OpenAPI's (`integer`).
        literal_in: The object, where it is a number that does not fit the field's format: it is shown.
    """
    place = _walk(builtin_kinds()[f"{api_version}/{kind}"].definition, path)
    if place.schema.get("$ref") == _QUANTITY:
        return NO_QUANTITY
    word = _WORDS.get(found, found)
    if literal_in is not None:
        word = f"{word} {_value_at(literal_in, path)}"
    field = ".".join((place.struct, *place.fields))
    return f"json: cannot unmarshal {word} into Go struct field {field} of type {_go_type(place.schema)}"


def _walk(name: str, path: str) -> _Place:
    place = _Place(_struct(name), (), definition(name))
    for step in _STEPS.finditer(path):
        struct, fields, schema = place
        if (ref := schema.get("$ref")) is not None:
            struct, schema = _struct(ref), definition(ref)
        word = step["field"] or step["key"]
        if step["field"] is not None and word in schema.get("properties", {}):
            place = _Place(struct, (*fields, word), schema["properties"][word])
        elif inner := schema.get("items") or schema.get("additionalProperties"):
            place = _Place(struct, fields, inner)
    return place


def _struct(name: str) -> str:
    return name.rpartition(".")[2]


def _value_at(obj: Json, path: str) -> object:
    value: Any = obj
    for step in _STEPS.finditer(path):
        value = value[int(step["key"]) if isinstance(value, list) else step["field"] or step["key"]]
    return value


def _go_type(schema: Json) -> str:
    if (ref := schema.get("$ref")) is not None:
        declared = definition(ref)
        return ".".join(ref.split(".")[-2:]) if "properties" in declared else _go_type(declared)
    for key, prefix in (("items", "[]"), ("additionalProperties", "map[string]")):
        if key in schema:
            return prefix + _go_type(schema[key])
    if schema.get("x-kubernetes-int-or-string"):
        return "int32"
    named = {"byte": "[]uint8", "int32": "int32"}
    return named.get(schema.get("format", "")) or _SCALARS.get(schema.get("type", ""), "interface {}")
