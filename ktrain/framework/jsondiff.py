"""The JSON patch (RFC 6902) between two documents, as admission webhooks have to answer it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.api.patch import equal

if TYPE_CHECKING:
    from ktrain.api.meta import Json, JsonValue


def json_diff(old: JsonValue, new: JsonValue, path: str = "") -> list[Json]:
    """
    Return operations that turn `old` into `new`; empty if they are equal.

    Objects are compared key by key. A list that differs is replaced whole: shorter patches of lists depend on
    positions, which other webhooks may have moved.
    """
    if equal(old, new):
        return []
    if not isinstance(old, dict) or not isinstance(new, dict):
        return [{"op": "replace", "path": path, "value": new}]
    operations: list[Json] = [{"op": "remove", "path": f"{path}/{_escape(key)}"} for key in old if key not in new]
    for key, value in new.items():
        inner = f"{path}/{_escape(key)}"
        if key in old:
            operations += json_diff(old[key], value, inner)
        else:
            operations.append({"op": "add", "path": inner, "value": value})
    return operations


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
