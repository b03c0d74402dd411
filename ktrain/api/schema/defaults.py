"""Filling in what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .node import MISSING, Node

if TYPE_CHECKING:
    from ..meta import Json, JsonValue


def fill(node: Node, value: JsonValue) -> JsonValue:
    """
    The value with defaults, from the top down: a default object lets its children's defaults in.

    A field is missing if its key is, or if it is null where null is no value. No object, no defaults inside it. Returns
    the value itself if there was nothing to fill in.
    """
    if not node.has_defaults:
        return value
    if type(value) is dict:
        return _fill_object(node, value)
    if type(value) is list and node.items is not None:
        filled = [fill(node.items, item) for item in value]
        return value if all(new is old for new, old in zip(filled, value, strict=True)) else filled
    return value


def _fill_object(node: Node, value: Json) -> Json:
    changed: Json = {}
    for key, child in node.properties.items():
        if child.default is MISSING and not child.has_defaults:
            continue
        item = value.get(key, MISSING)
        if item is MISSING or (item is None and not child.nullable):
            if child.default is not MISSING:
                changed[key] = fill(child, copy_json(child.default))
            continue
        filled = fill(child, item)
        if filled is not item:
            changed[key] = filled
    additional = node.additional
    if additional is not None and (additional.has_defaults or additional.default is not MISSING):
        for key, item in value.items():
            if key not in node.properties:
                absent = item is None and not additional.nullable and additional.default is not MISSING
                filled = fill(additional, copy_json(additional.default) if absent else item)
                if filled is not item:
                    changed[key] = filled
    return {**value, **changed} if changed else value


def copy_json(value: JsonValue) -> JsonValue:
    """A copy that shares nothing mutable."""
    if type(value) is dict:
        return {key: copy_json(item) for key, item in value.items()}
    if type(value) is list:
        return [copy_json(item) for item in value]
    return value
