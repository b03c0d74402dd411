"""Whether a CRD's own schema is structural, as far as that is cheap to say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .builtin import builtin_node
from .causes import Cause, forbidden, invalid, not_supported, required
from .node import compile_node
from .patterns import compile_pattern
from .prune import prune
from .rule_checks import rule_causes
from .validate import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..meta import Json, JsonValue

_TYPES: Final = ["array", "boolean", "integer", "number", "object", "string"]
_LOGIC: Final = ("allOf", "anyOf", "oneOf")
_LIST_TYPES: Final = ["atomic", "set", "map"]
_MAP_TYPES: Final = ["atomic", "granular"]
_NEVER: Final = ("$ref", "additionalItems", "definitions", "dependencies", "id", "patternProperties")
_SHAPE_ONLY: Final = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "nullable": "must be false to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
}


def structural_causes(schema: Json, path: str) -> list[Cause]:
    """
    What keeps the schema from being structural, from its root on; `path` is the field of the schema in the CRD.

    Checked: types, items, references, what logic branches may say, list types and their keys, patterns, defaults, and
    then CEL rules: these only in a schema that is otherwise fine, for they are checked against its types.
    """
    found = [*_root(schema, path), *_walk(schema, path)]
    if not found:
        found.extend(_shapes(schema, path, "object fields"))
    if not found:
        found.extend(_defaults(schema, path))
    if not found:
        found.extend(rule_causes(schema, path))
    return found


def _root(schema: Json, path: str) -> Iterator[Cause]:
    if schema.get("type") != "object":
        yield invalid(f"{path}.type", schema.get("type", ""), "must be object at the root")
    if schema.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    if isinstance(schema.get("default"), dict):
        for name in ("apiVersion", "kind"):
            if not schema["default"].get(name):
                yield required(f"{path}.default.{name}")
    metadata = (schema.get("properties") or {}).get("metadata") or {}
    if set(metadata.get("properties") or {}) - {"name", "generateName"}:
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(f"{path}.properties[metadata]", text)


def _below(schema: Json, path: str) -> Iterator[tuple[str, Json, str]]:
    """The schemas below one: path, schema, what they are called."""
    for name, child in sorted(schema.get("properties", {}).items()):
        yield f"{path}.properties[{name}]", child, "object fields"
    for keyword, what in (("additionalProperties", "object fields"), ("items", "array items")):
        if isinstance(schema.get(keyword), dict):
            yield f"{path}.{keyword}", schema[keyword], what


def _walk(schema: Json, path: str) -> Iterator[Cause]:
    """What no schema may say."""
    yield from _keywords(schema, path)
    yield from _list_type(schema, path)
    for below, child, _ in _below(schema, path):
        yield from _walk(child, below)


def _shapes(schema: Json, path: str, what: str) -> Iterator[Cause]:
    """What keeps a schema from saying how its values look."""
    yield from _type(schema, path, what)
    for keyword in _LOGIC:
        for index, branch in enumerate(schema.get(keyword, ())):
            yield from _branch(branch, f"{path}.{keyword}[{index}]", schema)
    if "not" in schema:
        yield from _branch(schema["not"], f"{path}.not", schema)
    for below, child, kind in _below(schema, path):
        yield from _shapes(child, below, kind)


def _type(schema: Json, path: str, what: str) -> Iterator[Cause]:
    kind = schema.get("type", "")
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not kind and not free:
        yield required(f"{path}.type", f"must not be empty for specified {what}")
    if kind == "array" and "items" not in schema:
        yield required(f"{path}.items", "must be specified")


def _keywords(schema: Json, path: str) -> Iterator[Cause]:
    kind = schema.get("type", "")
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    for keyword in _NEVER:
        if schema.get(keyword):
            yield forbidden(f"{path}.{keyword}", f"{keyword} is not supported")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", text)
    if schema.get("properties") and schema.get("additionalProperties"):
        text = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", text)
    preserve = schema.get("x-kubernetes-preserve-unknown-fields")
    if preserve is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", preserve, "must be true or undefined")
    yield from _embedded(schema, path)
    if "pattern" in schema:
        try:
            compile_pattern(schema["pattern"])
        except ValueError as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", schema["pattern"], text)


def _embedded(schema: Json, path: str) -> Iterator[Cause]:
    if not schema.get("x-kubernetes-embedded-resource"):
        return
    kind = schema.get("type", "")
    if kind != "object":
        yield invalid(f"{path}.type", kind, "must be object if x-kubernetes-embedded-resource is true")
    if not schema.get("x-kubernetes-preserve-unknown-fields") and not schema.get("properties"):
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        yield required(f"{path}.properties", text)


def _list_type(schema: Json, path: str) -> Iterator[Cause]:
    type_, kind = schema.get("type", ""), schema.get("x-kubernetes-list-type")
    of_map = schema.get("x-kubernetes-map-type")
    items: Json = schema["items"] if isinstance(schema.get("items"), dict) else {}
    if kind is not None and type_ != "array":
        yield invalid(f"{path}.type", type_, "must be array if x-kubernetes-list-type is specified")
    elif kind is not None and kind not in _LIST_TYPES:
        yield not_supported(f"{path}.x-kubernetes-list-type", kind, _LIST_TYPES)
    if of_map is not None and type_ != "object":
        yield invalid(f"{path}.type", type_, "must be object if x-kubernetes-map-type is specified")
    elif of_map is not None and of_map not in _MAP_TYPES:
        yield not_supported(f"{path}.x-kubernetes-map-type", of_map, _MAP_TYPES)
    if kind == "set" and items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        text = "must be atomic as item of a list with x-kubernetes-list-type=set"
        yield invalid(f"{path}.items.x-kubernetes-map-type", items.get("x-kubernetes-map-type"), text)
    keys: list[str] = schema.get("x-kubernetes-list-map-keys", [])
    if kind == "map" and not keys:
        yield required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
    elif kind != "map" and keys:
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield required(f"{path}.x-kubernetes-list-type", text)
    elif kind == "map":
        yield from _map_keys(items, keys, path)


def _map_keys(items: Json, keys: list[str], path: str) -> Iterator[Cause]:
    """What keeps the keys of a list map from telling its items apart."""
    if items and items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), text)
        return
    properties = items.get("properties", {})
    unknown = [key for key in keys if key not in properties]
    if unknown:
        yield invalid(f"{path}.x-kubernetes-list-map-keys", unknown, "entries must all be names of item properties")
    if len(set(keys)) < len(keys):
        yield invalid(f"{path}.x-kubernetes-list-map-keys", keys, "must not contain duplicate entries")
    for key in dict.fromkeys(keys):
        of_key, field = properties.get(key), f"{path}.items.properties[{key}]"
        if of_key is None:
            continue
        if of_key.get("type") in {"array", "object"}:
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{field}.type", of_key["type"], text)
        if key not in items.get("required", ()) and "default" not in of_key:
            text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield required(f"{field}.default", text)
        if of_key.get("nullable"):
            text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield forbidden(f"{field}.nullable", text)


def _branch(branch: Json, path: str, parent: Json) -> Iterator[Cause]:
    """A branch of anyOf, oneOf, allOf or not may restrict values, not shape the object."""
    for keyword, text in _SHAPE_ONLY.items():
        if keyword == "type" and parent.get("x-kubernetes-int-or-string"):
            continue
        if branch.get(keyword):
            yield forbidden(f"{path}.{keyword}", text)
    for name, child in sorted(branch.get("properties", {}).items()):
        yield from _branch(child, f"{path}.properties[{name}]", {})
    if isinstance(branch.get("items"), dict):
        yield from _branch(branch["items"], f"{path}.items", {})


def _defaults(schema: Json, path: str) -> Iterator[Cause]:
    """Defaults must be valid where they stand. Only for schemas that are otherwise fine: they are compiled here."""
    if "default" in schema and (schema["default"] is not None or schema.get("nullable")):
        yield from _default(schema, schema["default"], f"{path}.default")
    for name, child in sorted(schema.get("properties", {}).items()):
        yield from _defaults(child, f"{path}.properties[{name}]")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from _defaults(schema[keyword], f"{path}.{keyword}")


def _default(schema: Json, value: JsonValue, path: str) -> Iterator[Cause]:
    node = compile_node(schema, builtin_node)
    unknown: list[str] = []
    prune(node, value, "", unknown, keep_nulls=True)
    if unknown:
        yield invalid(path, value, "must not have unknown fields")
    report = Report()
    check(node, value, "", report)
    for cause in report.causes:
        yield cause._replace(field=path if cause.field == "<nil>" else f"{path}.{cause.field}")
