"""Operators and functions of the CEL specification: arithmetic, comparison, conversion, time."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from .errors import CelError, no_overload
from .library import function
from .values import (
    NONE,
    Optional,
    TypeValue,
    UInt,
    Value,
    before,
    equal,
    kind_of,
    parse_duration,
    parse_timestamp,
    show,
)

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_INT: Final = range(-(2**63), 2**63)
_UINT: Final = range(2**64)
_NUMBERS: Final = frozenset({int, float, UInt})
_TIMES: Final = frozenset({timedelta, datetime})


def _whole(kind: type[int], value: int) -> int:
    if value not in (_UINT if kind is UInt else _INT):
        raise CelError("unsigned integer overflow" if kind is UInt else "integer overflow")
    return kind(value)


def _same_number(a: Value, b: Value) -> type[Any]:
    kind: type[Any] = type(a)
    if kind is not type(b) or kind not in _NUMBERS:
        no_overload()
    return kind


@function(
    "_+_(int, int) -> int",
    "_+_(uint, uint) -> uint",
    "_+_(double, double) -> double",
    "_+_(string, string) -> string",
    "_+_(bytes, bytes) -> bytes",
    "_+_(list<A>, list<A>) -> list<A>",
    "_+_(duration, duration) -> duration",
    "_+_(timestamp, duration) -> timestamp",
    "_+_(duration, timestamp) -> timestamp",
)
def _add(a: Value, b: Value) -> Value:
    kind = type(a)
    if kind in {str, bytes, list, float} and kind is type(b):
        return a + b
    if kind in _TIMES and type(b) in _TIMES:
        return _moment(lambda: a + b)
    return _whole(_same_number(a, b), a + b)


@function(
    "_-_(int, int) -> int",
    "_-_(uint, uint) -> uint",
    "_-_(double, double) -> double",
    "_-_(duration, duration) -> duration",
    "_-_(timestamp, duration) -> timestamp",
    "_-_(timestamp, timestamp) -> duration",
)
def _subtract(a: Value, b: Value) -> Value:
    if type(a) in _TIMES and type(b) in _TIMES:
        return _moment(lambda: a - b)
    kind = _same_number(a, b)
    return a - b if kind is float else _whole(kind, a - b)


def _moment(compute: Callable[[], T]) -> T:
    try:
        return compute()
    except OverflowError as error:
        raise CelError("timestamp overflow") from error


@function("_*_(int, int) -> int", "_*_(uint, uint) -> uint", "_*_(double, double) -> double")
def _multiply(a: Value, b: Value) -> Value:
    kind = _same_number(a, b)
    return a * b if kind is float else _whole(kind, a * b)


@function("_/_(int, int) -> int", "_/_(uint, uint) -> uint", "_/_(double, double) -> double")
def _divide(a: Value, b: Value) -> Value:
    kind = _same_number(a, b)
    if kind is float:
        return a / b if b else math.nan if not a or math.isnan(a) else math.copysign(math.inf, a)
    if b == 0:
        raise CelError("division by zero")
    # Toward zero, unlike Python.
    return _whole(kind, abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))


@function("_%_(int, int) -> int", "_%_(uint, uint) -> uint")
def _modulo(a: Value, b: Value) -> Value:
    kind = _same_number(a, b)
    if b == 0:
        raise CelError("modulus by zero")
    return kind(int(math.copysign(1, a)) * (abs(a) % abs(b))) if kind is not float else no_overload()


@function("-_(int) -> int", "-_(double) -> double")
def _negate(a: Value) -> Value:
    return -a if type(a) is float else _whole(int, -a)


@function("!_(bool) -> bool")
def _not(a: Value) -> bool:
    return not a if type(a) is bool else no_overload()


@function("_==_(A, A) -> bool")
def _equals(a: Value, b: Value) -> bool:
    return equal(a, b)


@function("_!=_(A, A) -> bool")
def _differs(a: Value, b: Value) -> bool:
    return not equal(a, b)


_ORDERED: Final = ("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint")
_PAIRS: Final = [(one, one) for one in _ORDERED] + [
    (a, b) for a in ("int", "uint", "double") for b in ("int", "uint", "double") if a != b
]


@function(*(f"_<_({a}, {b}) -> bool" for a, b in _PAIRS))
def _less(a: Value, b: Value) -> bool:
    return before(a, b)


@function(*(f"_<=_({a}, {b}) -> bool" for a, b in _PAIRS))
def _at_most(a: Value, b: Value) -> bool:
    return not before(b, a) and (before(a, b) or equal(a, b))


@function(*(f"_>_({a}, {b}) -> bool" for a, b in _PAIRS))
def _greater(a: Value, b: Value) -> bool:
    return before(b, a)


@function(*(f"_>=_({a}, {b}) -> bool" for a, b in _PAIRS))
def _at_least(a: Value, b: Value) -> bool:
    return not before(a, b) and (before(b, a) or equal(a, b))


@function("@in(A, list<A>) -> bool", "@in(A, map<A, B>) -> bool")
def _in(item: Value, container: Value) -> bool:
    if type(container) is dict:
        return kind_of(item) in {"string", "int", "uint", "bool", "double"} and item in container
    return any(equal(item, one) for one in container) if type(container) is list else no_overload()


@function("size(string) -> int", "size(bytes) -> int", "size(list<A>) -> int", "size(map<A, B>) -> int")
@function("string.size() -> int", "bytes.size() -> int", "list<A>.size() -> int", "map<A, B>.size() -> int")
def _size(value: Value) -> int:
    return len(value)


@function("type(A) -> type")
def _type(value: Value) -> TypeValue:
    names = {"null": "null_type", "duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}
    kind = kind_of(value)
    return TypeValue(names.get(kind, kind))


@function("dyn(A) -> dyn")
def _dyn(value: Value) -> Value:
    return value


@function(*(f"string({one}) -> string" for one in (*_ORDERED, "dyn")))
def _string(value: Value) -> str:
    if type(value) is bytes:
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise CelError("invalid UTF-8 in bytes, cannot convert to string") from error
    return show(value) if kind_of(value) in _ORDERED else no_overload()


def _unreadable(kind: str) -> NoReturn:
    raise CelError(f"type conversion error from 'string' to '{kind}'")


@function(*(f"int({one}) -> int" for one in ("int", "uint", "double", "string", "timestamp", "duration", "dyn")))
def _int(value: Value) -> int:
    if isinstance(value, str):
        digits = value.removeprefix("-").removeprefix("+")
        if not (digits.isascii() and digits.isdigit()) or len(value) - len(digits) > 1 or len(digits) > 20:
            _unreadable("int")
        return int(value) if int(value) in _INT else _unreadable("int")
    if isinstance(value, datetime):
        return math.floor(value.timestamp())
    if isinstance(value, timedelta):
        return int(value / timedelta(microseconds=1)) * 1000
    if type(value) is float and not math.isfinite(value):
        raise CelError("integer overflow")
    return _whole(int, int(value)) if type(value) in _NUMBERS else no_overload()


@function(*(f"uint({one}) -> uint" for one in ("int", "uint", "double", "string", "dyn")))
def _uint(value: Value) -> int:
    if isinstance(value, str):
        if not (value.isascii() and value.isdigit()) or len(value) > 20:
            _unreadable("uint")
        return _whole(UInt, int(value))
    if type(value) is float and not math.isfinite(value):
        raise CelError("unsigned integer overflow")
    return _whole(UInt, int(value)) if type(value) in _NUMBERS else no_overload()


@function(*(f"double({one}) -> double" for one in ("int", "uint", "double", "string", "dyn")))
def _double(value: Value) -> float:
    if isinstance(value, str):
        try:
            return float(value.replace("_", "?"))
        except ValueError:
            _unreadable("double")
    return float(value) if type(value) in _NUMBERS else no_overload()


@function("bool(bool) -> bool", "bool(string) -> bool", "bool(dyn) -> bool")
def _bool(value: Value) -> bool:
    if type(value) is bool:
        return value
    if value in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if value in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    return _unreadable("bool") if isinstance(value, str) else no_overload()


@function("bytes(string) -> bytes", "bytes(bytes) -> bytes", "bytes(dyn) -> bytes")
def _bytes(value: Value) -> bytes:
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else no_overload()


@function("duration(string) -> duration", "duration(duration) -> duration", "duration(dyn) -> duration")
def _duration(value: Value) -> timedelta:
    if isinstance(value, timedelta):
        return value
    return parse_duration(value) if isinstance(value, str) else no_overload()


@function(
    "timestamp(string) -> timestamp",
    "timestamp(timestamp) -> timestamp",
    "timestamp(int) -> timestamp",
    "timestamp(dyn) -> timestamp",
)
def _timestamp(value: Value) -> datetime:
    if isinstance(value, datetime):
        return value
    if type(value) is int:
        return _moment(lambda: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value))
    return parse_timestamp(value) if isinstance(value, str) else no_overload()


def _zone(name: str) -> tzinfo:
    sign, digits = name[:1], name[1:]
    if sign in {"+", "-"} or name[:1].isdigit():
        hours, _, minutes = (digits if sign in {"+", "-"} else name).partition(":")
        if hours.isdigit() and minutes.isdigit() and int(hours) < 24:
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            return timezone(-offset if sign == "-" else offset)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise CelError(f"unknown time zone {name}") from error


def _part(name: str, read: Callable[[datetime], int]) -> None:
    def get(value: datetime, zone: str = "UTC") -> int:
        return read(value.astimezone(_of(zone)))

    function(f"timestamp.{name}() -> int", f"timestamp.{name}(string) -> int")(get)


for _name, _read in (
    ("getFullYear", lambda t: t.year),
    ("getMonth", lambda t: t.month - 1),
    ("getDate", lambda t: t.day),
    ("getDayOfMonth", lambda t: t.day - 1),
    ("getDayOfWeek", lambda t: (t.weekday() + 1) % 7),
    ("getDayOfYear", lambda t: t.timetuple().tm_yday - 1),
):
    _part(_name, _read)


@function(*(f"{kind}.getHours() -> int" for kind in ("duration", "timestamp")), "timestamp.getHours(string) -> int")
def _hours(value: Value, zone: str = "UTC") -> int:
    return int(value.total_seconds() / 3600) if isinstance(value, timedelta) else value.astimezone(_of(zone)).hour


@function(*(f"{kind}.getMinutes() -> int" for kind in ("duration", "timestamp")), "timestamp.getMinutes(string) -> int")
def _minutes(value: Value, zone: str = "UTC") -> int:
    return int(value.total_seconds() / 60) if isinstance(value, timedelta) else value.astimezone(_of(zone)).minute


@function(*(f"{kind}.getSeconds() -> int" for kind in ("duration", "timestamp")), "timestamp.getSeconds(string) -> int")
def _seconds(value: Value, zone: str = "UTC") -> int:
    return int(value.total_seconds()) if isinstance(value, timedelta) else value.astimezone(_of(zone)).second


@function(*(f"{kind}.getMilliseconds() -> int" for kind in ("duration", "timestamp")))
def _milliseconds(value: Value) -> int:
    return (value.microseconds if isinstance(value, timedelta) else value.microsecond) // 1000


def _of(zone: str) -> tzinfo:
    return UTC if zone == "UTC" else _zone(zone)


@function("optional.of(A) -> optional<A>")
def _some(value: Value) -> Optional:
    return Optional(value, present=True)


@function("optional.ofNonZeroValue(A) -> optional<A>")
def _some_nonzero(value: Value) -> Optional:
    return Optional(value, present=True) if value or type(value) in {datetime} else NONE


@function("optional.none() -> optional<dyn>")
def _none() -> Optional:
    return NONE


@function("optional<A>.hasValue() -> bool")
def _has_value(value: Optional) -> bool:
    return value.present


@function("optional<A>.value() -> A")
def _value(value: Optional) -> Value:
    if not value.present:
        raise CelError("optional.none() dereference")
    return value.value


@function("optional<A>.orValue(A) -> A")
def _or_value(value: Optional, other: Value) -> Value:
    return value.value if value.present else other


@function("optional<A>.or(optional<A>) -> optional<A>")
def _or(value: Optional, other: Optional) -> Optional:
    return value if value.present else other
