"""
What typed decoding makes of nulls inside the lists of built-in kinds, and of maps with nothing in them.

Go's decoder does not skip a null as an element of a list, as it does as the value of a field: `containers: [null]` is
one container without a name. So everything after decoding sees elements of the right type, or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ktrain.local.apiserver.store import encode

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.api.schema.node import Node

_ZERO: Final[dict[str, Any]] = {"string": "", "integer": 0, "number": 0, "int-or-string": 0, "boolean": False}


def typed(obj: Json, root: Node) -> Json:
    """
    Return a pruned object as Go's types would hold it; the object itself if it is the same.

    Null elements become zero values. Empty maps (of labels, data, quantities) vanish, as all of them are optional;
    empty structs (`emptyDir: {}`) stay, for their being there says something.
    """
    # Nearly no object has either, and the text tells it at a tenth of the cost of a walk.
    text = encode(obj)
    if b"null" in text:
        obj = _filled(obj, root)
    if b"{}" in text:
        obj = _without_empty_maps(obj, root)
    return obj


def _without_empty_maps(value: Any, node: Node | None) -> Any:  # noqa: ANN401 - any JSON value
    if node is None:
        return value
    if isinstance(value, dict):
        below = {name: node.properties.get(name, node.additional) for name in value}
        return {
            name: _without_empty_maps(child, below[name])
            for name, child in value.items()
            if child != {} or not _is_map(below[name])
        }
    if isinstance(value, list) and node.items is not None:
        return [_without_empty_maps(item, node.items) for item in value]
    return value


def _is_map(node: Node | None) -> bool:
    return node is not None and node.additional is not None and not node.properties


def _filled(value: Any, node: Node | None) -> Any:  # noqa: ANN401 - any JSON value
    if node is None:
        return value
    if isinstance(value, dict):
        return {name: _filled(child, node.properties.get(name, node.additional)) for name, child in value.items()}
    if isinstance(value, list) and node.items is not None:
        return [_zero(node.items) if item is None else _filled(item, node.items) for item in value]
    return value


def _zero(node: Node) -> Any:  # noqa: ANN401 - any JSON value
    return {} if node.type == "object" else _ZERO.get(node.type)
