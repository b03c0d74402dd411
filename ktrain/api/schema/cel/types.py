"""
Types, for checking expressions before they run.

A type is a tuple: its name, then what is inside: ("list", ("int",)). "dyn" fits everything. Single capitals are type
parameters, which only signatures of functions have. An object type carries its fields, by the names that CEL uses.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

Type = tuple[Any, ...]

DYN: Final[Type] = ("dyn",)
BOOL: Final[Type] = ("bool",)
INT: Final[Type] = ("int",)
STRING: Final[Type] = ("string",)
NULL: Final[Type] = ("null",)
_SIGNATURE: Final = re.compile(r"(?:(?P<target>[^()]+)\.)?(?P<name>[\w@!+*/%<>=\-]+)\((?P<args>.*)\) -> (?P<result>.+)")
_PART: Final = re.compile(r"[\w.]+|[<>,]")
_OPAQUE_NULL: Final = frozenset({"duration", "timestamp", "object", "optional"})


class Signature(NamedTuple):
    """What a function takes and gives. `target` is None for functions that are not called on anything."""

    name: str
    target: Type | None
    args: tuple[Type, ...]
    result: Type


def object_type(fields: Mapping[str, Type], name: str = "object") -> Type:
    """Return the type of an object with these fields and no others."""
    return ("object", name, _Fields(fields))


class _Fields:
    """Fields of an object, compared by identity: schemas can be large."""

    __slots__ = ("fields",)

    def __init__(self, fields: Mapping[str, Type]) -> None:
        self.fields = fields


def fields_of(kind: Type) -> Mapping[str, Type]:
    """Return the fields of an object type."""
    found: Mapping[str, Type] = kind[2].fields
    return found


def show(kind: Type) -> str:
    """Return a type as messages name it."""
    if kind[0] == "object":
        return str(kind[1])
    if kind[0] == "optional":
        return f"optional_type({show(kind[1])})"
    inside = ", ".join(show(one) for one in kind[1:])
    return f"{kind[0]}({inside})" if inside else str(kind[0])


def read_signature(text: str) -> Signature:
    """Read `list<A>.map(string) -> B`, `size(string) -> int`, `sets.contains(list<A>, list<A>) -> bool`."""
    match = _SIGNATURE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    target, name = match["target"], match["name"]
    if target in NAMESPACES:
        target, name = None, f"{target}.{name}"
    args = tuple(read_type(one) for one in _split(match["args"]))
    return Signature(name, read_type(target) if target else None, args, read_type(match["result"]))


NAMESPACES: Final = frozenset({"cidr", "format", "ip", "optional", "sets"})


def read_type(text: str) -> Type:
    """Read a type as signatures write it."""
    name, _, inside = text.strip().partition("<")
    return (name, *(read_type(one) for one in _split(inside[:-1]))) if inside else (name,)


def _split(text: str) -> list[str]:
    """Split at the commas that are not inside brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "<") - (char == ">")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return [part for part in parts if part.strip()]


def fits(wanted: Type, given: Type, bound: dict[str, Type]) -> bool:  # noqa: PLR0911 - one for each shape
    """Whether a value of type `given` may stand where `wanted` is; binds type parameters."""
    name = wanted[0]
    if len(name) == 1 and name.isupper():
        known = bound.get(name)
        if known is None or known == DYN:
            bound[name] = given
            return True
        return fits(known, given, bound)
    if DYN in (wanted, given):
        return True
    if given == NULL:
        return name in _OPAQUE_NULL or wanted == NULL
    if name == "map" and given[0] == "object":
        return fits(wanted[1], STRING, bound)
    if name != given[0]:
        return False
    if name == "object":
        return wanted[2] is given[2]
    return all(fits(one, other, bound) for one, other in zip(wanted[1:], given[1:], strict=False))


def resolve(kind: Type, bound: Mapping[str, Type]) -> Type:
    """Return a signature's type with its parameters filled in; unbound ones are dyn."""
    name = kind[0]
    if len(name) == 1 and name.isupper():
        return bound.get(name, DYN)
    return (name, *(resolve(one, bound) for one in kind[1:])) if len(kind) > 1 and name != "object" else kind


def join(a: Type, b: Type) -> Type:
    """Return a type for values of both: theirs if it is the same, else dyn."""
    if a == b:
        return a
    if a == NULL and b[0] in _OPAQUE_NULL:
        return b
    return a if b == NULL and a[0] in _OPAQUE_NULL else DYN
