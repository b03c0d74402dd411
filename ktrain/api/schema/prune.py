"""Cutting what the schema does not know, nulls where null is no value, and what typed encoding never shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .node import MISSING, Node

if TYPE_CHECKING:
    from ..meta import Json, JsonValue


def prune(node: Node, value: JsonValue, path: str, unknown: list[str], *, keep_nulls: bool) -> JsonValue:
    """
    The value without unknown fields, whose paths are appended to `unknown`; the value itself if nothing was cut.

    Empty values of built-in kinds go where Go's types say `omitempty`: `data: {}` of a ConfigMap is no data.

    Nulls of fields that are not nullable and have no default go as well, unless `keep_nulls`: server-side apply refuses
    them instead. What has another type than the schema says stays, for validation to report.
    """
    kind = type(value)
    if kind is dict:
        return _prune_object(node, value, path, unknown, keep_nulls)
    if kind is list and node.items is not None:
        return _prune_list(node.items, value, path, unknown, keep_nulls)
    return value


def _prune_object(node: Node, value: Json, path: str, unknown: list[str], keep_nulls: bool) -> Json:  # noqa: FBT001 -- hot path
    if node.type not in {"object", ""}:
        return value
    properties, additional = node.properties, node.additional
    changed: Json = {}
    for key, item in value.items():
        child = properties.get(key, additional)
        if child is None:
            if not node.preserve_unknown:
                unknown.append(f"{path}.{key}" if path else key)
                changed[key] = MISSING
        elif not item:
            if _vanishes(item, key, node, child, keep_nulls):
                changed[key] = MISSING
        elif type(item) is dict:
            pruned = _prune_object(child, item, f"{path}.{key}" if path else key, unknown, keep_nulls)
            if pruned is not item:
                # What is cut may leave nothing behind.
                changed[key] = pruned if pruned or key not in node.omit_empty else MISSING
        elif type(item) is list and child.items is not None:
            pruned_list = _prune_list(child.items, item, f"{path}.{key}" if path else key, unknown, keep_nulls)
            if pruned_list is not item:
                changed[key] = pruned_list
    if not changed:
        return value
    merged = {**value, **changed}
    return {key: item for key, item in merged.items() if item is not MISSING}


def _vanishes(item: JsonValue, key: str, node: Node, child: Node, keep_nulls: bool) -> bool:  # noqa: FBT001 -- hot path
    """Whether a null or an empty value is no value here."""
    if item is None:
        return not (keep_nulls or child.nullable or child.type == "" or child.default is not MISSING)
    return key in node.omit_empty


def _prune_list(node: Node, value: list[JsonValue], path: str, unknown: list[str], keep_nulls: bool) -> list[JsonValue]:  # noqa: FBT001 -- hot path
    if not (node.properties or node.items or node.additional or node.type == "object"):
        return value
    pruned = [prune(node, item, f"{path}[{index}]", unknown, keep_nulls=keep_nulls) for index, item in enumerate(value)]
    return value if all(new is old for new, old in zip(pruned, value, strict=True)) else pruned
