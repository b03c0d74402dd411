"""A Job's status as it is written: whole, in one shape, so that what is stored and what is wanted can be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Condition, Json, format_time

from . import indexes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from .types import Job

_PROBE_TIME: Final = "lastProbeTime"
"""No probe was ever made; upstream writes the time of the transition."""


@dataclass(frozen=True, slots=True)
class Counters:
    """The numbers of a status."""

    active: int
    ready: int
    terminating: int
    succeeded: int
    failed: int
    completed_indexes: Iterable[int]
    failed_indexes: Iterable[int] | None
    uncounted_succeeded: Iterable[str] = ()
    uncounted_failed: Iterable[str] = ()


class Conditions:
    """A Job's conditions in the making; the list is atomic on the wire and written whole."""

    def __init__(self, job: Job, now: datetime) -> None:
        self._now = format_time(now)
        self.entries: list[Json] = [_stored(condition) for condition in job.status.conditions]

    def set(self, type_: str, status: str, reason: str, message: str) -> bool:
        """Set a condition and return whether that changed anything. One that never was is not set to False."""
        entry = _entry(type_, status, reason, message, self._now)
        for position, old in enumerate(self.entries):
            if old["type"] == type_:
                is_same = all(old[name] == entry[name] for name in ("status", "reason", "message"))
                if not is_same:
                    self.entries[position] = entry
                return not is_same
        if status != "False":
            self.entries.append(entry)
        return status != "False"


def build(counters: Counters, conditions: list[Json], started: datetime | None, *, is_indexed: bool) -> Json:
    """Write a status out."""
    uncounted: Json = {}
    for name, uids in (("succeeded", counters.uncounted_succeeded), ("failed", counters.uncounted_failed)):
        if found := list(uids):
            uncounted[name] = found
    status: Json = {"ready": counters.ready, "terminating": counters.terminating, "uncountedTerminatedPods": uncounted}
    for name in ("active", "succeeded", "failed"):
        if value := getattr(counters, name):
            status[name] = value
    if is_indexed and (completed := indexes.format_indexes(counters.completed_indexes)):
        status["completedIndexes"] = completed
    if counters.failed_indexes is not None:
        status["failedIndexes"] = indexes.format_indexes(counters.failed_indexes)
    if conditions:
        status["conditions"] = conditions
    if started is not None:
        status["startTime"] = format_time(started)
    for entry in conditions:
        if entry["type"] == "Complete":
            status["completionTime"] = entry["lastTransitionTime"]
    return status


def stored(job: Job) -> Json:
    """Write out the status as it is stored, in the shape of `build`."""
    old = job.status
    status: Json = {}
    if (recorded := old.uncounted_terminated_pods) is not None:
        uncounted = {"succeeded": list(recorded.succeeded), "failed": list(recorded.failed)}
        status["uncountedTerminatedPods"] = {name: uids for name, uids in uncounted.items() if uids}
    for name, count in (("ready", old.ready), ("terminating", old.terminating)):
        if count is not None:
            status[name] = count
    for name, value in (("active", old.active), ("succeeded", old.succeeded), ("failed", old.failed)):
        if value:
            status[name] = value
    if old.completed_indexes:
        status["completedIndexes"] = old.completed_indexes
    if old.failed_indexes is not None:
        status["failedIndexes"] = old.failed_indexes
    if old.conditions:
        status["conditions"] = [_stored(c) for c in old.conditions]
    for name, time in (("startTime", old.start_time), ("completionTime", old.completion_time)):
        if time is not None:
            status[name] = format_time(time)
    return status


def _stored(condition: Condition) -> Json:
    time = format_time(condition.last_transition_time) if condition.last_transition_time else None
    return _entry(condition.type, condition.status, condition.reason, condition.message, time)


def _entry(type_: str, status: str, reason: str, message: str, time: str | None) -> Json:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        _PROBE_TIME: time,
        "lastTransitionTime": time,
    }
