"""
Checks an expression against the types of its variables before it ever runs.

What cannot be known (dyn) is let pass: the evaluator looks again. Source of the rules and texts: cel-go's checker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..patterns import compile_pattern
from . import library
from .errors import CelError, located
from .syntax import Call, Conditional, Ident, Index, ListOf, Literal, Logic, Macro, MapOf, Node, Select
from .types import BOOL, DYN, INT, NAMESPACES, STRING, Type, fields_of, fits, join, resolve, show
from .values import kind_of, parse_duration, parse_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_TYPE_NAMES: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "list", "map", "null_type"}
    | {"string", "timestamp", "type", "uint"}
)
_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "duration": parse_duration,
    "timestamp": parse_timestamp,
    "matches": compile_pattern,
}
_LISTS: Final = frozenset({"map", "filter", "transformList"})


def _is_readable(name: str, value: object) -> bool:
    """Whether a literal is what a function reads it as."""
    read = _READERS.get(name)
    if read is None or not isinstance(value, str):
        return True
    try:
        read(value)
    except (CelError, ValueError):
        return False
    return True


class Checker:
    """Checks one expression."""

    def __init__(self, source: str, variables: Mapping[str, Type]) -> None:
        self._found: dict[tuple[int, str], None] = {}
        self._source = source
        self._scope = dict(variables)

    @property
    def problems(self) -> list[str]:
        """Messages in the order of their places."""
        return [located(self._source, offset, text) for offset, text in sorted(self._found)]

    def check(self, node: Node) -> Type:  # noqa: PLR0911 - one for each kind of node
        """Return the type of a tree; dyn where something is wrong."""
        match node:
            case Literal():
                return (kind_of(node.value),)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Index():
                return self._index(node)
            case Call():
                return self._call(node)
            case Logic():
                for operand in node.operands:
                    self._want(BOOL, operand, node.operator, node)
                return BOOL
            case Conditional():
                self._want(BOOL, node.test, "_?_:_", node)
                return join(self.check(node.then), self.check(node.otherwise))
            case ListOf():
                types = [self._item(one, i in node.optional) for i, one in enumerate(node.items)]
                return ("list", self._joined(types, node.items))
            case MapOf():
                keys = self._joined([self.check(key) for key, _ in node.entries], [key for key, _ in node.entries])
                types = [self._item(value, i in node.optional) for i, (_, value) in enumerate(node.entries)]
                return ("map", keys, self._joined(types, [value for _, value in node.entries]))
            case Macro():
                return self._macro(node)
        raise AssertionError(node)

    def _problem(self, node: Node, text: str) -> Type:
        self._found[node.offset, text] = None
        return DYN

    def _ident(self, node: Ident) -> Type:
        found = self._scope.get(node.name)
        if found is not None:
            return found
        if node.name in _TYPE_NAMES:
            return ("type",)
        return self._problem(node, f"undeclared reference to '{node.name}' (in container '')")

    def _select(self, node: Select) -> Type:
        operand = self.check(node.operand)
        wrapped = operand[0] == "optional"
        inner = operand[1] if wrapped else operand
        found = self._field(node, inner)
        if node.test:
            return BOOL
        if wrapped or node.optional:
            return found if found[0] == "optional" else ("optional", found)
        return found

    def _field(self, node: Select, operand: Type) -> Type:
        if operand[0] == "object":
            found = fields_of(operand).get(node.field)
            return found if found is not None else self._problem(node, f"undefined field '{node.field}'")
        if operand[0] == "map":
            return operand[2] if len(operand) > 2 else DYN
        if operand == DYN:
            return DYN
        if node.field in library.FIELDS.get(operand[0], {}):
            return library.FIELDS[operand[0]][node.field]
        return self._problem(node, f"type '{show(operand)}' does not support field selection")

    def _index(self, node: Index) -> Type:
        operand, index = self.check(node.operand), self.check(node.index)
        wrapped = operand[0] == "optional"
        inner = operand[1] if wrapped else operand
        if inner[0] == "list" and index[0] in {"int", "uint", "double", "dyn"}:
            found = inner[1] if len(inner) > 1 else DYN
        elif inner[0] == "map" and fits(inner[1] if len(inner) > 1 else DYN, index, {}):
            found = inner[2] if len(inner) > 2 else DYN
        elif inner[0] in {"dyn", "object"}:
            found = DYN
        else:
            shown = f"({show(operand)}, {show(index)})"
            return self._problem(node, f"found no matching overload for '_[_]' applied to '{shown}'")
        return ("optional", found) if node.optional or wrapped else found

    def _call(self, node: Call) -> Type:
        target, name = node.target, node.name
        if isinstance(target, Ident) and target.name in NAMESPACES and target.name not in self._scope:
            name = f"{target.name}.{name}"
            target = None
        args = [self.check(one) for one in node.args]
        if node.args and isinstance(node.args[-1], Literal) and not _is_readable(name, node.args[-1].value):
            self._problem(node.args[-1], f"invalid {name} argument")
        operands = args if target is None else [self.check(target), *args]
        if name == "_?_:_":
            return DYN
        for signature in library.SIGNATURES.get((name, target is not None, len(args)), ()):
            bound: dict[str, Type] = {}
            wanted = signature.args if signature.target is None else (signature.target, *signature.args)
            if all(fits(one, given, bound) for one, given in zip(wanted, operands, strict=True)):
                return resolve(signature.result, bound)
        if not library.is_known(name):
            return self._problem(node, f"undeclared reference to '{name}' (in container '')")
        shown = ", ".join(show(one) for one in args)
        applied = f"({shown})" if target is None else f"{show(operands[0])}.({shown})"
        return self._problem(node, f"found no matching overload for '{name}' applied to '{applied}'")

    def _macro(self, node: Macro) -> Type:
        over = self.check(node.range)
        if node.name in {"optMap", "optFlatMap"}:
            inner = self._inside(node, ((over[1] if len(over) > 1 else DYN),))
            return inner[0] if node.name == "optFlatMap" else ("optional", inner[0])
        if over[0] not in {"list", "map", "object", "dyn"}:
            text = (
                f"expression of type '{show(over)}' cannot be range of a comprehension (must be list, map, or dynamic)"
            )
            return self._problem(node.range, text)
        bodies = self._inside(node, self._items(over, len(node.names)))
        if node.name not in _LISTS and node.name not in {"transformMap", "transformMapEntry"}:
            if not fits(BOOL, bodies[0], {}):
                self._problem(node, f"found no matching overload for '_&&_' applied to '(bool, {show(bodies[0])})'")
            return BOOL
        if node.name == "filter":
            return over if over[0] == "list" else ("list", DYN)
        if node.name in _LISTS:
            return ("list", bodies[-1])
        return ("map", over[1] if over[0] == "map" and len(over) > 1 else DYN, DYN)

    def _items(self, over: Type, count: int) -> tuple[Type, ...]:
        """Return the types of a comprehension's variables: items, or keys and indexes before them."""
        inside = over[1:] if over[0] in {"list", "map"} and len(over) > 1 else (DYN, DYN)
        if over[0] == "object":
            inside = (STRING, DYN)
        if over[0] == "list":
            return (inside[0],) if count == 1 else (INT, inside[0])
        return (inside[0],) if count == 1 else (inside[0], inside[1] if len(inside) > 1 else DYN)

    def _inside(self, node: Macro, types: tuple[Type, ...]) -> list[Type]:
        outer = self._scope
        self._scope = {**outer, **dict(zip(node.names, types, strict=True))}
        found = [self.check(body) for body in node.bodies]
        self._scope = outer
        return found

    def _want(self, wanted: Type, node: Node, operator: str, at: Node) -> None:
        given = self.check(node)
        if not fits(wanted, given, {}):
            shown = f"({show(given)}, bool)" if operator != "_?_:_" else f"({show(given)}, dyn, dyn)"
            self._problem(at, f"found no matching overload for '{operator}' applied to '{shown}'")

    def _item(self, node: Node, optional: bool) -> Type:  # noqa: FBT001 - of a set of indexes
        found = self.check(node)
        return (found[1] if len(found) > 1 else DYN) if optional and found[0] == "optional" else found

    def _joined(self, types: list[Type], nodes: Sequence[Node]) -> Type:
        """Return the one type that all parts of a literal must have."""
        found = types[0] if types else DYN
        for one, node in zip(types[1:], nodes[1:], strict=True):
            if join(found, one) == DYN and DYN not in (found, one):
                self._problem(node, f"expected type '{show(found)}' but found '{show(one)}'")
            found = join(found, one)
        return found
