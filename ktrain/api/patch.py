"""
Merge patches (RFC 7386) and JSON patches (RFC 6902), and the smallest merge patch between two documents.

Inputs are never changed: a patched document is a new one that shares every unchanged part with the old. So the store
can keep both, and `is` tells which parts a patch left alone.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .meta import Json, JsonValue


MAX_COPIED: Final = 3 * 2**20
"""Bytes that the copy operations of one JSON patch may add together, as of a real API server."""

_encode: Final = msgspec.json.encode


class PatchError(ValueError):
    """A patch that does not apply to the document. The text says which operation and why."""


def equal(a: JsonValue, b: JsonValue) -> bool:
    """Whether two JSON values are the same. Unlike `==`, true is not 1; like it, 1 is 1.0."""
    if a is b:
        return True
    if isinstance(a, dict):
        if not isinstance(b, dict) or len(a) != len(b):
            return False
        return all(key in b and equal(value, b[key]) for key, value in a.items())
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b) and isinstance(a, bool) is isinstance(b, bool)


def merge_patch(doc: JsonValue, patch: JsonValue) -> JsonValue:
    """
    Apply a merge patch (RFC 7386): objects merge key by key, null removes a key, everything else replaces.

    A patch without effect gives back `doc` itself.
    """
    if not isinstance(patch, dict):
        return doc if equal(doc, patch) else patch
    base = doc if isinstance(doc, dict) else {}
    merged = dict(base)
    changed = base is not doc
    for key, value in patch.items():
        if value is None:
            changed |= merged.pop(key, _ABSENT) is not _ABSENT
            continue
        new = merge_patch(base.get(key), value)
        if key not in base or new is not base[key]:
            merged[key] = new
            changed = True
    return merged if changed else doc


def merge_diff(old: Json, new: Json) -> Json:
    """
    Return the smallest merge patch that turns `old` into `new`; empty if they are equal.

    A merge patch cannot write a null: `new` must not hold one, except inside lists.
    """
    patch: Json = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
            continue
        before = old[key]
        if isinstance(before, dict) and isinstance(value, dict):
            if below := merge_diff(before, value):
                patch[key] = below
        elif not equal(before, value):
            patch[key] = value
    return patch


def json_patch(doc: JsonValue, operations: Sequence[Json]) -> JsonValue:
    """
    Apply the operations of a JSON patch (RFC 6902) in order, all or none.

    Raises:
        PatchError: An operation is malformed, names a place that does not exist, or is a `test` that fails.
    """
    copied = 0
    for number, operation in enumerate(operations):
        try:
            copied = _count_copied(doc, operation, copied)
            doc = _operate(doc, operation)
        except PatchError as error:
            raise PatchError(f"operation {number}: {error}") from error
    return doc


def _count_copied(doc: JsonValue, operation: JsonValue, copied: int) -> int:
    """Add what the operation copies. Each copy can double a document, which costs nothing until it is written out."""
    if not isinstance(operation, dict) or operation.get("op") != "copy":
        return copied
    copied += len(_encode(_copied(doc, _pointer(operation, "from"))))
    if copied > MAX_COPIED:
        raise PatchError(f"the patch copies more than {MAX_COPIED} bytes")
    return copied


_ABSENT: Final[Any] = object()
_INDEX: Final = re.compile(r"[+-]?[0-9]{1,9}")


def _operate(doc: JsonValue, operation: JsonValue) -> JsonValue:
    if not isinstance(operation, dict):
        raise PatchError("an operation must be an object")
    path = _pointer(operation, "path")
    # To the API server, what is not given is null.
    value = operation.get("value")
    match operation.get("op"):
        case "add" if path:
            return _add(doc, path, value)
        case "replace":
            return _replace(doc, path, value)
        case "remove":
            return _remove(doc, path)
        case "test":
            return _test(doc, path, value)
        case "copy":
            return _add(doc, path, _copied(doc, _pointer(operation, "from")))
        case "move":
            return _move(doc, _pointer(operation, "from"), path)
        case other:
            raise PatchError(f"unknown op {other!r}: expected add, remove, replace, move, copy or test")


def _copied(doc: JsonValue, origin: list[str]) -> JsonValue:
    if not origin:
        raise PatchError("the whole document cannot be copied into itself")
    return _lookup(doc, origin)


def _lookup(doc: JsonValue, path: list[str]) -> JsonValue:
    """Return what is there. To the API server, not to the RFC, a member that an object does not have is null."""
    container = _get(doc, path[:-1])
    if path and isinstance(container, dict):
        return container.get(path[-1])
    return _get(doc, path)


def _move(doc: JsonValue, origin: list[str], path: list[str]) -> JsonValue:
    value = _get(doc, origin)
    if path == origin:
        return doc
    if path[: len(origin)] == origin:
        raise PatchError(f"cannot move {_show(origin)!r} into itself")
    return _add(_remove(doc, origin), path, value)


def _test(doc: JsonValue, path: list[str], value: JsonValue) -> JsonValue:
    if not equal(_lookup(doc, path), value):
        raise PatchError(f"test of {_show(path)!r} failed: the document has another value there")
    return doc


def _pointer(operation: Json, member: str) -> list[str]:
    """
    Split a JSON pointer (RFC 6901). The empty one is the whole document.

    What is before the first slash, where nothing should be, is passed over, as by the API server.
    """
    text = operation.get(member)
    if not isinstance(text, str) or (text and "/" not in text):
        raise PatchError(f"{member} must be a JSON pointer, not {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _show(path: list[str]) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)


def _get(doc: JsonValue, path: list[str]) -> JsonValue:
    for part in path:
        doc = doc[_member(doc, part)]
    return doc


def _member(container: JsonValue, part: str) -> JsonValue:
    """Return the key or index under which `part` exists in the container."""
    if isinstance(container, dict):
        if part in container:
            return part
    elif isinstance(container, list) and (index := _index(part, len(container))) is not None:
        return index
    raise PatchError(f"there is no {part!r} to go to")


def _index(part: str, length: int) -> int | None:
    """Read an index into a list, which may count from the end; None if it is none."""
    index = int(part) if _INDEX.fullmatch(part) else length
    return index % length if -length <= index < length else None


def _edit(doc: JsonValue, path: list[str], change: Callable[[JsonValue, str], None]) -> JsonValue:
    """Copy the containers along the path, which may be long, and let `change` work on the copy of the last one."""
    root = container = _shallow_copy(doc, path[0])
    for part, following in pairwise(path):
        member = _member(container, part)
        container[member] = _shallow_copy(container[member], following)
        container = container[member]
    change(container, path[-1])
    return root


def _shallow_copy(container: JsonValue, part: str) -> JsonValue:
    if not isinstance(container, dict | list):
        raise PatchError(f"there is no object or list that {part!r} could be in")
    return container.copy()


def _add(doc: JsonValue, path: list[str], value: JsonValue) -> JsonValue:
    def change(container: JsonValue, part: str) -> None:
        if isinstance(container, dict):
            container[part] = value
        elif part == "-":
            container.append(value)
        elif (index := _index(part, len(container) + 1)) is not None:
            container.insert(index, value)
        else:
            raise PatchError(f"{part!r} is no index to insert at: the list has {len(container)} items")

    return _edit(doc, path, change) if path else value


def _replace(doc: JsonValue, path: list[str], value: JsonValue) -> JsonValue:
    def change(container: JsonValue, part: str) -> None:
        # An object gets the member that it lacks, as from the API server.
        container[part if isinstance(container, dict) else _member(container, part)] = value

    return _edit(doc, path, change) if path else value


def _remove(doc: JsonValue, path: list[str]) -> JsonValue:
    def change(container: JsonValue, part: str) -> None:
        del container[_member(container, part)]

    if not path:
        raise PatchError("the whole document cannot be removed")
    return _edit(doc, path, change)
