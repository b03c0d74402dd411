"""
CEL's values as Python has them, and what it means that they are equal, ordered or printed.

null, bool, int, double, string, bytes, list and map are None, bool, int, float, str, bytes, list and dict; duration and
timestamp are timedelta and datetime. The rest are classes here. Nothing is copied on the way in: expressions read the
objects of a request as they are, and cannot change them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from .errors import CelError, no_overload

if TYPE_CHECKING:
    from collections.abc import Callable, Container

_DURATION_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION: Final = re.compile(rf"[-+]?(0|({_DURATION_PART.pattern})+)")
_UNITS_S: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")

Value: TypeAlias = Any
"""A value of CEL, of the types above: an expression that was not checked may have any of them anywhere."""


class UInt(int):
    """An unsigned integer: another type than int, equal to one of the same value."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may not be there."""

    value: Value = None
    present: bool = False


NONE: Final = Optional()


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type, as `type(x)` gives it."""

    name: str


class LazyMap:
    """Named values that are computed when first read."""

    __slots__ = ("_compute", "_known", "names")

    def __init__(self, compute: Callable[[str], Value], names: Container[str]) -> None:
        self._compute = compute
        self._known: dict[str, Value] = {}
        self.names = names

    def cel_field(self, name: str) -> Value:
        """
        Return a value; it is computed once.

        Raises:
            CelError: There is no such name, or its value cannot be computed.
        """
        if name not in self.names:
            raise CelError(f"no such key: {name}")
        if name not in self._known:
            self._known[name] = self._compute(name)
        return self._known[name]


KINDS: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null",
    list: "list",
    tuple: "list",
    dict: "map",
    timedelta: "duration",
    datetime: "timestamp",
    Optional: "optional",
    TypeValue: "type",
}
"""By Python type; functions of opaque types add theirs."""


def kind_of(value: object) -> str:
    """Return the name of a value's type, without what is inside."""
    return KINDS.get(type(value), "dyn")


_NUMBERS: Final = frozenset({int, float, UInt})


def equal(a: Value, b: Value) -> bool:
    """Whether two values are equal: numbers across their types, nothing else across types."""
    kind, other = type(a), type(b)
    if kind is dict and other is dict:
        return len(a) == len(b) and all(key in b and equal(value, b[key]) for key, value in a.items())
    if kind is list and other is list:
        return len(a) == len(b) and all(map(equal, a, b))
    if kind is Optional and other is Optional:
        return a.present is b.present and equal(a.value, b.value)
    return (kind is other or (kind in _NUMBERS and other in _NUMBERS)) and bool(a == b)


def before(a: Value, b: Value) -> bool:
    """
    Whether a value is less than another.

    Raises:
        CelError: They have no order.
    """
    kind, other = type(a), type(b)
    if (kind is other and kind not in _UNORDERED) or (kind in _NUMBERS and other in _NUMBERS):
        return bool(a < b)
    return no_overload()


_UNORDERED: Final = frozenset({dict, list, type(None), TypeValue, Optional})


def show(value: Value) -> str:  # noqa: PLR0911 - any value, each kind in its way
    """Return a value as `string()` and `%s` print it."""
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return format_double(value)
    if value is None:
        return "null"
    if kind is list:
        return "[" + ", ".join(map(show, value)) + "]"
    if kind is dict:
        return "{" + ", ".join(f"{show(key)}: {show(value[key])}" for key in sorted(value, key=show)) + "}"
    if kind is bytes:
        return str(value.decode("utf-8", "replace"))
    if kind is timedelta:
        return f"{format_double(value.total_seconds())}s"
    if kind is datetime:
        return show_time(value)
    return value.name if kind is TypeValue else str(value)


def format_double(value: float) -> str:
    """Return a double as Go prints it: no `.0`, exponents beyond 21 digits."""
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value).replace("inf", "+Inf" if value > 0 else "Inf").replace("nan", "NaN")


def show_time(value: datetime) -> str:
    """Return a timestamp as RFC 3339 in UTC, with as many digits as it needs."""
    utc = value.astimezone(UTC)
    fraction = f".{utc.microsecond:06d}".rstrip("0") if utc.microsecond else ""
    return utc.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"


def parse_duration(text: str) -> timedelta:
    """
    Read a duration as Go writes it: `1h30m`.

    Raises:
        CelError: It is none.
    """
    if not _DURATION.fullmatch(text):
        raise CelError("type conversion error from 'string' to 'google.protobuf.Duration'")
    seconds = sum(float(number) * _UNITS_S[unit] for number, unit in _DURATION_PART.findall(text))
    try:
        return timedelta(seconds=-seconds if text.startswith("-") else seconds)
    except OverflowError as error:
        raise CelError("duration out of range") from error


def parse_timestamp(text: str) -> datetime:
    """
    Read an RFC 3339 time.

    Raises:
        CelError: It is none.
    """
    if _TIMESTAMP.fullmatch(text):
        whole = re.sub(r"(\.\d{6})\d+", r"\1", text.upper())
        try:
            return datetime.fromisoformat(whole)
        except ValueError:
            pass  # A day or an hour that does not exist: refused as everything else that is no time.
    raise CelError("type conversion error from 'string' to 'google.protobuf.Timestamp'")
