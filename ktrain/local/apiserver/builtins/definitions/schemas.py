"""
The schemas in definitions as typed decoding has them, however deep.

Where one may be something else than a schema (`items`, `additionalProperties`), the kind's own schema says nothing of
what is below.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ktrain.api.schema import builtin_node
from ktrain.api.schema.validate import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json

_NODE: Final = "apiextensions.v1.JSONSchemaProps"
_ANY_VALUE: Final = frozenset({"default", "example"})
"""Null is a value of these."""
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_MAPS: Final = ("properties", "patternProperties", "definitions")
_LOOSE: Final = ("items", "additionalProperties", "additionalItems")
_WRONG_TYPE: Final = re.compile(r'Invalid value: "(?!null")(?P<found>\w+)": .* must be of type (?P<expected>\w+): ')


def shape_error(obj: Json) -> str:
    """Return the decoder's complaint about a value in a schema that is of another type."""
    return next((error for schema in _schemas(obj) for error in _errors(schema)), "")


def drop_nulls(obj: Json) -> None:
    """Drop the nulls of schemas, in place: decoding leaves such fields as they are."""
    for schema in _schemas(obj):
        _drop_nulls(schema)


def _schemas(obj: Json) -> Iterator[Json]:
    for version in (obj.get("spec") or {}).get("versions") or ():
        schema = ((version or {}).get("schema") or {}).get("openAPIV3Schema")
        if isinstance(schema, dict):
            yield schema


def _errors(schema: Json) -> Iterator[str]:
    """Yield a complaint about a schema: about what is written out in it, and then about what may be one of several."""
    report = Report()
    check(builtin_node(_NODE), schema, "", report)
    for cause in report.causes:
        if wrong := _WRONG_TYPE.match(cause.message):
            field = f"JSONSchemaProps.{cause.field}"
            yield f"json: cannot unmarshal {wrong['found']} into Go struct field {field} of type {wrong['expected']}"
            return
    for child in _loose(schema):
        yield from _errors(child)


def _loose(schema: Json) -> Iterator[Json]:
    """Yield the schemas below one, which is of the right shape, that its own shape says nothing of."""
    for name in _LOOSE:
        value = schema.get(name)
        yield from (one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict))
    for child in _below(schema):
        yield from _loose(child)


def _below(schema: Json) -> Iterator[Json]:
    for name in _LISTS:
        yield from filter(None, schema.get(name) or ())
    for name in _MAPS:
        yield from filter(None, (schema.get(name) or {}).values())
    if schema.get("not"):
        yield schema["not"]


def _drop_nulls(schema: Json) -> None:
    for name in [name for name, value in schema.items() if value is None and name not in _ANY_VALUE]:
        del schema[name]
    for name in _LISTS:
        if name in schema:
            schema[name] = [{} if one is None else one for one in schema[name]]
    for name in _MAPS:
        if name in schema:
            schema[name] = {key: {} if one is None else one for key, one in schema[name].items()}
    for name, zero in (("required", ""), ("x-kubernetes-list-map-keys", ""), ("x-kubernetes-validations", {})):
        if name in schema:
            schema[name] = [zero if one is None else one for one in schema[name]]
    for rule in schema.get("x-kubernetes-validations", ()):
        for name in [name for name, value in rule.items() if value is None]:
            del rule[name]
    for child in (*_below(schema), *(schema[name] for name in _LOOSE if isinstance(schema.get(name), dict))):
        _drop_nulls(child)
