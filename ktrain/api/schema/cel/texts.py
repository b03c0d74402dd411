"""Strings and lists: cel-go's extension of strings, and Kubernetes' functions of lists, sets and patterns."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import cmp_to_key
from itertools import pairwise
from typing import Final

from ..patterns import Pattern, compile_pattern
from .errors import CelError, no_overload
from .library import function
from .values import UInt, Value, before, equal, show

MAX_TEXT: Final = 10_000_000
"""Characters that one call may make."""
_DIRECTIVE: Final = re.compile(r"%(?:\.(\d{1,3}))?(.?)")


def _bounded(size: int) -> None:
    if size > MAX_TEXT:
        raise CelError("operation cancelled: actual cost limit exceeded")


@function("string.contains(string) -> bool")
def _contains(text: str, part: str) -> bool:
    return part in text


@function("string.startsWith(string) -> bool")
def _starts_with(text: str, part: str) -> bool:
    return text.startswith(part)


@function("string.endsWith(string) -> bool")
def _ends_with(text: str, part: str) -> bool:
    return text.endswith(part)


@function("string.charAt(int) -> string")
def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


@function("string.indexOf(string) -> int", "string.indexOf(string, int) -> int")
@function("list<A>.indexOf(A) -> int")
def _index_of(where: Value, what: Value, start: int = 0) -> int:
    if type(where) is list:
        return next((index for index, one in enumerate(where) if equal(one, what)), -1)
    if not 0 <= start <= len(where):
        raise CelError(f"index out of range: {start}")
    found: int = where.find(what, start)
    return found


@function("string.lastIndexOf(string) -> int", "string.lastIndexOf(string, int) -> int")
@function("list<A>.lastIndexOf(A) -> int")
def _last_index_of(where: Value, what: Value, end: int | None = None) -> int:
    if type(where) is list:
        return max((index for index, one in enumerate(where) if equal(one, what)), default=-1)
    found: int = where.rfind(what) if end is None else where.rfind(what, 0, end + len(what))
    return found


@function("string.lowerAscii() -> string")
def _lower(text: str) -> str:
    return "".join(char.lower() if char.isascii() else char for char in text)


@function("string.upperAscii() -> string")
def _upper(text: str) -> str:
    return "".join(char.upper() if char.isascii() else char for char in text)


@function("string.replace(string, string) -> string", "string.replace(string, string, int) -> string")
def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    count = text.count(old) if limit < 0 else min(text.count(old), limit)
    _bounded(len(text) + count * len(new))
    return text.replace(old, new, limit)


@function("string.split(string) -> list<string>", "string.split(string, int) -> list<string>")
def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        parts = list(text)
        return parts if limit < 0 or limit >= len(parts) else [*parts[: limit - 1], "".join(parts[limit - 1 :])]
    return text.split(separator, limit - 1 if limit > 0 else -1)


@function("list<string>.join() -> string", "list<string>.join(string) -> string")
def _join(items: list[str], separator: str = "") -> str:
    _bounded(sum(map(len, items)) + len(items) * len(separator))
    return separator.join(items)


@function("string.substring(int) -> string", "string.substring(int, int) -> string")
def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= len(text) or not 0 <= stop <= len(text):
        raise CelError(f"index out of range: {start if not 0 <= start <= len(text) else stop}")
    if start > stop:
        raise CelError(f"invalid substring range. start: {start}, end: {stop}")
    return text[start:stop]


@function("string.trim() -> string")
def _trim(text: str) -> str:
    return text.strip()


@function("string.reverse() -> string")
def _reverse(text: str) -> str:
    return text[::-1]


@function("string.matches(string) -> bool")
@function("matches(string, string) -> bool")
def _matches(text: str, pattern: str) -> bool:
    return _pattern(pattern).matches(text)


@function("string.find(string) -> string")
def _find(text: str, pattern: str) -> str:
    return next(iter(_pattern(pattern).find(text, 1)), "")


@function("string.findAll(string) -> list<string>", "string.findAll(string, int) -> list<string>")
def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return _pattern(pattern).find(text, limit)


def _pattern(pattern: str) -> Pattern:
    try:
        return compile_pattern(pattern)
    except ValueError as error:
        raise CelError(str(error)) from error


@function("string.format(list<A>) -> string")
def _format(template: str, values: list[Value]) -> str:
    rest = iter(values)

    def expand(match: re.Match[str]) -> str:
        precision, directive = match.groups()
        if directive == "%":
            return "%"
        try:
            value = next(rest)
        except StopIteration:
            raise CelError(f"index {len(values)} out of range") from None
        return _directive(directive, precision, value)

    return _DIRECTIVE.sub(expand, template)


def _directive(directive: str, precision: str | None, value: Value) -> str:
    kind = type(value)
    if directive == "s":
        return show(value)
    if directive == "d" and kind in {int, UInt}:
        return str(int(value))
    if directive in {"f", "e"} and kind in {float, int, UInt}:
        return f"{float(value):.{6 if precision is None else precision}{directive}}"
    if directive in {"b", "o", "x", "X"} and kind in {int, UInt}:
        return f"{int(value):{directive}}"
    if directive == "b" and kind is bool:
        return str(int(value))
    if directive in {"x", "X"} and kind in {str, bytes}:
        digits: str = (value.encode() if kind is str else value).hex()
        return digits.upper() if directive == "X" else digits
    raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{directive}"')


_SUMMED: Final = ("int", "uint", "double", "duration")
_ORDERED: Final = (*_SUMMED, "string", "bool", "timestamp", "bytes")


@function(*(f"list<{one}>.isSorted() -> bool" for one in _ORDERED))
def _is_sorted(items: list[Value]) -> bool:
    return not any(before(b, a) for a, b in pairwise(items))


@function(*(f"list<{one}>.sum() -> {one}" for one in _SUMMED))
def _sum(items: list[Value]) -> Value:
    if not items:
        return 0
    return sum(items[1:], items[0]) if type(items[0]) in {int, UInt, float, timedelta} else no_overload()


@function(*(f"list<{one}>.min() -> {one}" for one in _ORDERED))
def _min(items: list[Value]) -> Value:
    return _extreme(items, "min")


@function(*(f"list<{one}>.max() -> {one}" for one in _ORDERED))
def _max(items: list[Value]) -> Value:
    return _extreme(items, "max")


def _extreme(items: list[Value], name: str) -> Value:
    if not items:
        raise CelError(f"{name} called on empty list")
    order = cmp_to_key(lambda a, b: before(b, a) - before(a, b))
    return (min if name == "min" else max)(items, key=order)


@function("sets.contains(list<A>, list<A>) -> bool")
def _set_contains(items: list[Value], others: list[Value]) -> bool:
    _bounded(len(items) * len(others))
    return all(any(equal(one, other) for one in items) for other in others)


@function("sets.intersects(list<A>, list<A>) -> bool")
def _set_intersects(items: list[Value], others: list[Value]) -> bool:
    _bounded(len(items) * len(others))
    return any(equal(one, other) for one in items for other in others)


@function("sets.equivalent(list<A>, list<A>) -> bool")
def _set_equivalent(items: list[Value], others: list[Value]) -> bool:
    return bool(_set_contains(items, others)) and bool(_set_contains(others, items))
