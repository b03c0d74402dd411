"""
Attempts: which generation a Job belongs to.

Every Job carries the `status.restarts` it was made under. With the gate RestartJob it carries a second number besides,
how often its slot alone was made anew, which `status.replicatedJobsStatus[].jobRestarts` counts by index.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api.jobset import JOB_INDEX, JOB_RESTART_ATTEMPT, REPLICATED_JOB_NAME, RESTART_ATTEMPT

from .errors import Undecidable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ktrain.api.jobset import ChildJob, ReplicatedJob, ReplicatedJobStatus

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


class JobAttempts:
    """How often each slot was made anew for itself; the status is silent where that never happened."""

    def __init__(self, replicated_jobs: Iterable[ReplicatedJob], counters: Iterable[ReplicatedJobStatus]) -> None:
        self._replicas = {rj.name: rj.replicas for rj in replicated_jobs}
        self._restarts = {entry.name: entry.job_restarts for entry in counters if entry.job_restarts}

    def of(self, replicated_job: str, index: int) -> int | None:
        """Return the attempt of a slot; None if there is no such slot."""
        restarts = self._restarts.get(replicated_job)
        slots = self._replicas.get(replicated_job, 0) if restarts is None else len(restarts)
        if not 0 <= index < slots:
            return None
        return 0 if restarts is None else restarts[index]

    def outdate(self, job: ChildJob) -> bool:
        """
        Tell whether a Job is of an earlier attempt than its slot. One made while the gate was off is of the first.

        Raises:
            Undecidable: By its labels there is no such slot, or its attempt is no number.
        """
        replicated_job, index = slot_of(job)
        attempt = self.of(replicated_job, index)
        if attempt is None:
            raise Undecidable(
                f"job index {index} is out of bounds for replicated job {replicated_job!r}, as the labels of job"
                f" {job.metadata.name!r} say: repair them, or delete the Job and it is made again"
            )
        made_at = number(job, JOB_RESTART_ATTEMPT) if JOB_RESTART_ATTEMPT in job.metadata.labels else 0
        return made_at < attempt


def restarted(entry: ReplicatedJobStatus, replicas: int, index: int, *, counts: bool) -> ReplicatedJobStatus:
    """Count one restart of a single slot; `counts`: towards the limit, too. Where nothing was counted is no list."""
    counted = entry.job_restarts_count_towards_max
    return msgspec.structs.replace(
        entry,
        job_restarts=_raised(entry.job_restarts, replicas, index),
        job_restarts_count_towards_max=_raised(counted, replicas, index) if counts else counted,
    )


def _raised(counts: tuple[int, ...], replicas: int, index: int) -> tuple[int, ...]:
    counts = counts or (0,) * replicas
    return (*counts[:index], counts[index] + 1, *counts[index + 1 :])


def global_attempt(job: ChildJob) -> int:
    """
    Return the `restarts` that a Job was made under.

    Raises:
        Undecidable: Its label is missing or no number.
    """
    return number(job, RESTART_ATTEMPT)


def slot_of(job: ChildJob) -> tuple[str, int]:
    """
    Return the replicated job and the index that the labels of a Job name.

    Raises:
        Undecidable: They do not.
    """
    replicated_job = job.metadata.labels.get(REPLICATED_JOB_NAME)
    if replicated_job is None:
        raise Undecidable(
            f"job {job.metadata.name!r} lacks the label {REPLICATED_JOB_NAME}: put it back, or delete the Job and it is"
            " made again"
        )
    return replicated_job, number(job, JOB_INDEX)


def number(job: ChildJob, key: str) -> int:
    """
    Return the number in a label.

    Raises:
        Undecidable: There is none.
    """
    label = job.metadata.labels.get(key, "")
    if not _INTEGER.fullmatch(label):
        raise Undecidable(
            f"job {job.metadata.name!r} has {label!r} as label {key}, which must be the number it was made with: put"
            " the number back, or delete the Job and it is made again"
        )
    return int(label)
