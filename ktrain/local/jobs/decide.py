"""
One pass of the Job controller as a pure function: what was observed → what to do.

A pass either deletes or creates pods, deletion first. Finished pods are counted in two status writes with the removal
of their finalizers in between (`counting.py`), so a pass that dies anywhere can be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ktrain.api.meta import Condition, Json, find_condition, format_time

from . import indexes
from .counting import Tally, completion_index, finish_time, is_active, tally
from .endings import Ending, deadline_left, decide_ending, decided_before
from .pods import surplus
from .types import Job, UncountedPods

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.core import Pod

MAX_PODS_PER_PASS = 500


@dataclass(frozen=True, slots=True)
class Tuning:
    """Delays of the controller. The defaults are the upstream controller's."""

    backoff_base_s: float = 10.0
    backoff_cap_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Failures of a Job since its last success. Kept in memory only, as upstream does: a restart forgives."""

    failures: int = 0
    last_failure: datetime | None = None

    def delay_left(self, tuning: Tuning, now: datetime) -> timedelta:
        """How long replacements have to wait."""
        if not self.failures or self.last_failure is None:
            return timedelta(0)
        delay = min(tuning.backoff_base_s * 2 ** min(self.failures - 1, 30), tuning.backoff_cap_s)
        return self.last_failure + timedelta(seconds=delay) - now


@dataclass(frozen=True, slots=True)
class Event:
    """An event about the Job."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What one pass does, in this order."""

    record: Json | None = None
    """Status to store before finalizers are removed; None when there is nothing new to record."""
    release: tuple[Pod, ...] = ()
    """Finished pods that lose the tracking finalizer."""
    drop: tuple[Pod, ...] = ()
    """Pods to delete without counting them: the finalizer goes first (suspension, scale-down, surplus)."""
    delete: tuple[Pod, ...] = ()
    """Pods to delete and count: the Job is over."""
    create: tuple[tuple[int | None, Pod | None], ...] = ()
    """Pods to create: completion index, and the failed pod each replaces."""
    status: Json = field(default_factory=dict)
    """The status after all of this."""
    events: tuple[Event, ...] = ()
    backoff: Backoff = Backoff()
    requeue_after: timedelta | None = None


def decide(job: Job, pods: Sequence[Pod], backoff: Backoff, now: datetime, tuning: Tuning) -> Decision:
    """Decide one pass over an unfinished Job that is ours. `pods` are those its UID controls."""
    started = job.status.start_time
    if started is None and not job.spec.suspend:
        started = now
    before = decided_before(job)
    seen = tally(job, pods, ending=before is not None and not before.succeeded)
    backoff = _next_backoff(backoff, seen)
    ending = decide_ending(job, seen, pods, now)
    conditions = _Conditions(job, now)
    actions = _Actions()
    if ending is not None:
        conditions.set(ending.interim, "True", ending.reason, ending.message)
        actions.delete = tuple(seen.active)
    elif job.spec.suspend:
        actions.drop = tuple(seen.active)
    else:
        actions = _manage(job, pods, seen, backoff, now, tuning)
    events = _suspension(job, conditions)
    if conditions.resumed:
        started = now
    elif job.spec.suspend and ending is None:
        started = None

    counted = _count(seen)
    if ending is not None and not seen.active and not seen.terminating:
        conditions.set(ending.final, "True", ending.reason, ending.message)
        events.append(_ending_event(ending))
    draft = _Draft(job, seen, conditions, started, actions)
    return Decision(
        record=draft.status(uncounted=True) if _needs_record(job, seen) else None,
        release=seen.finished,
        drop=actions.drop,
        delete=actions.delete,
        create=actions.create,
        status=draft.status(uncounted=False, counted=counted),
        events=tuple(events),
        backoff=backoff,
        requeue_after=_soonest(actions.wait, deadline_left(job, now) if ending is None else None),
    )


@dataclass(slots=True)
class _Actions:
    drop: tuple[Pod, ...] = ()
    delete: tuple[Pod, ...] = ()
    create: tuple[tuple[int | None, Pod | None], ...] = ()
    wait: timedelta | None = None


