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
    found: list[Cause] = []
    if schema.get("type") != "object":
        found.append(invalid(f"{path}.type", schema.get("type", ""), "must be object at the root"))
    found.extend(_node(schema, path, "object fields"))
    if not found:
        found.extend(_defaults(schema, path))
        found.extend(rule_causes(schema, path))
    return found


def _node(schema: Json, path: str, what: str) -> Iterator[Cause]:
    yield from _type(schema, path, what)
    yield from _keywords(schema, path)
    yield from _list_type(schema, path)
    for keyword in _LOGIC:
        for index, branch in enumerate(schema.get(keyword, ())):
            yield from _branch(branch, f"{path}.{keyword}[{index}]", schema)
    if "not" in schema:
        yield from _branch(schema["not"], f"{path}.not", schema)
    for name, child in sorted(schema.get("properties", {}).items()):
        yield from _node(child, f"{path}.properties[{name}]", "object fields")
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        yield from _node(additional, f"{path}.additionalProperties", "object fields")
    if isinstance(schema.get("items"), dict):
        yield from _node(schema["items"], f"{path}.items", "array items")


def _type(schema: Json, path: str, what: str) -> Iterator[Cause]:
    kind = schema.get("type", "")
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not kind and not free:
        yield required(f"{path}.type", f"must not be empty for specified {what}")
    elif kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if kind == "array" and "items" not in schema:
        yield required(f"{path}.items", "must be specified")


def _keywords(schema: Json, path: str) -> Iterator[Cause]:
    if "$ref" in schema:
        yield forbidden(f"{path}.$ref", "$ref is not supported")
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", text)
    if schema.get("properties") and schema.get("additionalProperties"):
        text = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", text)
    preserve = schema.get("x-kubernetes-preserve-unknown-fields")
    if preserve is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")  # noqa: FBT003 -- a JSON value
    if schema.get("x-kubernetes-embedded-resource") and not preserve and not schema.get("properties"):
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        yield required(f"{path}.properties", text)
    if "pattern" in schema:
        try:
            compile_pattern(schema["pattern"])
        except ValueError as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", schema["pattern"], text)


def _list_type(schema: Json, path: str) -> Iterator[Cause]:
    kind = schema.get("x-kubernetes-list-type")
    keys: list[str] = schema.get("x-kubernetes-list-map-keys", [])
    items: Json = schema.get("items") or {}
    if kind == "set" and items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        text = "must be atomic as item of a list with x-kubernetes-list-type=set"
        yield invalid(f"{path}.items.x-kubernetes-map-type", items.get("x-kubernetes-map-type"), text)
    if kind != "map":
        return
    if not keys:
        yield required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
    properties = items.get("properties", {})
    unknown = [key for key in keys if key not in properties]
    if unknown:
        yield invalid(f"{path}.x-kubernetes-list-map-keys", unknown, "entries must all be names of item properties")
    for key in keys:
        if key in properties and key not in items.get("required", ()) and "default" not in properties[key]:
            text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield required(f"{path}.items.properties[{key}].default", text)


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
    if "default" in schema:
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
