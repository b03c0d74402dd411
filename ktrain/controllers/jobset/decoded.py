"""
Templates of Jobs and claims as upstream's webhook leaves them.

It decodes a new JobSet into Go's structs and writes these back: amounts become canonical (`0.5` is `500m`), and fields
that Go always writes are there. One that is required and was left out has its zero value then, and the schema objects
to that, or to nothing. What the user wrote stays, empty or not: the webhook takes nothing away.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from ktrain.api.quantity import canonical, parse
from ktrain.api.schema import empty_object
from ktrain.api.schema.builtin import definition

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from ktrain.api.meta import Json, JsonValue

JOB_TEMPLATE: Final = "batch.v1.JobTemplateSpec"
CLAIM: Final = "core.v1.PersistentVolumeClaim"

_Read: TypeAlias = "Callable[[str | float], str | Fraction]"
_QUANTITY: Final = "api.resource.Quantity"
_ZEROS: Final[dict[str | None, JsonValue]] = {"string": "", "integer": 0, "array": None}
_INT_OR_STRING: Final = "util.intstr.IntOrString"
_UNSAID: Final[dict[str, Json]] = {
    "core.v1.ResourceFieldSelector": {"divisor": "0"},
    "batch.v1.PodFailurePolicyOnPodConditionsPattern": {"status": ""},
}
"""What is written of a struct although nobody requires it and it is no struct itself."""


def decoded(value: JsonValue, name: str) -> JsonValue:
    """Return a value of a built-in definition as Go writes it. One of another type is left for the schema to refuse."""
    return _decoded(value, name, canonical)


def compared(value: JsonValue, name: str) -> JsonValue:
    """Return a value of a built-in definition as Go compares it: `decoded`, but with amounts as numbers."""
    return _decoded(value, name, parse)


def _decoded(value: JsonValue, name: str, read: _Read) -> JsonValue:
    if name == _QUANTITY:
        return _amount(value, read)
    if not isinstance(value, dict):
        return value
    struct = _struct(name)
    written = {key: _inner(item, struct.fields.get(key), read) for key, item in value.items()}
    for key, zero in struct.always.items():
        if written.get(key) is None:
            field = struct.fields.get(key)
            written[key] = (
                _decoded({}, zero.definition, read) if isinstance(zero, _Field) else _inner(zero, field, read)
            )
    return written


@dataclass(frozen=True, slots=True)
class _Field:
    """What a field holds: one of a definition, a list of these, or a map to them."""

    definition: str
    is_map: bool = False


@dataclass(frozen=True, slots=True)
class _Struct:
    """`fields` are those that hold other definitions; `always` are zero values, or the structs that are there."""

    fields: dict[str, _Field]
    always: dict[str, JsonValue | _Field]


def _inner(value: JsonValue, field: _Field | None, read: _Read) -> JsonValue:
    if field is None:
        return value
    if isinstance(value, list):
        return [_decoded(item, field.definition, read) for item in value]
    if field.is_map and isinstance(value, dict):
        return {key: _decoded(item, field.definition, read) for key, item in value.items()}
    return _decoded(value, field.definition, read)


@lru_cache
def _struct(name: str) -> _Struct:
    schema = definition(name)
    properties: dict[str, Json] = schema.get("properties", {})
    fields = {key: field for key, of in properties.items() if (field := _field(of)) is not None}
    always: dict[str, JsonValue | _Field] = {**_UNSAID.get(name, {})}
    for key in {*schema.get("required", ()), *empty_object(name)}:
        field = fields.get(key)
        is_struct = field is not None and "$ref" in properties[key] and field.definition != _INT_OR_STRING
        always[key] = field if field is not None and is_struct else _ZEROS.get(properties[key].get("type"), 0)
    return _Struct(fields, always)


def _field(schema: Json) -> _Field | None:
    items, values = schema.get("items", {}), schema.get("additionalProperties", {})
    name = schema.get("$ref") or items.get("$ref") or values.get("$ref")
    return _Field(name, is_map="$ref" in values) if name else None


def _amount(value: JsonValue, read: _Read) -> JsonValue:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value
    try:
        return read(value)
    except ValueError:
        return value
