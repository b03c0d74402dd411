"""What the operator keeps of a JobSet: if it is suspended, its sizes, its status. The templates never reach memory."""

from __future__ import annotations

from typing import Final

from ktrain.api import jobset as api
from ktrain.api.meta import Alike, Object, Resource, Struct, is_condition_true


class JobTemplateState(Struct, frozen=True):
    """The size in a Job template."""

    spec: api.JobSize = api.JobSize()


class ReplicatedJobState(Struct, frozen=True):
    """A replicated job by its name, its Jobs' size and number, and what it waits for."""

    name: str = ""
    template: JobTemplateState = JobTemplateState()
    replicas: int = 1
    depends_on: tuple[api.DependsOn, ...] = ()


class JobSetStateSpec(Struct, frozen=True):
    """Whether the JobSet may be written, and what may change even if not."""

    suspend: bool = False
    replicated_jobs: tuple[ReplicatedJobState, ...] = ()


class JobSetState(Object, frozen=True):
    """A JobSet by its suspension, its sizes and its status."""

    spec: Alike[JobSetStateSpec] = JobSetStateSpec()
    status: api.JobSetStatus | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it says that it is completed or has failed."""
        conditions = self.status.conditions if self.status else ()
        return any(is_condition_true(conditions, end) for end in (api.CONDITION_COMPLETED, api.CONDITION_FAILED))


JOB_SET_STATES: Final = Resource(api.GROUP, api.VERSION, "JobSet", "jobsets", namespaced=True, type=JobSetState)
