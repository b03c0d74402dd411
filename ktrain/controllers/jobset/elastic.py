"""
Elastic JobSets (gate ElasticJobSet): parallelism and completions change together while Jobs run.

The template says how large a Job should be; Jobs that exist are patched to it. The Job controller does the rest: it
adds pods at the end of the index, or removes them there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ktrain.api.jobset import REPLICATED_JOB_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ktrain.api.jobset import ChildJob, ReplicatedJob


@dataclass(frozen=True, slots=True)
class Resize:
    """A Job that should have another size."""

    job: ChildJob
    size: int


def to_resize(active: Iterable[ChildJob], replicated_jobs: Iterable[ReplicatedJob]) -> Iterator[Resize]:
    """
    Unfinished Jobs whose size is not that of their template.

    Templates are compared as the API server would store them: without either number a Job has size 1. One whose
    numbers differ is not elastic, and left alone.
    """
    sizes = {rj.name: _size(rj) for rj in replicated_jobs}
    for job in active:
        size = sizes.get(job.metadata.labels.get(REPLICATED_JOB_NAME, ""))
        if size is not None and (job.spec.parallelism, job.spec.completions) != (size, size):
            yield Resize(job, size)


def _size(rj: ReplicatedJob) -> int | None:
    given = rj.size
    if given.parallelism is None and given.completions is None:
        return 1
    parallelism = 1 if given.parallelism is None else given.parallelism
    return parallelism if parallelism == given.completions else None
