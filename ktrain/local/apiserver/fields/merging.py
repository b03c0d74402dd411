"""
How a configuration merges into the live object, and what goes when an applier stops naming it.

Both share unchanged parts with the live object and give it back whole if nothing changes.

Source of the rules: KEP-555 and `structured-merge-diff` (typed/merge.go, typed/remove.go, merge/update.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ktrain.api.patch import equal
from ktrain.api.schema.node import ANYTHING, MISSING, Node
from ktrain.local.apiserver.fields.fieldset import EMPTY, SELF, FieldSet, is_member
from ktrain.local.apiserver.fields.typed import Value, child_node, indexed

if TYPE_CHECKING:
    from ktrain.api.meta import Json


def merge(live: Value, config: Value, node: Node) -> Value:
    """
    Merge an applied configuration into the live value. The live value itself comes back if that changes nothing.

    Maps merge key by key and granular lists item by item; everything else is replaced.
    """
    if isinstance(live, dict) and live and node.map_type != "atomic":
        if config is None:
            return live
        if isinstance(config, dict):
            return _merge_maps(live, config, node)
    if isinstance(live, list) and live and node.list_type != "atomic":
        if config is None:
            return live
        if isinstance(config, list):
            return _merge_lists(live, config, node)
    return live if equal(live, config) else config


def _merge_maps(live: Json, config: Json, node: Node) -> Json:
    result = live
    for key, value in config.items():
        before = live.get(key, MISSING)
        merged = value if before is MISSING else merge(before, value, child_node(node, key))
        if merged is not before:
            if result is live:
                result = dict(live)
            result[key] = merged
    return result


def _merge_lists(live: list[Any], config: list[Any], node: Node) -> list[Any]:
    """
    Merge two granular lists: in the configuration's order where it has an opinion.

    Live-only items keep their place before the next shared item; a shared item that stands elsewhere in the
    configuration moves there.
    """
    ours, theirs = indexed(live, node), indexed(config, node)
    item_node = node.items or ANYTHING
    order = _merged_order(list(ours), list(theirs))
    merged = []
    for element in order:
        if element not in theirs:
            merged.append(ours[element])
        elif element not in ours:
            merged.append(theirs[element])
        else:
            merged.append(merge(ours[element], theirs[element], item_node))
    if len(merged) == len(live) and all(a is b for a, b in zip(merged, live, strict=True)):
        return live
    return merged


def _merged_order(live: list[str], config: list[str]) -> list[str]:
    mine, wanted = set(live), set(config)
    order: list[str] = []
    done = 0
    shared = iter([element for element in config if element in mine])
    awaited = next(shared, None)
    for element in live:
        if element not in wanted:
            order.append(element)
        elif element == awaited:
            upto = config.index(element, done) + 1
            order += config[done:upto]
            done = upto
            awaited = next(shared, None)
    return order + config[done:]


def prune(merged: Json, config: Json, schema: Node, *, dropped: FieldSet, managed: FieldSet) -> Json:
    """
    Remove what the applier named last time and not now (`dropped`), save what is in `managed`, the union of all sets.

    A field of a struct counts as managed as long as something below it is; a list item or a free key only by itself.
    What goes takes along what nobody owned inside it: a probe's defaults go with the probe. A container that this
    empties goes, too, unless the configuration holds it or somebody owns it by itself.
    """
    pruned: Json = _prune_map(merged, config, schema, dropped, managed)
    return pruned


def _prune_map(value: Json, config: Value, node: Node, dropped: FieldSet, managed: FieldSet) -> Json:
    result = dict(value)
    wanted = config if isinstance(config, dict) else {}
    for element, below in dropped.items():
        key = element[2:]
        if key not in result or element == SELF:
            continue
        owned = managed.get(element)
        # A declared field counts as named, on both sides, when something below it is. What the configuration holds
        # stays, though an empty list in it names nothing.
        is_field = key in node.properties
        left = MISSING
        if is_member(owned) or (is_field and owned) or key in wanted or not (is_field or is_member(below)):
            left = _prune_inside(result[key], wanted.get(key, MISSING), child_node(node, key), below, owned)
        if left is MISSING:
            del result[key]
        else:
            result[key] = left
    return result


def _prune_list(value: list[Any], config: Value, node: Node, dropped: FieldSet, managed: FieldSet) -> list[Any]:
    wanted = indexed(config, node) if isinstance(config, list) else {}
    item_node = node.items or ANYTHING
    result = []
    for element, item in indexed(value, node).items():
        below = dropped.get(element)
        owned = managed.get(element)
        if below is None:
            result.append(item)
        elif is_member(owned) or not is_member(below):
            left = _prune_inside(item, wanted.get(element, MISSING), item_node, below, owned)
            if left is not MISSING:
                result.append(left)
    return result


def _prune_inside(value: Value, config: Value, node: Node, dropped: FieldSet, owned: FieldSet | None) -> Value:
    """Return what is left of a value that stays by itself; MISSING if it got empty and nobody asked for it empty."""
    if isinstance(value, dict):
        left: Value = _prune_map(value, config, node, dropped, owned or EMPTY)
    elif isinstance(value, list):
        left = _prune_list(value, config, node, dropped, owned or EMPTY)
    else:
        return value
    return left if left or not value or config is not MISSING or is_member(owned) else MISSING
