"""
One pass of the Job controller as a pure function: what was observed → what to do.

Finished pods are counted in two status writes with the removal
of their finalizers in between (`counting.py`), so a pass that dies anywhere can be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from . import status as statuses
from .counting import Count, Sight, count, is_ready, observe
from .endings import COMPLETED, Ending, deadline_left, decide_ending, is_complete
from .managing import Actions, Wanted, manage
from .status import Conditions, Counters

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from ktrain.api.core import Pod
    from ktrain.api.meta import Json

    from .backoff import Backoff, Tuning
    from .types import Job

_FINAL: Final = ("Complete", "Failed")


@dataclass(frozen=True, slots=True)
class Event:
    """An event about the Job."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What one pass does, in this order."""

    drop: tuple[Pod, ...]
    delete: tuple[Pod, ...]
    create: tuple[Wanted, ...]
    record: Json
    """The status to store before finalizers are removed."""
    release: tuple[Pod, ...]
    """Finished pods that lose the tracking finalizer."""
    status: Json
    """The status after all of this."""
    events: tuple[Event, ...]
    final_events: tuple[Event, ...]
    """Those to send when the Job is over and its status says so."""
    backoff: Backoff
    requeue_after: timedelta | None


def decide(job: Job, pods: Sequence[Pod], backoff: Backoff, now: datetime, tuning: Tuning) -> Decision:
    """
    Decide one pass over an unfinished Job that is ours. `pods` are those that it controls.

    Of a Job that is being deleted pods are only counted and let go; none is created or deleted.
    """
    started = job.status.start_time
    if started is None and not job.spec.suspend:
        started = now
    sight = observe(job, pods)
    backoff = backoff.after(sight.newly_succeeded, sight.newly_failed)
    conditions = Conditions(job, now)
    events: list[Event] = []
    ending = decide_ending(job, sight, now)
    actions = Actions()
    if ending is not None:
        actions = Actions(delete=sight.active)
    else:
        is_going = job.metadata.deletion_timestamp is not None
        actions = actions if is_going else manage(job, sight, backoff, now, tuning)
        if is_complete(job, sight, len(sight.active) - len(actions.drop) + len(actions.create)):
            ending = COMPLETED
        elif not is_going and (event := _suspend_or_resume(job, conditions)):
            events.append(event)
            started = None if job.spec.suspend else now
    if ending is not None:
        conditions.set(ending.interim, "True", ending.reason, ending.message)

    counted = count(job, sight, is_over=ending is not None, has_failed=ending is not None and not ending.succeeded)
    recorded = _record(job, sight, actions, counted)
    final = _settled(recorded, counted)
    record = statuses.build(recorded, list(conditions.entries), started, is_indexed=job.is_indexed)
    final_events: list[Event] = []
    if ending is not None and not recorded.terminating and not counted.is_full:
        conditions.set(ending.final, "True", ending.reason, ending.message)
        final_events = _final_events(job, ending, final.succeeded)
    return Decision(
        drop=actions.drop,
        delete=actions.delete,
        create=actions.create,
        record=record,
        release=tuple(counted.release),
        status=statuses.build(final, conditions.entries, started, is_indexed=job.is_indexed),
        events=tuple(events),
        final_events=tuple(final_events),
        backoff=backoff,
        requeue_after=_soonest(actions.wait, None if ending is not None else deadline_left(job, started, now)),
    )


def _record(job: Job, sight: Sight, actions: Actions, counted: Count) -> Counters:
    """Count up to the point where finished pods are recorded by UID, and still have their finalizer."""
    doomed = (*actions.drop, *actions.delete)
    return Counters(
        active=len(sight.active) - len(doomed) + len(actions.create),
        ready=sight.ready - sum(map(is_ready, doomed)),
        terminating=sight.terminating + len(doomed),
        succeeded=len(counted.completed_indexes) if job.is_indexed else counted.succeeded,
        failed=counted.failed,
        completed_indexes=counted.completed_indexes,
        failed_indexes=sight.failed_indexes,
        uncounted_succeeded=counted.uncounted_succeeded,
        uncounted_failed=counted.uncounted_failed,
    )


def _settled(recorded: Counters, counted: Count) -> Counters:
    """Move what is recorded into the counters."""
    return replace(
        recorded,
        succeeded=recorded.succeeded + len(counted.uncounted_succeeded),
        failed=recorded.failed + len(counted.uncounted_failed),
        uncounted_succeeded=(),
        uncounted_failed=(),
    )


def _suspend_or_resume(job: Job, conditions: Conditions) -> Event | None:
    if job.spec.suspend:
        changed = conditions.set("Suspended", "True", "JobSuspended", "Job suspended")
        return Event("Normal", "Suspended", "Job suspended") if changed else None
    changed = conditions.set("Suspended", "False", "JobResumed", "Job resumed")
    return Event("Normal", "Resumed", "Job resumed") if changed else None


def _final_events(job: Job, ending: Ending, succeeded: int) -> list[Event]:
    if not ending.succeeded:
        return [Event("Warning", ending.reason, ending.message)]
    events = [Event("Normal", "Completed", "Job completed")]
    if job.spec.completions is not None and succeeded > job.spec.completions:
        message = "Too many succeeded pods running after completion count reached"
        events.insert(0, Event("Warning", "TooManySucceededPods", message))
    return events


def _soonest(*waits: timedelta | None) -> timedelta | None:
    return min((wait for wait in waits if wait is not None), default=None)
