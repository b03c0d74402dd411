"""
Zero values in built-in kinds: what is left of them after a server written in Go has decoded and encoded an object.

Fields with `omitempty` vanish when they hold one (`labels: {}`, `hostNetwork: false`), unless Go declares a pointer
(`suspend: false` stays). Structs that are no pointers are there from the beginning, so nobody adds them: writing
`spec.template.spec` owns what is inside, not the structs around it. Of custom kinds, only metadata is such a struct.
Which fields are which is generated from Kubernetes' sources (`ktrain/api/kubernetes-zero.json`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ktrain.api.schema import builtin_kinds, definitions, zero_values
from ktrain.local.apiserver.store import encode

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.registry import ServedResource

_ANY_ZERO: Final = re.compile(rb':(?:""|0|0\.0|false|\[\]|\{\})[,}]')
_ZERO: Final[tuple[object, ...]] = ("", 0, [], {})
"""False equals 0."""
_OBJECT_META: Final = "meta.v1.ObjectMeta"


class _Field(NamedTuple):
    """What to do with a field: whether it vanishes when zero, and the definition of what is inside, if any."""

    vanishes: bool
    inside: str
    is_map: bool


def drop_zeros(obj: Json, resource: ServedResource) -> Json:
    """Return an object without the zero values that vanish; the object itself if it has none."""
    if resource.custom:
        metadata = obj["metadata"]
        kept = _without(metadata, _OBJECT_META)
        return obj if kept is metadata else {**obj, "metadata": kept}
    # The text tells that there are none at a tenth of the cost of a walk.
    return _without(obj, _definition(resource)) if _ANY_ZERO.search(encode(obj)) else obj


def zero_object(resource: ServedResource) -> Json:
    """Return what an object holds before anybody writes it: structs without fields. Not to be changed."""
    return {} if resource.custom else _zero(_definition(resource))


def _definition(resource: ServedResource) -> str:
    return builtin_kinds()[f"{resource.api_version}/{resource.kind}"].definition


@lru_cache(maxsize=1024)
def _zero(definition: str) -> Json:
    properties = definitions()[definition].get("properties", {})
    found: Json = {}
    for name in zero_values(definition).present:
        target = properties[name].get("$ref")
        found[name] = _zero(target) if target else []
    return found


def _without(obj: Json, definition: str) -> Json:
    fields = _fields(definition)
    kept: Json = {}
    changed = False
    for name, value in obj.items():
        field = fields.get(name)
        if field is None:
            kept[name] = value
        elif field.vanishes and value in _ZERO:
            changed = True
        else:
            kept[name] = below = _inside(value, field) if field.inside else value
            changed = changed or below is not value
    return kept if changed else obj


def _inside(value: Any, field: _Field) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, list):
        items = [_without(item, field.inside) if isinstance(item, dict) else item for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if not isinstance(value, dict):
        return value
    if not field.is_map:
        return _without(value, field.inside)
    return {key: _without(item, field.inside) if isinstance(item, dict) else item for key, item in value.items()}


@lru_cache(maxsize=1024)
def _fields(definition: str) -> dict[str, _Field]:
    """Return the fields of a definition that anything is to be done with."""
    omitted = zero_values(definition).omitted
    found = {}
    for name, schema in definitions()[definition].get("properties", {}).items():
        inner = schema.get("items") or schema.get("additionalProperties")
        target = schema.get("$ref") or (inner.get("$ref") if isinstance(inner, dict) else None)
        inside = target if target and "properties" in definitions()[target] else ""
        if name in omitted or inside:
            found[name] = _Field(name in omitted, inside, "additionalProperties" in schema)
    return found
