"""
What a configuration names, by its schema: the first step of server-side apply, and where misfits are found.

What a place is follows from the schema: a *granular* map or list has paths inside, an *atomic* one is a single value.
Below fields that the schema leaves open, maps are granular and lists atomic.

Source of the rules: KEP-555 and `structured-merge-diff/typed` (tofieldset.go, validate.go); the texts are theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ktrain.api.schema.node import ANYTHING, Node
from ktrain.local.apiserver.fields.fieldset import EMPTY, MEMBER, SELF, FieldSet, item_key, show, value_key

if TYPE_CHECKING:
    from ktrain.api.meta import Json

Value = Any
"""Any JSON value, or MISSING."""

Path = tuple[Any, str] | None
"""A path as a chain of (parent, element): cheap to extend, rendered only when something is wrong."""


class TypingError(ValueError):
    """A configuration that does not fit the schema. The text lists every misfit with its path."""


def fields_of(config: Json, schema: Node) -> FieldSet:
    """
    Return the paths that an applied configuration names: leaves and list items.

    Raises:
        TypingError: Something in it does not fit the schema.
    """
    errors: list[str] = []
    fields = _fields_of_map(config, schema, None, errors)
    if errors:
        raise TypingError(errors[0] if len(errors) == 1 else "\n  ".join(["errors:", *errors]))
    return fields or EMPTY


def _fields(value: Value, node: Node, path: Path, errors: list[str]) -> FieldSet | None:
    if value is None:
        return None
    kind = type(value)
    expected = _CLASSES.get(node.type)
    if expected is not None and kind not in expected:
        errors.append(f"{_render(path)}: {_mismatch(value, node.type)}")
        return None
    if kind is dict:
        return MEMBER if node.map_type == "atomic" else _fields_of_map(value, node, path, errors)
    if kind is list:
        return MEMBER if node.list_type == "atomic" else _fields_of_list(value, node, path, errors)
    return MEMBER


def _fields_of_map(value: Json, node: Node, path: Path, errors: list[str]) -> FieldSet | None:
    result: FieldSet = {}
    properties = node.properties
    for key, child in value.items():
        element = f"f:{key}"
        below = properties.get(key)
        declared = below is not None
        if below is None:
            below = _open_child(node)
            if below is None:
                errors.append(f"{_render((path, element))}: field not declared in schema")
                continue
        fields = _fields(child, below, (path, element), errors)
        # Null and the empty map are values of their own, and so is any key the schema does not name.
        if child is None or child == {}:
            fields = MEMBER
        elif not declared:
            fields = with_self(fields)
        if fields is not None:
            result[element] = fields
    return result or None


def _fields_of_list(value: list[Any], node: Node, path: Path, errors: list[str]) -> FieldSet | None:
    result: FieldSet = {}
    for index, item in enumerate(value):
        element, problem = _element(item, node)
        if problem:
            errors.append(f"{_render(path)}: element {index}: {problem}")
        elif element in result:
            errors.append(f"{_render(path)}: duplicate entries for key {show(element)}")
        else:
            below = _fields(item, node.items or ANYTHING, (path, element), errors) if node.list_type == "map" else None
            result[element] = with_self(below)
    return result or None


def with_self(fields: FieldSet | None) -> FieldSet:
    """Return the node with its own element as a member."""
    if not fields:
        return MEMBER
    return fields if SELF in fields else {SELF: MEMBER, **fields}


def _open_child(node: Node) -> Node | None:
    """Return the node of a key that the schema does not name; None if it allows no such key."""
    if node.additional is not None:
        return node.additional
    return ANYTHING if node.preserve_unknown or node.type != "object" else None


def child_node(node: Node, key: str) -> Node:
    """Return the node of any key of a map; of one that the schema does not know, the node of anything."""
    return node.properties.get(key) or node.additional or ANYTHING


def _element(item: Value, node: Node) -> tuple[str, str]:
    """Return the path element of an item of a granular list, or what makes it impossible."""
    if node.list_type == "set":
        if isinstance(item, dict | list):
            return "", "associative list without keys has an element that is no scalar"
        return value_key(item), ""
    if item is None:
        return "", "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "", "associative list with keys may not have non-map elements"
    defaults = node.key_defaults
    keys = {}
    for name in node.map_keys:
        if name in item:
            keys[name] = item[name]
        elif name in defaults:
            keys[name] = defaults[name]
    if not keys and node.items is not None and node.items.struct:
        # A field of a Go struct that is always there: without a value it is empty, and so a key.
        keys = {name: "" for name in node.map_keys if name in node.items.required}
    if keys:
        return item_key(keys), ""
    names = " ".join(f'"{name}"' for name in node.map_keys)
    return "", (
        f"associative list with keys has an element that omits all key fields [{names}] "
        "(and doesn't have default values for any key fields)"
    )


def indexed(items: list[Any], node: Node) -> dict[str, Any]:
    """Return a granular list's items by path element, the first of duplicates. Items without a key go by index."""
    index: dict[str, Any] = {}
    for position, item in enumerate(items):
        element, problem = _element(item, node)
        index.setdefault(f"i:{position}" if problem else element, item)
    return index


def is_granular(value: Value, node: Node) -> bool:
    """Whether there are paths inside a value at this place."""
    if isinstance(value, dict):
        return node.map_type != "atomic"
    return isinstance(value, list) and node.list_type != "atomic"


_CLASSES: Final[dict[str, frozenset[type]]] = {
    "array": frozenset((list,)),
    "object": frozenset((dict,)),
    "string": frozenset((str,)),
    "integer": frozenset((int, float)),
    "number": frozenset((int, float)),
    "boolean": frozenset((bool,)),
    "int-or-string": frozenset((int, float, str, bool)),
    "quantity": frozenset((int, float, str, bool)),
}


def _mismatch(value: Value, wanted: str) -> str:
    match wanted:
        case "array":
            return f"expected list, got &{{{_go(value)}}}"
        case "object":
            return f"expected map, got &{{{_go(value)}}}"
        case "string":
            return f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
        case "boolean":
            return f"expected boolean, got &{{{_go(value)}}}"
        case "int-or-string" | "quantity":
            return f"expected any scalar, got &{{{_go(value)}}}"
    return f"expected numeric (int or float), got {_GO_TYPES[type(value)]}"


_GO_TYPES: Final[dict[type, str]] = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}


def _go(value: Value) -> str:
    """Print a value as Go's `%v` does."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_go(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_go, value)) + "]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _go_syntax(value: Value) -> str:
    """Print a value as Go's `%#v` does."""
    if isinstance(value, dict):
        items = ", ".join(f"{_go_syntax(key)}:{_go_syntax(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{items}}}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(map(_go_syntax, value)) + "}"
    if value is None:
        return "interface {}(nil)"
    return msgspec.json.encode(value).decode()


def _render(path: Path) -> str:
    text = ""
    while path is not None:
        path, element = path
        text = show(element) + text
    return text
