"""
Elastic TrainJobs: the one thing of a running JobSet that may change is how many pods the Job of its nodes has. Pure.

JobSets take that behind the feature gate ElasticJobSet only, and whether it is on shows when one is refused. A size
that was refused is not asked for again: the job keeps the size that it has, also when it is suspended and resumed,
until somebody asks for another one or the operator starts anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ktrain.plugins.jobset import JOB_SET_STATES

from .observe import Failure

if TYPE_CHECKING:
    from ktrain.api import trainer as api
    from ktrain.api.meta import Json
    from ktrain.framework.errors import ApiError
    from ktrain.pipeline import Component, Size
    from ktrain.plugins.jobset import JobSetState

    from .observe import Memory

UNSUPPORTED: Final = "ElasticScalingUnsupported"
_REFUSALS: Final = (400, 403, 422)
_FIELDS: Final = ("parallelism", "completions")


@dataclass(frozen=True, slots=True)
class Resize:
    """Another size for a replicated job of a running JobSet."""

    job_set: JobSetState
    replicated_job: str
    nodes: int

    @property
    def patch(self) -> list[Json]:
        """A JSON patch that writes both numbers, or nothing if it is another JobSet by now."""
        names = [job.name for job in self.job_set.spec.replicated_jobs]
        path = f"/spec/replicatedJobs/{names.index(self.replicated_job)}"
        return [
            {"op": "test", "path": "/metadata/uid", "value": self.job_set.metadata.uid},
            {"op": "test", "path": f"{path}/name", "value": self.replicated_job},
            *({"op": "add", "path": f"{path}/template/spec/{field}", "value": self.nodes} for field in _FIELDS),
        ]


def resize(job: api.TrainJob, job_set: JobSetState, size: Size, memory: Memory) -> Resize | Failure | None:
    """Return what to change of a running JobSet; why it cannot be, if that is known; None if nothing is to change."""
    nodes = size.status.desired_nodes
    present = _sizes(job_set).get(size.replicated_job)
    if present is None or present == (nodes, nodes) or not size.is_open:
        return None
    if memory.refused_nodes == nodes:
        return unsupported(job, job_set, size)
    return Resize(job_set, size.replicated_job, nodes)


def refused(job: api.TrainJob, job_set: JobSetState, size: Size, memory: Memory, error: ApiError) -> Failure | None:
    """Return what to say if it is the new size for which the API server did not take the JobSet, and that is news."""
    nodes, text = size.status.desired_nodes, error.status.message or str(error)
    if memory.refused_nodes == nodes or _sizes(job_set).get(size.replicated_job) == (nodes, nodes):
        return None
    fixed = error.code in _REFUSALS and "replicatedJobs" in text and "field is immutable" in text
    return unsupported(job, job_set, size) if fixed else None


def unsupported(job: api.TrainJob, job_set: JobSetState, size: Size) -> Failure:
    """Say that the size cannot change."""
    present = _sizes(job_set).get(size.replicated_job, (None, None))[0]
    message = (
        f"TrainJob {job.key} is to have {size.status.desired_nodes} nodes, but its JobSet may not change its size: the"
        f" JobSet controller needs the feature gate ElasticJobSet (JobSet 0.12); the job goes on with {present}"
    )
    return Failure(UNSUPPORTED, message, at_once=True, event=UNSUPPORTED, is_final=True)


def with_present_size(
    component: Component, job_set: JobSetState | None, size: Size | None, memory: Memory
) -> Component:
    """Return a JobSet to be written in the size that it has, if another was refused; anything else as it is."""
    if component.resource != JOB_SET_STATES or job_set is None or size is None:
        return component
    if memory.refused_nodes != size.status.desired_nodes:
        return component
    sizes = _sizes(job_set)
    spec = component.body["spec"]
    jobs = [_sized(rjob, sizes.get(str(rjob.get("name")))) for rjob in spec.get("replicatedJobs") or ()]
    return replace(component, body=component.body | {"spec": spec | {"replicatedJobs": jobs}})


def _sized(replicated_job: Json, size: tuple[int | None, int | None] | None) -> Json:
    if size is None:
        return replicated_job
    template = replicated_job["template"]
    spec = template["spec"] | {field: n for field, n in zip(_FIELDS, size, strict=True) if n is not None}
    return replicated_job | {"template": template | {"spec": spec}}


def _sizes(job_set: JobSetState) -> dict[str, tuple[int | None, int | None]]:
    specs = ((job.name, job.template.spec) for job in job_set.spec.replicated_jobs)
    return {name: (spec.parallelism, spec.completions) for name, spec in specs}
