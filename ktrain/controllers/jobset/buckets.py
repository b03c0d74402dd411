"""
Sort a JobSet's Jobs by what became of them, and count them.

Only Jobs of the current attempt count. A restart does nothing but raise `status.restarts`: by that act every Job that
exists turns into one of a previous attempt, counts nowhere any more, and is deleted by the next pass. With the gate
RestartJob a slot has an attempt of its own besides.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ktrain.api.jobset import REPLICATED_JOB_NAME, ChildJob, ReplicatedJobStatus

from .attempts import global_attempt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ktrain.api.jobset import JobSetStatus, ReplicatedJob

    from .attempts import JobAttempts


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


def sort_jobs(jobs: Iterable[ChildJob], restarts: int, attempts: JobAttempts | None = None) -> Buckets:
    """
    Put each Job in its bucket. A Job ends with Complete or Failed only; the interim conditions do not end it.

    `attempts`: those of single slots, where these count.

    Raises:
        Undecidable: A label of a Job is missing or wrong, so nobody can say which generation it is.
    """
    active: list[ChildJob] = []
    successful: list[ChildJob] = []
    failed: list[ChildJob] = []
    previous: list[ChildJob] = []
    ends = {"Complete": successful, "Failed": failed}
    for job in jobs:
        if global_attempt(job) < restarts or (attempts is not None and attempts.outdate(job)):
            previous.append(job)
            continue
        end = next((c.type for c in job.status.conditions if c.is_true and c.type in ends), None)
        ends.get(end or "", active).append(job)
    return Buckets(tuple(active), tuple(successful), tuple(failed), tuple(previous))


def count(
    replicated_jobs: Iterable[ReplicatedJob], buckets: Buckets, stored: JobSetStatus | None = None
) -> tuple[ReplicatedJobStatus, ...]:
    """
    Count the Jobs of the current attempt, one entry for each replicated job, ordered by name descending.

    The order is upstream's and reaches the wire. Jobs labelled with an unknown replicated job count for none. Restarts
    of single Jobs are carried over from `stored`; without it there are none.
    """
    restarts = {entry.name: entry for entry in stored.replicated_jobs_status} if stored is not None else {}
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
            job_restarts=restarts[name].job_restarts if name in restarts else (),
            job_restarts_count_towards_max=restarts[name].job_restarts_count_towards_max if name in restarts else (),
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
