"""
Why a JobSet does not get on: what the API server refuses of its Service, claims, Jobs and pods. Pure.

The controllers of JobSets and Jobs tell that in events only: a refused pass leaves no trace in a status. Nobody can
afford to watch events, so those of a JobSet are read when its status stands still where it should not: soon if there is
none, or nothing of it is active; later if it may well be on the way (images are pulled, a step waits for another); then
ever more rarely. The look is due at a time that the next status moves, so a job that gets on costs none.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ktrain.api import jobset
from ktrain.api.meta import is_condition_true
from ktrain.plugins.jobset import JOB_SET_STATES

from .observe import Check, Failure, Stall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from ktrain.plugins.jobset import JobSetState

    from .complaints import Complaint
    from .decision import Decision
    from .observe import Observed

SOON: Final = timedelta(seconds=5)
LATER: Final = timedelta(seconds=30)
RARELY: Final = timedelta(minutes=30)
_DOUBLINGS: Final = 10
SKEW: Final = timedelta(seconds=1)
"""How far the clocks of those who tell may be behind ours."""
_REFUSALS: Final = ("JobCreationFailed", "HeadlessServiceCreationFailed", "PVCCreationFailed", "ReconcileFailed")
"""Reasons of the JobSet controller's events, the last one of ours only."""


def beside(observed: Observed, building: Decision) -> Decision:
    """Return what to do about an unfinished job, with what there is to say about its JobSet."""
    if building.check:
        return building
    stall = _stall(observed, building)
    if stall is None:
        return building
    if observed.context.now >= stall.due and Check.EVENTS not in observed.checked:
        return replace(building, check=Check.EVENTS, stall=stall)
    return replace(building, stall=stall, failure=building.failure or stall.failure)


def heard(stall: Stall, job_set: JobSetState, complaints: Iterable[Complaint], now: datetime) -> Stall:
    """Return *stall* with what was said, and when to look again."""
    said = max(_about(stall, job_set, complaints), key=lambda one: one.last or stall.since, default=None)
    looks = stall.looks + 1
    due = now + min((patience(job_set) or SOON) * 2 ** min(looks, _DOUBLINGS), RARELY)
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
    counters = status.replicated_jobs_status
    if is_condition_true(status.conditions, jobset.CONDITION_RESTARTING) or not any(one.active for one in counters):
        return SOON
    return None if all(one.ready + one.succeeded + one.failed for one in counters) else LATER


def _stall(observed: Observed, building: Decision) -> Stall | None:
    job_set, known, now = observed.job_set, observed.memory.stall, observed.context.now
    if job_set is None:
        is_new = any(apply.component.resource == JOB_SET_STATES for apply in building.applies)
        return Stall("", now, now + SOON) if is_new else None
    wait = patience(job_set) if job_set.metadata.is_controlled_by(observed.job.metadata.uid) else None
    if wait is None:
        return None
    version = job_set.metadata.resource_version
    if known and known.version in ("", version):
        return known._replace(version=version)
    # Something was told, by an earlier process: does it still hold?
    is_told = known is None and observed.job.status.diagnosis is not None
    return Stall(version, now, now if is_told else now + wait)


def _about(stall: Stall, job_set: JobSetState, complaints: Iterable[Complaint]) -> Iterator[Complaint]:
    """
    Yield what concerns this JobSet as it is now.

    A JobSet without status never had a pass that got through. Later on, what was said before its status became what it
    is may well be settled; who is still refused says so again.
    """
    has_status = job_set.status is not None
    for one in complaints:
        if one.regarding.kind == JOB_SET_STATES.kind:
            is_its = one.regarding.uid == job_set.metadata.uid and one.reason in _REFUSALS
        else:
            is_its = _is_job_of(one.regarding.name, job_set)
        if is_its and not (has_status and one.last and one.last < stall.since - SKEW):
            yield one


def _is_job_of(name: str, job_set: JobSetState) -> bool:
    head, _, index = name.rpartition("-")
    return index.isdigit() and any(
        head == f"{job_set.metadata.name}-{one.name}" for one in job_set.spec.replicated_jobs
    )


def _failure(said: Complaint) -> Failure:
    message = f"{said.regarding.kind} {said.regarding.name}: {said.note}"
    return Failure(said.reason, message, at_once=True, event=said.reason, is_final=True)
