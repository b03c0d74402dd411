"""
How many pods a Job should have, and which to create or to delete for it.

A pass either deletes or creates, deletion first, and never more than 500 pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from .backoff import Backoff, Tuning, finish_time
from .counting import Sight, completion_index, index_failures, is_terminating
from .pods import surplus

if TYPE_CHECKING:
    from ktrain.api.core import Pod

    from .types import Job

MAX_PODS_PER_PASS: Final = 500


@dataclass(frozen=True, slots=True)
class Wanted:
    """A pod to create."""

    index: int | None = None
    replaces: Pod | None = None
    """The failed pod of the same index whose count of failures it carries on (`backoffLimitPerIndex`)."""


@dataclass(frozen=True, slots=True)
class Actions:
    """What is done to pods that are not finished."""

    drop: tuple[Pod, ...] = ()
    """Pods to delete without counting them: the finalizer goes first (suspension, scale-down, surplus)."""
    delete: tuple[Pod, ...] = ()
    """Pods to delete because the Job is over."""
    create: tuple[Wanted, ...] = ()
    wait: timedelta | None = None


def manage(job: Job, sight: Sight, backoff: Backoff, now: datetime, tuning: Tuning) -> Actions:
    """Say what a Job that goes on needs, or does not need any more."""
    active = len(sight.active)
    if job.spec.suspend:
        return Actions(drop=sight.active)
    wanted = _wanted(job, sight)
    if doomed := surplus(job, sight.active, max(active - wanted, 0)):
        return Actions(drop=tuple(doomed[:MAX_PODS_PER_PASS]))
    missing = wanted - active - (sight.terminating if job.replaces_only_failed else 0)
    missing = min(missing, MAX_PODS_PER_PASS)
    if missing <= 0:
        return Actions()
    return _create(job, sight, missing, backoff, now, tuning)


def _create(job: Job, sight: Sight, missing: int, backoff: Backoff, now: datetime, tuning: Tuning) -> Actions:
    if sight.failed_indexes is not None:
        return _create_by_index(job, sight, missing, now, tuning)
    left = tuning.wait(backoff.failures, backoff.last_failure, now)
    if left > timedelta(0):
        return Actions(wait=left)
    if not job.is_indexed:
        return Actions(create=(Wanted(),) * missing)
    return Actions(create=tuple(Wanted(index) for index in _pending_indexes(job, sight, missing)))


def _wanted(job: Job, sight: Sight) -> int:
    if job.spec.completions is None:
        return len(sight.active) if sight.succeeded else job.spec.parallelism
    return max(0, min(job.spec.parallelism, job.spec.completions - sight.succeeded))


def _create_by_index(job: Job, sight: Sight, missing: int, now: datetime, tuning: Tuning) -> Actions:
    """Every index waits for itself; those that need not wait go first, but never in place of one that has to."""
    ready: list[Wanted] = []
    waits: list[timedelta] = []
    for index in _pending_indexes(job, sight, missing):
        failed = sight.waiting.get(index)
        left = tuning.wait(*_failures(failed), now) if failed else timedelta(0)
        if left > timedelta(0):
            waits.append(left)
        else:
            ready.append(Wanted(index, failed))
    return Actions(create=tuple(ready), wait=min(waits, default=None))


def _failures(pod: Pod) -> tuple[int, datetime]:
    return sum(index_failures(pod)) + 1, finish_time(pod)


def _pending_indexes(job: Job, sight: Sight, most: int) -> list[int]:
    """Return the lowest indexes that nobody works on and that are not done."""
    taken = set(sight.completed_indexes | (sight.failed_indexes or frozenset()))
    taken.update(i for pod in sight.active if (i := completion_index(pod)) is not None)
    if job.replaces_only_failed:
        stopping = (completion_index(pod) for pod in sight.pods if is_terminating(pod))
        taken.update(index for index in stopping if index is not None)
    free: list[int] = []
    for index in range(job.spec.completions or 0):
        if len(free) == most:
            break
        if index not in taken:
            free.append(index)
    return free
