"""
Why a JobSet does not get on: what the API server refuses of its Service, claims, Jobs and pods. Pure.

The controllers of JobSets and Jobs tell that in events only: a refused pass leaves no trace in a status. Nobody can
afford to watch events, so those of a JobSet are read when its status stands still where it should not: soon if there is
none, or nothing of it is active; later if it may well be on the way (images are pulled, Jobs wait for each other); then
ever more rarely. The look is due at a time that the next status moves, so a job that gets on costs none.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ktrain.api import jobset
from ktrain.api.meta import is_condition_true
from ktrain.framework.events.correlation import COMBINED
from ktrain.plugins.jobset import JOB_SET_STATES

from .gangs import REWORD_AFTER
from .observe import Failure, Stall, Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from ktrain.api.jobset import ReplicatedJobStatus
    from ktrain.plugins.jobset import JobSetState
    from ktrain.plugins.jobset.state import ReplicatedJobState

    from .complaints import Complaint
    from .decision import Decision
    from .observe import Memory, Observed

SOON: Final = timedelta(seconds=5)
LATER: Final = timedelta(seconds=30)
RARELY: Final = timedelta(minutes=30)
_DOUBLINGS: Final = 10
SKEW: Final = timedelta(seconds=1)
"""How far the clocks of those who tell may be behind ours."""
_REFUSALS: Final = ("JobCreationFailed", "HeadlessServiceCreationFailed", "PVCCreationFailed", "ReconcileFailed")
"""Reasons of the JobSet controller's events, the last one of ours only."""
_REFUSED_PODS: Final = "FailedCreate"
_DRAWN: Final = re.compile(r'(?<=-)[a-z0-9]{5}(?=")')
"""What of a pod's name is drawn anew for each try."""


def beside(observed: Observed, building: Decision) -> Decision:
    """Return what to do about an unfinished job, with what there is to say about its JobSet."""
    stall = None if building.check else _stall(observed, building)
    if stall is None:
        return building
    said = stall.failure and _worded(stall.failure, observed.memory, observed.context.now)
    return replace(building, stall=stall, failure=building.failure or said)


def heard(stall: Stall, job_set: JobSetState, complaints: Iterable[Complaint] | None, now: datetime) -> Stall:
    """
    Return *stall* with what was said, and when to look again.

    No complaints: there is nothing to say. None: it could not be heard, and what was said before holds.
    """
    looks = stall.looks + 1
    due = now + min((patience(job_set) or SOON) * 2 ** min(looks, _DOUBLINGS), RARELY)
    if complaints is None:
        return stall._replace(looks=looks, due=due)
    said = max(_about(stall, job_set, complaints), key=lambda one: one.last or stall.since, default=None)
    return stall._replace(looks=looks, due=due, failure=_failure(said) if said else None)


def patience(job_set: JobSetState) -> timedelta | None:
    """Return for how long the status of a JobSet may well be as it is; None if it is as it should be."""
    status = job_set.status
    if job_set.has_ended or job_set.metadata.deletion_timestamp:
        return None
    if status is None or not status.replicated_jobs_status:
        return SOON
    if job_set.spec.suspend:
        return None
    counters = {one.name: one for one in status.replicated_jobs_status}
    is_restarting = is_condition_true(status.conditions, jobset.CONDITION_RESTARTING)
    if is_restarting or not any(one.active for one in counters.values()):
        return SOON
    return LATER if any(_is_missed(one, job_set, counters) for one in job_set.spec.replicated_jobs) else None


def _is_missed(one: ReplicatedJobState, job_set: JobSetState, counters: Mapping[str, ReplicatedJobStatus]) -> bool:
    """Whether a replicated job that need not wait for others lacks Jobs that are ready."""
    replicas = {other.name: other.replicas for other in job_set.spec.replicated_jobs}

    def reached(name: str, status: str) -> bool:
        return _number(counters.get(name), status) >= replicas.get(name, 0)

    waits = not all(reached(other.name, other.status) for other in one.depends_on)
    return not waits and not reached(one.name, "Ready")


def _number(counter: ReplicatedJobStatus | None, status: str) -> int:
    """How many Jobs have come as far as *status*, `Ready` or `Complete`."""
    if counter is None:
        return 0
    return counter.succeeded + (0 if status == "Complete" else counter.ready + counter.failed)


def _stall(observed: Observed, building: Decision) -> Stall | None:
    job_set, known, now = observed.job_set, observed.memory.stall, observed.context.now
    if job_set is None:
        is_new = any(apply.component.resource == JOB_SET_STATES for apply in building.applies)
        return Stall(None, now, now + SOON) if is_new else None
    wait = patience(job_set) if job_set.metadata.is_controlled_by(observed.job.metadata.uid) else None
    if wait is None:
        return None
    # Not its version, which annotations move, too.
    seen = Standing(job_set.spec.suspend, job_set.status)
    if known and known.seen in (None, seen):
        return known._replace(seen=seen)
    told = observed.job.status.diagnosis
    if known is None and told and told.reason in (*_REFUSALS, _REFUSED_PODS):
        # An earlier process told it, and who is refused may not say so again for long.
        since = job_set.metadata.creation_timestamp or now
        return Stall(seen, since, now, failure=_telling(told.reason, told.message))
    return Stall(seen, now, now + wait)


def _worded(said: Failure, memory: Memory, now: datetime) -> Failure:
    """Say it in the words used last if those are new, or differ only in the name of a pod that there never was."""
    known = memory.failure
    if known is None or known.event != said.event:
        return said
    is_new = now < (memory.told or now) + REWORD_AFTER
    return known if is_new or _DRAWN.sub("", known.message) == _DRAWN.sub("", said.message) else said


def _about(stall: Stall, job_set: JobSetState, complaints: Iterable[Complaint]) -> Iterator[Complaint]:
    """
    Yield what concerns this JobSet as it is now.

    A JobSet without status never had a pass that got through. Later on, what was said before its status became what it
    is may well be settled; who is still refused says so again. Jobs are known by their names, so what was said of them
    before the JobSet was made was said of another's.
    """
    since = None if job_set.status is None else stall.since - SKEW
    made = (job_set.metadata.creation_timestamp or stall.since) - SKEW
    for one in complaints:
        if one.regarding.kind == JOB_SET_STATES.kind:
            is_its = one.regarding.uid == job_set.metadata.uid and one.reason in _REFUSALS
            from_ = since
        else:
            is_its = _is_job_of(one.regarding.name, job_set)
            from_ = made if since is None else max(made, since)
        if is_its and not (one.last and from_ and one.last < from_):
            yield one


def _is_job_of(name: str, job_set: JobSetState) -> bool:
    head, _, index = name.rpartition("-")
    return index.isdigit() and any(
        head == f"{job_set.metadata.name}-{one.name}" for one in job_set.spec.replicated_jobs
    )


def _failure(said: Complaint) -> Failure:
    # Many that differ in names only are told as one, which says so.
    note = said.note.removeprefix(COMBINED)
    return _telling(said.reason, f"{said.regarding.kind} {said.regarding.name}: {note}")


def _telling(reason: str, message: str) -> Failure:
    return Failure(reason, message, at_once=True, event=reason, is_final=True)
