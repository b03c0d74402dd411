"""What the operator keeps of a JobSet: whether it is suspended, and its status. The templates never reach memory."""

from __future__ import annotations

from typing import Final

from ktrain.api import jobset as api
from ktrain.api.meta import Object, Resource, Struct, is_condition_true


class JobSetStateSpec(Struct, frozen=True):
    """The one field of the spec that decides whether the JobSet may be written."""

    suspend: bool = False


class JobSetState(Object, frozen=True):
    """A JobSet by its suspension and its status."""

    spec: JobSetStateSpec = JobSetStateSpec()
    status: api.JobSetStatus | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it says that it is completed or has failed."""
        conditions = self.status.conditions if self.status else ()
        return any(is_condition_true(conditions, end) for end in (api.CONDITION_COMPLETED, api.CONDITION_FAILED))


JOB_SET_STATES: Final = Resource(api.GROUP, api.VERSION, "JobSet", "jobsets", namespaced=True, type=JobSetState)
