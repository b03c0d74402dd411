"""Expressions as trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .values import Value


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A part of an expression; `offset` is where messages about it point."""

    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Node):
    """A constant."""

    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class Ident(Node):
    """A variable, or the name of a type."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Select(Node):
    """`operand.field`; with `optional`, `operand.?field`; with `test`, `has(operand.field)`."""

    operand: Node
    field: str
    optional: bool = False
    test: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Index(Node):
    """`operand[index]`, or `operand[?index]`."""

    operand: Node
    index: Node
    optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Call(Node):
    """`name(args)` or `target.name(args)`. Operators are calls of `_+_`, `!_` and the like."""

    name: str
    args: tuple[Node, ...]
    target: Node | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Logic(Node):
    """Operands joined by `&&` or `||`. One node for a whole chain, so that long chains are not deep."""

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Conditional(Node):
    """`test ? then : otherwise`."""

    test: Node
    then: Node
    otherwise: Node


@dataclass(frozen=True, slots=True, eq=False)
class ListOf(Node):
    """`[a, ?b]`; `optional` holds the indexes of items with a question mark."""

    items: tuple[Node, ...]
    optional: frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class MapOf(Node):
    """`{k: v, ?k: v}`."""

    entries: tuple[tuple[Node, Node], ...]
    optional: frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class Macro(Node):
    """`range.name(x, ..., body)`: `names` are the one or two variables, `bodies` the expressions over them."""

    name: str
    range: Node
    names: tuple[str, ...]
    bodies: tuple[Node, ...]
