"""How times and durations look in tables: `15s`, `7m1s`, `3h`, `2d4h`, `5y`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ktrain.api.meta import JsonValue

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY
_NAMES: Final = {1: "s", _MINUTE: "m", _HOUR: "h", _DAY: "d", _YEAR: "y"}

_FORMS: Final = (
    (2 * _MINUTE, 1, 0),
    (10 * _MINUTE, _MINUTE, 1),
    (3 * _HOUR, _MINUTE, 0),
    (8 * _HOUR, _HOUR, _MINUTE),
    (2 * _DAY, _HOUR, 0),
    (8 * _DAY, _DAY, _HOUR),
    (2 * _YEAR, _DAY, 0),
    (8 * _YEAR, _YEAR, _DAY),
    (float("inf"), _YEAR, 0),
)
"""Up to how many seconds a span is shown in which unit, and which finer one (0: none)."""


def parse_time(text: JsonValue) -> datetime | None:
    """Read an RFC 3339 time; None if it is none."""
    if not isinstance(text, str):
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def age(time: JsonValue, now: datetime) -> str:
    """Return how long ago a time was: `<unknown>` without one, `<invalid>` if it cannot be read or is to come."""
    if not time:
        return "<unknown>"
    when = parse_time(time)
    return "<invalid>" if when is None else duration(now - when)


def duration(span: timedelta) -> str:
    """Return a time span with at most two units, the finer one only while it matters."""
    # Cut towards zero, so that clocks that differ by less than two seconds show 0s.
    seconds = int(span.total_seconds())
    if seconds < -1:
        return "<invalid>"
    unit, finer = next((unit, finer) for below, unit, finer in _FORMS if seconds < below)
    whole, rest = divmod(max(seconds, 0), unit)
    rest = rest // finer if finer else 0
    return f"{whole}{_NAMES[unit]}{rest}{_NAMES[finer]}" if rest else f"{whole}{_NAMES[unit]}"
