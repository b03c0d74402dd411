"""
What a Job's status may not say, and which of its transitions are impossible (checked upstream since 1.31).

Most rules look only at a write that changes what they are about: a status that became wrong by a change of the spec
must not keep the controller from putting it right. Source: `validateJobStatus` and `getStatusValidationOptions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.schema import Cause
from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins.values import indexes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json

_COUNTS: Final = ("active", "succeeded", "failed", "ready", "terminating")
_FINISHED: Final = frozenset(("Complete", "Failed"))


def validate(job: Json, old: Json) -> list[Cause]:
    """Return what is wrong with a write to a Job's status, in the server's order."""
    return [*_Write(job, old).causes()]


class _Write:
    """One write: the status before and after, and what it changes."""

    def __init__(self, job: Json, old: Json) -> None:
        self._spec: Json = job["spec"]
        self._status: Json = job.get("status") or {}
        self._before: Json = old.get("status") or {}
        self._on = _conditions(self._status, "True")
        self._was = _conditions(self._before, "True")

    def causes(self) -> Iterator[Cause]:
        for name in _COUNTS:
            yield from causes.non_negative(f"status.{name}", self._status.get(name))
        yield from self._uncounted()
        yield from self._completion()
        yield from self._finished()
        yield from self._indexes()
        yield from self._numbers()
        yield from self._conflicting()
        yield from self._transition()

    def _changes(self, *names: str) -> bool:
        return any(_value(self._status, name) != _value(self._before, name) for name in names)

    def _toggles(self, *types: str) -> bool:
        return any((type_ in self._on) != (type_ in self._was) for type_ in types)

    @property
    def _is_finished(self) -> bool:
        return bool(self._on & _FINISHED)

    @property
    def _finishes(self) -> bool:
        return self._is_finished != bool(self._was & _FINISHED)

    def _uncounted(self) -> Iterator[Cause]:
        seen: set[str] = set()
        for part in ("succeeded", "failed"):
            for index, uid in enumerate((self._status.get("uncountedTerminatedPods") or {}).get(part) or ()):
                field = f"status.uncountedTerminatedPods.{part}[{index}]"
                if not uid:
                    yield causes.invalid(field, uid, "must not be empty")
                elif uid in seen:
                    yield causes.duplicate(field, uid)
                seen.add(uid)

    def _completion(self) -> Iterator[Cause]:
        time, started = self._status.get("completionTime"), self._status.get("startTime")
        if {"Complete", "Failed"} <= self._on and self._toggles("Complete", "Failed"):
            yield _refuse("cannot set Complete=True and Failed=true conditions")
        if {"Complete", "FailureTarget"} <= self._on and self._toggles("Complete", "FailureTarget"):
            yield _refuse("cannot set Complete=True and FailureTarget=true conditions")
        if self._toggles("Complete") or self._changes("completionTime"):
            if time is not None and "Complete" not in self._on:
                detail = "cannot set completionTime when there is no Complete=True condition"
                yield causes.invalid("status.completionTime", time, detail)
            if time is None and "Complete" in self._on:
                yield causes.required("status.completionTime", "completionTime is required for Complete jobs")
        # RFC 3339 in one form and one zone: the text sorts as the time does.
        if self._changes("startTime", "completionTime") and time and started and time < started:
            yield causes.invalid("status.completionTime", time, "must be equal to or after `startTime`")
        if (self._toggles("Failed") or self._changes("failedIndexes")) and _lacks(self._on, "Failed", "FailureTarget"):
            yield _refuse("cannot set Failed=True condition without the FailureTarget=true condition")
        if self._toggles("Complete", "SuccessCriteriaMet") and _lacks(self._on, "Complete", "SuccessCriteriaMet"):
            yield _refuse("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")

    def _finished(self) -> Iterator[Cause]:
        if not self._is_finished:
            return
        if (self._finishes or self._changes("active")) and self._status.get("active", 0) > 0:
            yield causes.invalid("status.active", self._status["active"], "active>0 is invalid for finished job")
        never_started = self._spec.get("suspend") and self._spec.get("completions") == 0
        if (self._finishes or self._changes("startTime")) and "startTime" not in self._status and not never_started:
            yield causes.required("status.startTime", "startTime is required for finished job")
        uncounted = self._status.get("uncountedTerminatedPods") or {}
        if (self._finishes or self._changes("uncountedTerminatedPods")) and any(uncounted.values()):
            yield causes.invalid("status.uncountedTerminatedPods", uncounted, "must be empty for finished job")

    def _indexes(self) -> Iterator[Cause]:
        completed, failed = self._status.get("completedIndexes", ""), self._status.get("failedIndexes")
        completions, per_index = self._spec.get("completions"), "backoffLimitPerIndex" in self._spec
        if self._changes("completedIndexes"):
            yield from _malformed("completedIndexes", completed, completions)
        if self._changes("failedIndexes") and per_index and failed is not None:
            yield from _malformed("failedIndexes", failed, completions)
        if self._changes("completedIndexes") and completed and self._spec.get("completionMode") != "Indexed":
            detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
            yield causes.invalid("status.completedIndexes", completed, detail)
        if self._changes("failedIndexes") and failed is not None and not per_index:
            detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
            yield causes.invalid("status.failedIndexes", failed, detail)
        if self._changes("completedIndexes", "failedIndexes") and completions is not None and failed is not None:
            both = indexes.overlap(completed, failed, below=completions)
            if both is not None:
                detail = f"failedIndexes and completedIndexes overlap at index: {both}"
                yield causes.invalid("status.failedIndexes", failed, detail)

    def _numbers(self) -> Iterator[Cause]:
        ready, terminating = self._status.get("ready", 0), self._status.get("terminating", 0)
        if (self._finishes or self._changes("terminating")) and self._is_finished and terminating > 0:
            yield causes.invalid("status.terminating", terminating, "terminating>0 is invalid for finished job")
        if self._changes("ready", "active") and ready > self._status.get("active", 0):
            yield causes.invalid("status.ready", ready, "cannot set more ready pods than active")

    def _conflicting(self) -> Iterator[Cause]:
        for other in ("Failed", "FailureTarget"):
            if {"SuccessCriteriaMet", other} <= self._on:
                yield _refuse(f"cannot set SuccessCriteriaMet=True and {other}=true conditions")
        if "successPolicy" in self._spec and _lacks(self._on, "Complete", "SuccessCriteriaMet"):
            yield _refuse("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")

    def _transition(self) -> Iterator[Cause]:
        for name in ("Failed", "Complete", "FailureTarget"):
            if name in self._was and name not in self._on:
                yield _refuse(f"cannot disable the terminal {name}=True condition")
        elastic = self._spec.get("completionMode") == "Indexed" and (
            self._spec.get("completions") == self._spec.get("parallelism")
        )
        for name in ("failed",) if elastic else ("failed", "succeeded"):
            value = self._status.get(name, 0)
            if value < self._before.get(name, 0):
                yield causes.invalid(f"status.{name}", value, f"cannot decrease the {name} counter")
        time, known = self._status.get("completionTime"), self._before.get("completionTime")
        if time is not None and known is not None and time != known:
            yield causes.invalid("status.completionTime", time, causes.IMMUTABLE)
        resumes = "Suspended" in self._was and "Suspended" in _conditions(self._status, "False")
        if "startTime" in self._before and self._changes("startTime") and not resumes and not self._spec.get("suspend"):
            detail = "field is immutable for unsuspended job once set"
            yield causes.invalid("status.startTime", self._status.get("startTime"), detail)
        if "SuccessCriteriaMet" in self._was and "SuccessCriteriaMet" not in self._on:
            yield _refuse("cannot disable the SuccessCriteriaMet=True condition")
        if _lacks(self._was, "Complete", "SuccessCriteriaMet") and "SuccessCriteriaMet" in self._on:
            yield _refuse("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")


def _conditions(status: Json, value: str) -> set[str]:
    return {c.get("type", "") for c in status.get("conditions") or () if c.get("status") == value}


def _value(status: Json, name: str) -> object:
    """A counter or text that is not there is as good as empty; the others are pointers, and may be absent."""
    value = status.get(name)
    return value or None if name in ("active", "completedIndexes", "uncountedTerminatedPods") else value


def _lacks(on: set[str], one: str, other: str) -> bool:
    return one in on and other not in on


def _refuse(detail: str) -> Cause:
    return Cause("status.conditions", "FieldValueInvalid", f"Invalid value: {detail}")


def _malformed(name: str, text: str, completions: int | None) -> Iterator[Cause]:
    if completions is None:
        return
    try:
        indexes.parse(text, below=completions)
    except ValueError as error:
        yield causes.invalid(f"status.{name}", text, f"error parsing {name}: {error}")
