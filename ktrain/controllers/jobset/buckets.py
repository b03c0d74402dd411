"""
Sort a JobSet's Jobs by what became of them, and count them.

Only Jobs of the current attempt count. A restart does nothing but raise `status.restarts`: by that act every Job that
exists turns into one of a previous attempt, counts nowhere any more, and is deleted by the next pass.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ktrain.api.jobset import REPLICATED_JOB_NAME, RESTART_ATTEMPT, ChildJob, ReplicatedJobStatus

from .errors import Undecidable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ktrain.api.jobset import ReplicatedJob

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True, slots=True)
class Buckets:
    """Every owned Job is in exactly one of these. Terminating Jobs stay where they are."""

    active: tuple[ChildJob, ...] = ()
    successful: tuple[ChildJob, ...] = ()
    failed: tuple[ChildJob, ...] = ()
    previous: tuple[ChildJob, ...] = ()

    def names(self) -> set[str]:
        """Names that are taken, by Jobs of whatever attempt."""
        return {
            job.metadata.name for bucket in (self.active, self.successful, self.failed, self.previous) for job in bucket
        }


def sort_jobs(jobs: Iterable[ChildJob], restarts: int) -> Buckets:
    """
    Put each Job in its bucket. A Job ends with Complete or Failed only; the interim conditions do not end it.

    Raises:
        Undecidable: A Job's attempt label is missing or no number, so nobody can say which generation it is.
    """
    active: list[ChildJob] = []
    successful: list[ChildJob] = []
    failed: list[ChildJob] = []
    previous: list[ChildJob] = []
    ends = {"Complete": successful, "Failed": failed}
    for job in jobs:
        if _attempt(job) < restarts:
            previous.append(job)
            continue
        end = next((c.type for c in job.status.conditions if c.is_true and c.type in ends), None)
        ends.get(end or "", active).append(job)
    return Buckets(tuple(active), tuple(successful), tuple(failed), tuple(previous))


def _attempt(job: ChildJob) -> int:
    label = job.metadata.labels.get(RESTART_ATTEMPT, "")
    if not _INTEGER.fullmatch(label):
        raise Undecidable(
            f"job {job.metadata.name!r} has {label!r} as label {RESTART_ATTEMPT}, which must be the restart attempt it"
            " was made for: put the number back, or delete the Job and it is made again"
        )
    return int(label)


def count(replicated_jobs: Iterable[ReplicatedJob], buckets: Buckets) -> tuple[ReplicatedJobStatus, ...]:
    """
    Count the Jobs of the current attempt, one entry for each replicated job, ordered by name descending.

    The order is upstream's and reaches the wire. Jobs labelled with an unknown replicated job count for none.
    """
    ready = _by_replicated_job(job for job in buckets.active if _is_ready(job))
    active = _by_replicated_job(job for job in buckets.active if job.status.active > 0)
    suspended = _by_replicated_job(job for job in buckets.active if job.spec.suspend)
    succeeded = _by_replicated_job(buckets.successful)
    failed = _by_replicated_job(buckets.failed)
    return tuple(
        ReplicatedJobStatus(
            name=name,
            ready=ready[name],
            succeeded=succeeded[name],
            failed=failed[name],
            active=active[name],
            suspended=suspended[name],
        )
        for name in sorted((rj.name for rj in replicated_jobs), reverse=True)
    )


def _by_replicated_job(jobs: Iterable[ChildJob]) -> Mapping[str, int]:
    return Counter(job.metadata.labels.get(REPLICATED_JOB_NAME, "") for job in jobs)


def _is_ready(job: ChildJob) -> bool:
    """Pods that succeeded count as ready, or a Job with short-lived pods could never be."""
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    wanted = parallelism if job.spec.completions is None else min(parallelism, job.spec.completions)
    return job.status.succeeded + job.status.ready >= wanted
