"""
Sets of field paths, as `metadata.managedFields[].fieldsV1` holds them, and the algebra that server-side apply needs.

A set *is* its wire form: nested dicts whose keys are path elements. Nothing has to be parsed or serialised on the way
from and to an object, and the operations are short walks over two dicts that share every unchanged branch.

    {"f:spec": {"f:image": {}, "f:ports": {'k:{"port":80}': {".": {}, "f:name": {}}}, "f:tags": {'v:"a"': {}}}}

An element with an empty node is in the set. One with children is in it only if it also holds `"."`. The root is never a
member, so an empty root is the empty set. Sets are never changed once made.

Format: KEP-555 and `structured-merge-diff/fieldpath` (serialize.go); keys of items are sorted, values are compact JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ktrain.api.meta import JsonValue

FieldSet: TypeAlias = "dict[str, FieldSet]"

EMPTY: Final[FieldSet] = {}
MEMBER: Final[FieldSet] = {}
"""The node of an element that is in the set and has nothing below it."""

SELF: Final = "."


class FieldSetError(ValueError):
    """A fieldsV1 that cannot be read."""


def item_key(keys: Mapping[str, JsonValue]) -> str:
    """Return the path element of a list item with these key values."""
    return "k:" + msgspec.json.encode(keys, order="sorted").decode()


def value_key(value: JsonValue) -> str:
    """Return the path element of a set's item."""
    return "v:" + msgspec.json.encode(value).decode()


def parse(wire: object) -> FieldSet:
    """
    Read a fieldsV1 that a client sent, into the canonical form.

    Raises:
        FieldSetError: It is no tree of path elements.
    """
    node = _parse(wire)
    return {key: child for key, child in node.items() if key != SELF}


def _parse(wire: object) -> FieldSet:
    if not isinstance(wire, dict):
        raise FieldSetError(f"expected an object of path elements, not {wire!r}")
    node: FieldSet = {}
    for key, child in wire.items():
        below = _parse(child)
        if key != SELF:
            node[_canonical(key)] = below
        elif below:
            raise FieldSetError("a member's own entry must be empty")
    if node and SELF in wire:
        node[SELF] = MEMBER
    return node


def _canonical(element: str) -> str:
    kind, text = element[:2], element[2:]
    if kind == "f:" and text:
        return element
    try:
        match kind:
            case "k:" if isinstance(keys := msgspec.json.decode(text), dict) and keys:
                return item_key(keys)
            case "v:":
                return value_key(msgspec.json.decode(text))
            case "i:":
                return f"i:{int(text)}"
    except ValueError as error:
        raise FieldSetError(f"bad path element {element!r}: {error}") from error
    raise FieldSetError(f"bad path element {element!r}: expected f:, k:, v: or i:")


def is_member(node: FieldSet | None) -> bool:
    """Whether the element that leads to this node is in the set."""
    return node is not None and (not node or SELF in node)


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return what is in either set."""
    if not a:
        return b
    return _union(a, b) if b else a


def _union(a: FieldSet, b: FieldSet) -> FieldSet:
    if a is b:
        return a
    if not a:
        return a if not b else b if SELF in b else {SELF: MEMBER, **b}
    if not b:
        return a if SELF in a else {SELF: MEMBER, **a}
    result = a
    for key, node in b.items():
        mine = a.get(key)
        merged = node if mine is None else _union(mine, node)
        if merged is not mine:
            if result is a:
                result = dict(a)
            result[key] = merged
    return result


def difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return what is in `a` but not in `b`; `a` itself if they have nothing in common."""
    return _difference(a, b) or EMPTY if a and b else a


def _difference(a: FieldSet, b: FieldSet) -> FieldSet | None:
    """Like `difference`, on nodes; None if nothing is left."""
    if not b:
        left = {key: node for key, node in a.items() if key != SELF}
        return (left if SELF in a else a) if left else None
    if not a:
        return None if SELF in b else a
    result = a
    for key, node in b.items():
        mine = a.get(key)
        if mine is None:
            continue
        left_over = None if key == SELF else _difference(mine, node)
        if left_over is mine:
            continue
        if result is a:
            result = dict(a)
        if left_over is None:
            del result[key]
        else:
            result[key] = left_over
    if result is a:
        return a
    if len(result) == 1 and SELF in result:
        return MEMBER
    return result or None


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return what is in both sets."""
    return _intersection(a, b) or EMPTY if a and b else EMPTY


def _intersection(a: FieldSet, b: FieldSet) -> FieldSet | None:
    member = is_member(a) and is_member(b)
    small, large = (a, b) if len(a) <= len(b) else (b, a)
    result: FieldSet = {}
    for key, node in small.items():
        other = large.get(key)
        if other is not None and key != SELF:
            below = _intersection(node, other)
            if below is not None:
                result[key] = below
    if result:
        return {SELF: MEMBER, **result} if member else result
    return MEMBER if member else None


def without_branches(fields: FieldSet, names: Iterable[str]) -> FieldSet:
    """Return the set without these top-level fields and all that is below them."""
    elements = {f"f:{name}" for name in names}
    if elements.isdisjoint(fields):
        return fields
    return {key: node for key, node in fields.items() if key not in elements}


def paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """Yield the members as conflicts print them (`.spec.ports[port=80].name`): each node's members first."""
    ordered = sorted(item for item in fields.items() if item[0] != SELF)
    shown = [(prefix + show(key), node) for key, node in ordered]
    for path, node in shown:
        if is_member(node):
            yield path
    for path, node in shown:
        yield from paths(node, path)


def show(element: str) -> str:
    """Return a path element as conflicts and typing errors print it."""
    kind, text = element[:2], element[2:]
    match kind:
        case "f:":
            return f".{text}"
        case "k:":
            keys = msgspec.json.decode(text)
            return "[" + ",".join(f"{name}={_scalar(value)}" for name, value in keys.items()) + "]"
        case "v:":
            return f"[={text}]"
    return f"[{text}]"


def _scalar(value: JsonValue) -> str:
    return msgspec.json.encode(value).decode()
