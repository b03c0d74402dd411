"""
Trees turned into functions of the variables, once; running them is calling Python.

Each function charges a budget for what loops and what grows, so an expression ends in bounded time and memory whatever
it says. Errors are values to `&&`, `||` and the quantifiers, as the specification wants: `false` beside an error is
`false` (`running.py`). Variables of comprehensions are written into the one mapping and taken out again.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Final

from . import library
from .errors import CelError, no_overload
from .macros import compile_macro
from .running import BUDGET, is_decided
from .syntax import Call, Conditional, Ident, Index, ListOf, Literal, Logic, Macro, MapOf, Node, Select
from .types import NAMESPACES
from .values import NONE, Optional, TypeValue, UInt, Value, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .running import Run, Variables

_TYPES: Final = {
    name: TypeValue(name)
    for name in ("bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "type", "uint")
} | {"duration": TypeValue("google.protobuf.Duration"), "timestamp": TypeValue("google.protobuf.Timestamp")}
_SIZED: Final = frozenset({str, bytes, list, dict})
_PLAIN: Final = frozenset({int, float, str, bool})
_COMPARISONS: Final[dict[str, Callable[[Value, Value], bool]]] = {
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_==_": operator.eq,
    "_!=_": operator.ne,
    "_>_": operator.gt,
    "_>=_": operator.ge,
}


def compile_tree(node: Node) -> Run:
    """Return a tree as a function of its variables. It raises CelError if it has no value for them."""
    return _compile(node)[0]


def _compile(node: Node) -> tuple[Run, int]:  # noqa: PLR0911 - one for each kind of node
    """Return the function, and how many steps it takes at least."""
    match node:
        case Literal():
            value = node.value
            return (lambda _: value), 1
        case Ident():
            return _ident(node), 1
        case Select():
            return _select(node)
        case Index():
            return _index(node)
        case Call():
            return _call(node)
        case Logic():
            return _logic(node)
        case Conditional():
            return _conditional(node)
        case ListOf():
            return _list(node)
        case MapOf():
            return _map(node)
        case Macro():
            return compile_macro(node, _compile)
    raise AssertionError(node)


def _ident(node: Ident) -> Run:
    name = node.name

    def run(variables: Variables) -> Value:
        try:
            return variables[name]
        except KeyError:
            if name in _TYPES:
                return _TYPES[name]
            raise CelError(f"no such attribute(s): {name}") from None

    return run


def _select(node: Select) -> tuple[Run, int]:
    operand, steps = _compile(node.operand)
    field = node.field
    wrap = node.optional

    def run(variables: Variables) -> Value:
        value = operand(variables)
        if type(value) is Optional:
            return _inside(value, field)
        if wrap:
            return Optional(value[field], present=True) if type(value) is dict and field in value else NONE
        if type(value) is not dict:
            # Values of opaque types may have fields of their own.
            of_opaque = getattr(value, "cel_field", None)
            return of_opaque(field) if of_opaque is not None else no_overload()
        try:
            return value[field]
        except KeyError:
            raise CelError(f"no such key: {field}") from None

    def test(variables: Variables) -> bool:
        value = operand(variables)
        if type(value) is Optional:
            return _inside(value, field).present
        if type(value) is not dict:
            no_overload()
        return field in value

    return (test if node.test else run), steps + 1


def _inside(value: Optional, key: Value) -> Optional:
    """Look into an optional: what is not there, or is in nothing, is nothing."""
    inner = value.value
    if type(inner) is dict and key in inner:
        return Optional(inner[key], present=True)
    if type(inner) is list and type(key) is int and 0 <= key < len(inner):
        return Optional(inner[key], present=True)
    return NONE


def _index(node: Index) -> tuple[Run, int]:
    operand, steps = _compile(node.operand)
    index, more = _compile(node.index)
    wrap = node.optional

    def run(variables: Variables) -> Value:
        value, key = operand(variables), index(variables)
        if type(value) is Optional:
            return _inside(value, key)
        if wrap:
            return _inside(Optional(value, present=True), key)
        if type(value) is dict:
            try:
                return value[key]
            except KeyError:
                raise CelError(f"no such key: {key}") from None
            except TypeError:
                no_overload()
        if type(value) is not list or type(key) not in {int, UInt, float} or key != int(key):
            no_overload()
        if not 0 <= key < len(value):
            raise CelError(f"index out of bounds: {int(key)}")
        return value[int(key)]

    return run, steps + more + 1


def _call(node: Call) -> tuple[Run, int]:
    if node.name in _COMPARISONS and node.target is None and len(node.args) == 2:
        return _comparison(node)
    target, name = node.target, node.name
    if isinstance(target, Ident) and target.name in NAMESPACES and library.is_known(f"{target.name}.{name}"):
        name = f"{target.name}.{name}"
        target = None
    compiled = [_compile(one) for one in ((*node.args,) if target is None else (target, *node.args))]
    operands = tuple(run for run, _ in compiled)
    steps = sum(cost for _, cost in compiled) + 1
    found = library.find(name, member=target is not None, count=len(node.args))
    fallback = found.get("*")

    def run(variables: Variables) -> Value:
        values = [operand(variables) for operand in operands]
        implementation = found.get(kind_of(values[0]), fallback) if values else fallback
        if implementation is None:
            no_overload()
        for value in values:
            if type(value) in _SIZED and len(value) > 10:
                variables[BUDGET].spend(len(value) // 10)
        try:
            result = implementation(*values)
        except (TypeError, AttributeError):
            no_overload()
        if type(result) in _SIZED and len(result) > 10:
            variables[BUDGET].spend(len(result) // 10)
        return result

    return run, steps


def _comparison(node: Call) -> tuple[Run, int]:
    """Compare: what most rules do. Numbers and texts of one type need no table."""
    (left, a), (right, b) = _compile(node.args[0]), _compile(node.args[1])
    quick = _COMPARISONS[node.name]
    found = library.find(node.name, member=False, count=2)
    fallback = found.get("*")

    def run(variables: Variables) -> Value:
        x, y = left(variables), right(variables)
        kind = type(x)
        if kind is type(y) and kind in _PLAIN:
            return quick(x, y)
        if kind in _SIZED and len(x) > 10:
            variables[BUDGET].spend(len(x) // 10)
        implementation = found.get(kind_of(x), fallback)
        return implementation(x, y) if implementation is not None else no_overload()

    return run, a + b + 1


def _logic(node: Logic) -> tuple[Run, int]:
    compiled = [_compile(one) for one in node.operands]
    operands = tuple(run for run, _ in compiled)
    decisive = node.operator == "_||_"

    def run(variables: Variables) -> bool:
        return is_decided(operands, variables, decisive=decisive) is decisive

    return run, sum(cost for _, cost in compiled) + 1


def _conditional(node: Conditional) -> tuple[Run, int]:
    (test, a), (then, b), (otherwise, c) = _compile(node.test), _compile(node.then), _compile(node.otherwise)

    def run(variables: Variables) -> Value:
        value = test(variables)
        if type(value) is not bool:
            no_overload()
        return then(variables) if value else otherwise(variables)

    return run, a + max(b, c) + 1


def _list(node: ListOf) -> tuple[Run, int]:
    compiled = [_compile(one) for one in node.items]
    optional = node.optional

    def run(variables: Variables) -> list[Value]:
        values = []
        for index, (item, _) in enumerate(compiled):
            value = item(variables)
            if index not in optional:
                values.append(value)
            elif type(value) is not Optional:
                no_overload()
            elif value.present:
                values.append(value.value)
        return values

    return run, sum(cost for _, cost in compiled) + 1


def _map(node: MapOf) -> tuple[Run, int]:
    compiled = [(_compile(key), _compile(value)) for key, value in node.entries]
    optional = node.optional

    def run(variables: Variables) -> dict[Value, Value]:
        found: dict[Value, Value] = {}
        for index, ((key_of, _), (value_of, _)) in enumerate(compiled):
            key, value = key_of(variables), value_of(variables)
            if type(key) not in {str, int, bool, UInt}:
                raise CelError("unsupported key type")
            if index in optional:
                if type(value) is not Optional:
                    no_overload()
                if not value.present:
                    continue
                value = value.value
            if key in found:
                raise CelError(f"Failed with repeated key: {key}")
            found[key] = value
        return found

    return run, sum(a[1] + b[1] for a, b in compiled) + 1
