"""One object against the schema of its kind, in words for the person who wrote the file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from ..schema.causes import show, type_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..meta import Json, JsonValue
    from ..schema import Cause, Node
    from .kinds import Kind, Kinds
    from .parse import Lines

_INDEX: Final = re.compile(r"\[(\d+)\]")
_SEARCH_DEPTH: Final = 3
_QUANTITIES: Final = frozenset({"int-or-string", "quantity"})
_PYTORCH_JOB: Final = ("kubeflow.org/v1", "PyTorchJob")
_MIGRATION: Final = (
    "write a TrainingRuntime and a TrainJob: docs/plugins/torch.md, Coming from PyTorchJob, has its fields"
)
_PLAIN_WORDS: Final = frozenset({"boolean", "integer", "number"})


class Finding(NamedTuple):
    """Something wrong at a path of the object, and its line (0: unknown)."""

    path: str
    text: str
    line: int


def check_object(obj: Json, lines: Lines | None, kinds: Kinds) -> list[Finding]:
    """All that is wrong with the object; of one of an unknown kind only that."""
    top = lines.line if lines else 0
    for key in ("apiVersion", "kind"):
        if not isinstance(obj.get(key), str) or not obj[key]:
            return [Finding(key, "missing; every object says its apiVersion and kind", top)]
    kind = kinds.get((obj["apiVersion"], obj["kind"]))
    if kind is None:
        line = lines.of.get("kind", 0) if lines else 0
        return [Finding("", _unknown_kind(obj["apiVersion"], obj["kind"], kinds), line)]
    return [*_name(obj, lines), *_fields(obj, lines, kind)]


def _unknown_kind(api_version: str, kind: str, kinds: Kinds) -> str:
    if (api_version, kind) == _PYTORCH_JOB:
        return f"unknown kind {kind!r} ({api_version}); {_MIGRATION}"
    versions = [version for version, name in kinds if name == kind]
    if versions:
        return f"there is no {kind} in {api_version}; did you mean apiVersion {_listed(versions)}?"
    similar = _nearest(kind, {name for _, name in kinds})
    hint = f'; did you mean "{similar}"?' if similar else ""
    return f"unknown kind {kind!r} ({api_version}){hint}"


def _name(obj: Json, lines: Lines | None) -> Iterator[Finding]:
    metadata = obj.get("metadata")
    if metadata is None or (isinstance(metadata, dict) and not (metadata.get("name") or metadata.get("generateName"))):
        line = (lines.of.get("metadata") or lines.line) if lines else 0
        yield Finding("metadata.name", "missing; every object has a name", line)


def _fields(obj: Json, lines: Lines | None, kind: Kind) -> Iterator[Finding]:
    schema = kind.schema
    if schema is None:
        return
    pruned, unknown = schema.prune(obj)
    for path in unknown:
        place = _locate(path, obj, lines, schema.root)
        yield Finding(path, f"unknown field{_hint(place)}", place.line)
    for cause in schema.validate_shape(pruned):
        if cause.field.startswith("status"):
            continue  # the server's own; it ignores what a file says
        place = _locate(cause.field, obj, lines, schema.root)
        yield Finding(cause.field, _plainly(cause, place), place.line)


class _Place(NamedTuple):
    """Where a path leads: the line, the value, its schema, the schema around it, and the last key."""

    line: int
    value: JsonValue
    node: Node | None
    parent: Node | None
    key: str


def _locate(path: str, obj: Json, lines: Lines | None, root: Node) -> _Place:
    """Follow a path as far as it goes. Keys may hold dots themselves (labels), so the data decide where a key ends."""
    place = _Place(lines.line if lines else 0, obj, root, None, "")
    here, rest = lines, path
    while rest:
        key = _step(rest, place.value)
        if key is None:
            return place._replace(value=None, parent=place.node, node=None, key=rest)
        rest = (rest[len(f"[{key}]") :] if isinstance(key, int) else rest[len(key) :]).removeprefix(".")
        node = place.node
        below = None
        if node is not None:
            below = node.items if isinstance(key, int) else node.child(key)
        line = here.of.get(key, place.line) if here else 0
        place = _Place(line, place.value[key], below, node, str(key))
        here = here.below.get(key) if here else None
    return place


def _step(rest: str, value: JsonValue) -> str | int | None:
    if isinstance(value, list):
        match = _INDEX.match(rest)
        return int(match[1]) if match and int(match[1]) < len(value) else None
    if isinstance(value, dict):
        fitting = [key for key in value if rest == key or rest.startswith((f"{key}.", f"{key}["))]
        return max(fitting, key=len, default=None)
    return None


def _hint(place: _Place) -> str:
    if place.parent is None:
        return ""
    names = list(place.parent.properties)
    similar = _nearest(place.key, names)
    if similar:
        return f'; did you mean "{similar}"?'
    elsewhere = _deeper(place.parent, place.key, _SEARCH_DEPTH)
    if elsewhere:
        return f'; did you mean "{elsewhere}"?'
    return f"; there are {_listed(sorted(names))}" if 0 < len(names) <= 12 else ""


def _nearest(name: str, candidates: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    by_lower = {candidate.lower(): candidate for candidate in candidates}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def _deeper(node: Node, name: str, depth: int) -> str | None:
    """The path of a field of this very name below the node: people forget the level between."""
    for key, child in node.properties.items():
        if key == name:
            return key
        found = _deeper(child, name, depth - 1) if depth > 1 else None
        if found:
            return f"{key}.{found}"
    return None


def _plainly(cause: Cause, place: _Place) -> str:
    if cause.reason == "FieldValueRequired":
        return "missing, but required"
    if cause.reason == "FieldValueTypeInvalid" and place.node is not None:
        expected = place.node.type.replace("int-or-string", "integer or string")
        found = type_name(place.value)
        if found != expected:
            hint = "; put it in quotes" if expected == "string" and found in _PLAIN_WORDS else ""
            return f"expected {expected}, found {found}{_shown(place.value)}{hint}"
        return f"expected {place.node.format}, found {show(place.value)}"
    if place.node is not None and place.node.pattern is not None and place.node.type in _QUANTITIES:
        return f"{show(place.value)} is not a quantity, like 2, 500m or 1.5Gi"
    return cause.message.replace(f"{cause.field} in body ", "")


def _shown(value: JsonValue) -> str:
    return f" {show(value)}" if isinstance(value, str | int | float) and len(show(value)) <= 60 else ""


def _listed(names: list[str]) -> str:
    return ", ".join(names)
