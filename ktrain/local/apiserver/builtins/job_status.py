"""What a Job's status may not say, and which of its transitions are impossible (checked upstream since 1.31)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins import indexes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_COUNTS: Final = ("active", "succeeded", "failed", "ready", "terminating")
_STICKY: Final = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")


def validate(job: Json, old: Json) -> list[Cause]:
    """Return what is wrong with a write to a Job's status."""
    status, before = job.get("status") or {}, old.get("status") or {}
    on, was = _true_conditions(status), _true_conditions(before)
    found = [cause for name in _COUNTS for cause in causes.non_negative(f"status.{name}", status.get(name))]
    found += _validate_ending(status, on)
    found += _validate_exclusions(on)
    found += _validate_transition(job, status, before, on, was)
    found += _validate_indexes(job, status)
    return found


def _true_conditions(status: Json) -> set[str]:
    return {c.get("type", "") for c in status.get("conditions", ()) if c.get("status") == "True"}


def _validate_ending(status: Json, on: set[str]) -> Iterator[Cause]:
    ready, active = status.get("ready", 0), status.get("active", 0)
    if ready > active:
        yield causes.invalid("status.ready", ready, "cannot set more ready pods than active")
    complete = "Complete" in on
    if complete and "completionTime" not in status:
        yield causes.required("status.completionTime", "completionTime is required for Complete jobs")
    if "completionTime" in status and not complete:
        detail = "completionTime can only be set for Complete jobs"
        yield causes.invalid("status.completionTime", status["completionTime"], detail)
    if not on & {"Complete", "Failed"}:
        return
    if "startTime" not in status:
        yield causes.required("status.startTime", "startTime is required for finished job")
    for name in ("active", "terminating"):
        if status.get(name, 0) > 0:
            yield causes.invalid(f"status.{name}", status[name], f"{name}>0 is invalid for finished job")
    uncounted = status.get("uncountedTerminatedPods") or {}
    if any(uncounted.values()):
        detail = "uncountedTerminatedPods needs to be empty for finished job"
        yield causes.invalid("status.uncountedTerminatedPods", uncounted, detail)


def _validate_exclusions(on: set[str]) -> Iterator[Cause]:
    def refuse(detail: str) -> Cause:
        return causes.invalid("status.conditions", "", detail)

    if "Complete" in on and "SuccessCriteriaMet" not in on:
        yield refuse("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    if "Failed" in on and "FailureTarget" not in on:
        yield refuse("cannot set Failed=True condition without the FailureTarget=true condition")
    for one, other in (
        ("Complete", "Failed"),
        ("Complete", "FailureTarget"),
        ("SuccessCriteriaMet", "Failed"),
        ("SuccessCriteriaMet", "FailureTarget"),
    ):
        if {one, other} <= on:
            yield refuse(f"cannot set {one}=True and {other}=true conditions")


def _validate_transition(job: Json, status: Json, before: Json, on: set[str], was: set[str]) -> Iterator[Cause]:
    for name in _STICKY:
        if name in was and name not in on:
            yield causes.invalid("status.conditions", "", f"cannot disable the terminal {name}=True condition")
    failed = before.get("failed", 0)
    if status.get("failed", 0) < failed:
        yield causes.invalid("status.failed", status.get("failed", 0), "cannot decrement the failed counter")
    spec = job["spec"]
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if status.get("succeeded", 0) < before.get("succeeded", 0) and not elastic:
        yield causes.invalid("status.succeeded", status.get("succeeded", 0), "cannot decrement the succeeded counter")
    if "completionTime" in before and status.get("completionTime") != before["completionTime"]:
        yield causes.invalid("status.completionTime", status.get("completionTime"), causes.IMMUTABLE)
    changed = "startTime" in before and status.get("startTime") != before["startTime"]
    if changed and not spec.get("suspend"):
        detail = "cannot remove or modify startTime for unsuspended job"
        yield causes.required("status.startTime", detail)


def _validate_indexes(job: Json, status: Json) -> Iterator[Cause]:
    completions = job["spec"].get("completions") or 0
    parsed: dict[str, list[range]] = {}
    for name in ("completedIndexes", "failedIndexes"):
        text = status.get(name)
        if not text:
            continue
        try:
            parsed[name] = indexes.parse(text, below=completions)
        except ValueError as error:
            yield causes.invalid(f"status.{name}", text, str(error))
    both = [
        max(a.start, b.start)
        for a in parsed.get("completedIndexes", ())
        for b in parsed.get("failedIndexes", ())
        if max(a.start, b.start) < min(a.stop, b.stop)
    ]
    if both:
        detail = f"failedIndexes and completedIndexes overlap at index: {min(both)}"
        yield causes.invalid("status.failedIndexes", status["failedIndexes"], detail)
