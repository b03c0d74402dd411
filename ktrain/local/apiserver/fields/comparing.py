"""
In which paths two objects differ: what an update claims, and what an apply may conflict about.

Identical subtrees are skipped by identity; merging shares what it leaves alone, so an apply that changes nothing costs
almost nothing to compare.

Source of the rules: `structured-merge-diff/typed` (compare.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ktrain.api.patch import equal
from ktrain.api.schema.node import ANYTHING, MISSING, Node
from ktrain.local.apiserver.fields.fieldset import EMPTY, MEMBER, FieldSet
from ktrain.local.apiserver.fields.typed import Value, child_node, indexed, is_granular, with_self

if TYPE_CHECKING:
    from ktrain.api.meta import Json


_CONTAINERS: Final = frozenset((dict, list))


class Comparison(NamedTuple):
    """Where a new value differs from an old one. What stands on one side only is listed with all below it."""

    added: FieldSet
    removed: FieldSet
    modified: FieldSet


def compare(old: Json, new: Json, schema: Node) -> Comparison:
    """Compare two objects."""
    if old is new:
        return Comparison(EMPTY, EMPTY, EMPTY)
    added: FieldSet = {}
    removed: FieldSet = {}
    modified: FieldSet = {}
    _compare_maps(old, new, schema, _Difference(added, removed, modified))
    return Comparison(added, removed, modified)


class _Difference(NamedTuple):
    """Where the differences of one container are collected."""

    added: FieldSet
    removed: FieldSet
    modified: FieldSet


def _compare_maps(old: Json, new: Json, node: Node, found: _Difference) -> None:
    for key, before in old.items():
        after = new.get(key, MISSING)
        if after is before:
            continue
        if after is MISSING:
            found.removed[f"f:{key}"] = _everything(before, child_node(node, key))
        else:
            _compare(before, after, child_node(node, key), f"f:{key}", found)
    for key, after in new.items():
        if key not in old:
            found.added[f"f:{key}"] = _everything(after, child_node(node, key))


def _compare_lists(old: list[Any], new: list[Any], node: Node, found: _Difference) -> None:
    item_node = node.items or ANYTHING
    befores, afters = indexed(old, node), indexed(new, node)
    for element, before in befores.items():
        after = afters.get(element, MISSING)
        if after is MISSING:
            found.removed[element] = _everything(before, item_node)
        elif node.list_type == "map" and after is not before:
            _compare(before, after, item_node, element, found)
    for element, after in afters.items():
        if element not in befores:
            found.added[element] = _everything(after, item_node)


def _compare(old: Value, new: Value, node: Node, element: str, found: _Difference) -> None:
    """Compare two values that stand at the same place, `element` of the container that `found` is about."""
    below = _Difference({}, {}, {})
    if isinstance(old, dict) and isinstance(new, dict) and node.map_type != "atomic":
        _compare_maps(old, new, node, below)
    elif isinstance(old, list) and isinstance(new, list) and node.list_type != "atomic":
        _compare_lists(old, new, node, below)
    elif not equal(old, new):
        found.modified[element] = MEMBER
        if is_granular(old, node) is not is_granular(new, node):
            below = _Difference(_inside(new, node), _inside(old, node), {})
    for collected, inside in zip(found[:2], below[:2], strict=True):
        if inside:
            collected[element] = inside
    if below.modified:
        found.modified[element] = below.modified


def _everything(value: Value, node: Node) -> FieldSet:
    """Return the paths of a value that is new or gone: its own and all below."""
    return with_self(_inside(value, node))


def _inside(value: Value, node: Node) -> FieldSet:
    if not is_granular(value, node):
        return EMPTY
    if isinstance(value, dict):
        # Most of a new object are scalars, and they cost no call here.
        properties, other = node.properties, node.additional or ANYTHING
        return {
            f"f:{key}": _everything(child, properties.get(key) or other) if type(child) in _CONTAINERS else MEMBER
            for key, child in value.items()
        }
    item_node = node.items or ANYTHING
    return {element: _everything(item, item_node) for element, item in indexed(value, node).items()}