def stored_status(job: Job) -> Json:
    """The status as it is stored, in the shape that `Decision.status` has, so that the two can be compared."""
    old = job.status
    status: Json = {"ready": old.ready, "terminating": old.terminating, "uncountedTerminatedPods": {}}
    recorded = old.uncounted_terminated_pods or UncountedPods()
    for name, uids in (("succeeded", recorded.succeeded), ("failed", recorded.failed)):
        if uids:
            status["uncountedTerminatedPods"][name] = list(uids)
    for name, value in (("active", old.active), ("succeeded", old.succeeded), ("failed", old.failed)):
        if value:
            status[name] = value
    if old.completed_indexes:
        status["completedIndexes"] = old.completed_indexes
    if old.failed_indexes is not None:
        status["failedIndexes"] = old.failed_indexes
    if old.conditions:
        status["conditions"] = [_condition(c) for c in old.conditions]
    for name, time in (("startTime", old.start_time), ("completionTime", old.completion_time)):
        if time is not None:
            status[name] = format_time(time)
    return status


def _condition(condition: Condition) -> Json:
    time = format_time(condition.last_transition_time) if condition.last_transition_time else None
    return _entry(condition.type, condition.status, condition.reason, condition.message, time)


def _entry(type_: str, status: str, reason: str, message: str, time: str | None) -> Json:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastProbeTime": time,
        "lastTransitionTime": time,
    }


class _Conditions:
    """The Job's conditions in the making; the list is atomic on the wire and written whole."""

    def __init__(self, job: Job, now: datetime) -> None:
        self._now = format_time(now)
        self.resumed = False
        self.entries: list[Json] = [_condition(c) for c in job.status.conditions]

    def set(self, type_: str, status: str, reason: str, message: str) -> None:
        """Set a condition; one that is already so keeps its times."""
        entry = _entry(type_, status, reason, message, self._now)
        for position, old in enumerate(self.entries):
            if old["type"] == type_:
                if (old["status"], old["reason"]) != (status, reason):
                    self.entries[position] = entry
                return
        self.entries.append(entry)


@dataclass(slots=True)
class _Draft:
    job: Job
    seen: Tally
    conditions: _Conditions
    started: datetime | None
    actions: _Actions

    def status(self, *, uncounted: bool, counted: tuple[int, int] = (0, 0)) -> Json:
        """
        Build the whole status.

        With `uncounted` it is the record written before finalizers go: finished pods by UID, final conditions held
        back. Otherwise `counted` has been added to the counters and nothing is uncounted.
        """
        seen, job = self.seen, self.job
        gone = len(self.actions.drop) + len(self.actions.delete)
        active = len(seen.active) - gone + (0 if uncounted else len(self.actions.create))
        terminating = seen.terminating + gone
        ready = seen.ready - sum(_is_ready(pod) for pod in (*self.actions.drop, *self.actions.delete))
        status: Json = {"ready": ready, "terminating": terminating, "uncountedTerminatedPods": {}}
        if uncounted:
            for name, uids in (("succeeded", seen.uncounted_succeeded), ("failed", seen.uncounted_failed)):
                if uids:
                    status["uncountedTerminatedPods"][name] = sorted(uids)
        succeeded = len(seen.completed_indexes) if job.is_indexed else seen.succeeded + counted[0]
        for name, value in (("active", active), ("succeeded", succeeded), ("failed", seen.failed + counted[1])):
            if value:
                status[name] = value
        if job.is_indexed and seen.completed_indexes:
            status["completedIndexes"] = indexes.format_indexes(seen.completed_indexes)
        if job.spec.backoff_limit_per_index is not None:
            status["failedIndexes"] = indexes.format_indexes(seen.failed_indexes)
        final = ("Complete", "Failed")
        entries = [c for c in self.conditions.entries if not (uncounted and c["type"] in final)]
        if entries:
            status["conditions"] = entries
        if self.started is not None:
            status["startTime"] = format_time(self.started)
        for entry in entries:
            if entry["type"] == "Complete":
                status["completionTime"] = entry["lastTransitionTime"]
        return status


def _is_ready(pod: Pod) -> bool:
    return any(c.type == "Ready" and c.is_true for c in pod.status.conditions)


