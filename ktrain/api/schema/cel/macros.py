"""Comprehensions: what lists, maps and optionals do with an expression over their items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .errors import CelError, no_overload
from .running import BUDGET, is_decided
from .values import NONE, Optional, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .running import Run, Variables
    from .syntax import Macro, Node

    Compile = Callable[[Node], tuple[Run, int]]
    Body = Callable[[Variables, Iterator[None]], Value]


_TURN: Final = 3
"""Steps that a turn of a loop takes besides those of its body."""


def compile_macro(node: Macro, compile_: Compile) -> tuple[Run, int]:
    """Return a comprehension as a function, and how many steps it takes at least."""
    over, steps = compile_(node.range)
    compiled = [compile_(body) for body in node.bodies]
    bodies = tuple(run for run, _ in compiled)
    cost = sum(cost for _, cost in compiled) + _TURN
    if node.name in {"optMap", "optFlatMap"}:
        return _optional(node, over, bodies[0]), steps + cost
    body = _BODIES[node.name]
    names = node.names

    def run(variables: Variables) -> Value:
        items = over(variables)
        if type(items) not in {list, dict}:
            no_overload()
        outer = {name: variables[name] for name in names if name in variables}
        each = (
            _one_by_one(items, names[0], variables, cost) if len(names) == 1 else _pairs(items, names, variables, cost)
        )
        try:
            return body(variables, each, bodies)
        finally:
            for name in names:
                variables.pop(name, None)
            variables.update(outer)

    return run, steps + 1


def _one_by_one(items: Value, name: str, variables: Variables, cost: int) -> Iterator[Value]:
    """Yield each item, or each key of a map, when it is the variable's value."""
    spend = variables[BUDGET].spend
    for item in items:
        spend(cost)
        variables[name] = item
        yield item


def _pairs(items: Value, names: tuple[str, ...], variables: Variables, cost: int) -> Iterator[Value]:
    """Yield each index or key, when it and its value are the variables' values."""
    spend = variables[BUDGET].spend
    first, second = names
    for key, value in items.items() if type(items) is dict else enumerate(items):
        spend(cost)
        variables[first], variables[second] = key, value
        yield key


def _optional(node: Macro, over: Run, body: Run) -> Run:
    name, flat = node.names[0], node.name == "optFlatMap"

    def run(variables: Variables) -> Optional:
        value = over(variables)
        if type(value) is not Optional:
            no_overload()
        if not value.present:
            return NONE
        outer = {name: variables[name]} if name in variables else {}
        variables[name] = value.value
        try:
            result = body(variables)
        finally:
            variables.pop(name, None)
            variables.update(outer)
        if not flat:
            return Optional(result, present=True)
        if type(result) is not Optional:
            no_overload()
        return result

    return run


def _is_decided(variables: Variables, items: Iterator[Value], test: Run, *, decisive: bool) -> bool:
    # Taking the next item is what gives the variable its value: the same test is another question each time.
    return is_decided((test for _ in items), variables, decisive=decisive)


def _all(variables: Variables, items: Iterator[Value], bodies: tuple[Run, ...]) -> bool:
    return not _is_decided(variables, items, bodies[0], decisive=False)


def _exists(variables: Variables, items: Iterator[Value], bodies: tuple[Run, ...]) -> bool:
    return _is_decided(variables, items, bodies[0], decisive=True)


def _holds(variables: Variables, test: Run) -> bool:
    value = test(variables)
    if type(value) is not bool:
        no_overload()
    return value


def _exists_one(variables: Variables, items: Iterator[Value], bodies: tuple[Run, ...]) -> bool:
    return sum(_holds(variables, bodies[0]) for _ in items) == 1


def _filter(variables: Variables, items: Iterator[Value], bodies: tuple[Run, ...]) -> list[Value]:
    return [item for item in items if _holds(variables, bodies[0])]


def _map(variables: Variables, items: Iterator[Value], bodies: tuple[Run, ...]) -> list[Value]:
    *tests, body = bodies
    return [body(variables) for _ in items if all(_holds(variables, test) for test in tests)]


def _transform_map(variables: Variables, items: Iterator[Value], bodies: tuple[Run, ...]) -> dict[Value, Value]:
    *tests, body = bodies
    return {key: body(variables) for key in items if all(_holds(variables, test) for test in tests)}


def _transform_entry(variables: Variables, items: Iterator[Value], bodies: tuple[Run, ...]) -> dict[Value, Value]:
    *tests, body = bodies
    found: dict[Value, Value] = {}
    for _ in items:
        if all(_holds(variables, test) for test in tests):
            entry = body(variables)
            if type(entry) is not dict:
                no_overload()
            for key, value in entry.items():
                if key in found:
                    raise CelError(f"insert failed: key {key} already exists")
                found[key] = value
    return found


_BODIES = {
    "all": _all,
    "exists": _exists,
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "filter": _filter,
    "map": _map,
    "transformList": _map,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_entry,
}
