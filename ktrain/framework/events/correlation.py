"""
Which events are one: repeated, alike, or too many. The rules are client-go's, in memory of bounded size.

    same        everything equal: the event on the server becomes a series with a count (KEP-383). Silence of six
                minutes ends a series
    alike       equal but for the note: from the tenth within ten minutes on they are one event, whose note is that of
                the first of them behind a prefix. (The API forbids changing a note, so it cannot be the latest.)
    too many    new events about one object: a burst of 25, then one in five minutes. Repetitions cost nothing, as the
                series they belong to are written ever more rarely
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from ktrain.api.meta import Json, Key

K = TypeVar("K")
V = TypeVar("V")

KEPT: Final = 4096
"""Entries of each memory; the one untouched for longest goes first."""
SERIES_END_S: Final = 360.0
REFRESH_S: Final = 60.0
"""The second event of a series is written at once, later counts after this time, twice it, and so on, ..."""
REFRESH_MAX_S: Final = 1800.0
"""... up to this: the API server forgets an event that nobody touches for an hour."""
SIMILAR: Final = 10
SIMILAR_S: Final = 600.0
COMBINED: Final = "(combined from similar events): "
BURST: Final = 25
REFILL_S: Final = 300.0


class Subject(NamedTuple):
    """What makes two events the same; without the note, alike."""

    regarding: str
    related: str
    kind: str
    type: str
    reason: str
    action: str
    note: str


@dataclass(slots=True, eq=False)
class Series:
    """An event, how often it happened, and how much of that the server knows."""

    subject: Subject
    body: Json
    last_s: float
    observed: str
    """When it happened last, as the API writes it."""
    key: Key | None = None
    """Of the event on the server."""
    count: int = 1
    written: int = 0
    queued: bool = False
    _next_s: float = 0.0
    _wait_s: float = REFRESH_S

    def has_ended(self, now_s: float) -> bool:
        """Whether the next one begins a new series."""
        return now_s - self.last_s >= SERIES_END_S

    def again(self, now_s: float, observed: str) -> None:
        """Count one more."""
        self.count += 1
        self.last_s = now_s
        self.observed = observed

    def due_s(self) -> float:
        """When what the server does not know should be written."""
        return min(self._next_s, self.last_s + SERIES_END_S)

    def wrote(self, count: int, now_s: float) -> None:
        """Note that the server knows a count now."""
        self.written = count
        if count > 1:
            self._next_s = now_s + self._wait_s
            self._wait_s = min(2 * self._wait_s, REFRESH_MAX_S)


@dataclass(slots=True)
class _Alike:
    notes: set[str] = field(default_factory=set)
    last_s: float = 0.0


@dataclass(slots=True)
class _Budget:
    left: float
    since_s: float


class Correlation:
    """What was reported lately. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._series: OrderedDict[Subject, Series] = OrderedDict()
        self._alike: OrderedDict[Subject, _Alike] = OrderedDict()
        self._budgets: OrderedDict[str, _Budget] = OrderedDict()

    def combine(self, subject: Subject, now_s: float) -> tuple[Subject, str]:
        """Return what an event counts as, and its note: its own, or the common one of many alike."""
        alike = _touch(self._alike, subject._replace(note=""), _Alike())
        if now_s - alike.last_s > SIMILAR_S:
            alike.notes.clear()
        alike.last_s = now_s
        alike.notes.add(subject.note)
        if len(alike.notes) < SIMILAR:
            return subject, subject.note
        alike.notes.pop()  # which one does not matter: it is their number that counts, and it is bounded
        return subject._replace(note=COMBINED), COMBINED + subject.note

    def running(self, subject: Subject, now_s: float) -> Series | None:
        """Return the series that an event belongs to, if it has not ended."""
        series = self._series.get(subject)
        if series is None or series.has_ended(now_s):
            return None
        self._series.move_to_end(subject)
        return series

    def begin(self, series: Series) -> None:
        """Remember a series."""
        self._series.pop(series.subject, None)
        _touch(self._series, series.subject, series)

    def forget(self, series: Series) -> None:
        """Forget a series that never reached the server: the next event of the kind begins anew."""
        if self._series.get(series.subject) is series:
            del self._series[series.subject]

    def may_begin(self, regarding: str, now_s: float) -> bool:
        """Take one from an object's budget of new events, if there is one."""
        budget = _touch(self._budgets, regarding, _Budget(BURST, now_s))
        budget.left = min(BURST, budget.left + (now_s - budget.since_s) / REFILL_S)
        budget.since_s = now_s
        if budget.left < 1:
            return False
        budget.left -= 1
        return True


def _touch(memory: OrderedDict[K, V], key: K, new: V) -> V:
    """Find or add an entry, as the latest; the oldest goes when there are too many."""
    value = memory.setdefault(key, new)
    memory.move_to_end(key)
    if len(memory) > KEPT:
        memory.popitem(last=False)
    return value