def _needs_record(job: Job, seen: Tally) -> bool:
    """Whether the finished pods are not all in the stored status yet."""
    recorded = job.status.uncounted_terminated_pods
    known = {*recorded.succeeded, *recorded.failed} if recorded else set()
    fresh = (seen.uncounted_succeeded | seen.uncounted_failed) - known
    stored = indexes.parse(job.status.completed_indexes, job.spec.completions or 0)
    return bool(fresh) or (job.is_indexed and seen.completed_indexes != stored)


def _count(seen: Tally) -> tuple[int, int]:
    return len(seen.uncounted_succeeded), len(seen.uncounted_failed)


def _next_backoff(backoff: Backoff, seen: Tally) -> Backoff:
    """Add this pass's failures; a success in the same pass forgives those that ended before it."""
    failures = sorted(time for pod in seen.newly_failed if (time := finish_time(pod)))
    if seen.newly_succeeded:
        last = max((time for pod in seen.newly_succeeded if (time := finish_time(pod))), default=None)
        failures = [time for time in failures if last is not None and time > last]
        backoff = Backoff()
    if not failures:
        return backoff
    return Backoff(backoff.failures + len(failures), failures[-1])


def _manage(job: Job, pods: Sequence[Pod], seen: Tally, backoff: Backoff, now: datetime, tuning: Tuning) -> _Actions:
    wanted = _wanted(job, seen)
    too_many = surplus(job, seen.active, wanted)
    if too_many:
        return _Actions(drop=tuple(too_many[:MAX_PODS_PER_PASS]))
    missing = wanted - len(seen.active)
    waits_for_terminal = job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None
    if waits_for_terminal:
        missing -= seen.terminating
    if missing <= 0:
        return _Actions()
    left = backoff.delay_left(tuning, now)
    if left > timedelta(0):
        return _Actions(wait=left)
    missing = min(missing, MAX_PODS_PER_PASS)
    if not job.is_indexed:
        return _Actions(create=((None, None),) * missing)
    return _Actions(create=_free_indexes(job, pods, seen, missing, waits_for_terminal=waits_for_terminal))


def _wanted(job: Job, seen: Tally) -> int:
    if job.spec.completions is None:
        return len(seen.active) if seen.total_succeeded else job.spec.parallelism
    done = len(seen.completed_indexes) if job.is_indexed else seen.total_succeeded
    left = job.spec.completions - done - len(seen.failed_indexes - seen.completed_indexes)
    return max(0, min(job.spec.parallelism, left))


def _free_indexes(
    job: Job, pods: Sequence[Pod], seen: Tally, missing: int, *, waits_for_terminal: bool
) -> tuple[tuple[int | None, Pod | None], ...]:
    taken = set(seen.completed_indexes | seen.failed_indexes)
    taken.update(i for pod in seen.active if (i := completion_index(pod)) is not None)
    if waits_for_terminal:
        taken.update(
            i
            for pod in pods
            if pod.metadata.deletion_timestamp is not None
            and pod.status.phase not in ("Succeeded", "Failed")
            and (i := completion_index(pod)) is not None
        )
    free = [index for index in range(job.spec.completions or 0) if index not in taken][:missing]
    last: dict[int, Pod] = {}
    for pod in pods:
        index = completion_index(pod)
        if index is not None and not is_active(pod):
            known = last.get(index)
            if known is None or _created(known) <= _created(pod):
                last[index] = pod
    return tuple((index, last.get(index)) for index in free)


def _created(pod: Pod) -> float:
    return pod.metadata.creation_timestamp.timestamp() if pod.metadata.creation_timestamp else 0.0


def _suspension(job: Job, conditions: _Conditions) -> list[Event]:
    current = find_condition(job.status.conditions, "Suspended")
    if job.spec.suspend and not (current and current.is_true):
        conditions.set("Suspended", "True", "JobSuspended", "Job suspended")
        return [Event("Normal", "Suspended", "Job suspended")]
    if not job.spec.suspend and current and current.is_true:
        conditions.set("Suspended", "False", "JobResumed", "Job resumed")
        conditions.resumed = True
        return [Event("Normal", "Resumed", "Job resumed")]
    return []


def _ending_event(ending: Ending) -> Event:
    if ending.succeeded:
        return Event("Normal", "Completed", "Job completed")
    return Event("Warning", ending.reason, ending.message)


def _soonest(*waits: timedelta | None) -> timedelta | None:
    return min((wait for wait in waits if wait is not None), default=None)
