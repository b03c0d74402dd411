"""
Suspending a JobSet as it is.

Whoever suspends a job, or preempts it, wants its pods to go, and that needs no more than the JobSet that we own: not
its runtime, no plugin, and nothing of what stands beside it. So when a JobSet that should be suspended cannot be
written as a whole, this is what is written of it. The rest follows when it can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.plugins.jobset import JOB_SET_STATES

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.framework.client.client import Client
    from ktrain.plugins.jobset import JobSetState

    from .observe import Observed


def to_stop(observed: Observed) -> JobSetState | None:
    """Return the JobSet if it runs and should not. What ends, or goes, is left to its end."""
    job, job_set = observed.job, observed.job_set
    if job_set is None or not job_set.metadata.is_controlled_by(job.metadata.uid):
        return None
    runs = not (job_set.spec.suspend or job_set.metadata.deletion_timestamp or job_set.has_ended)
    is_wanted = job.is_suspended and not (job.is_finished or job.metadata.deletion_timestamp)
    return job_set if is_wanted and runs else None


async def stop(client: Client, job_set: JobSetState) -> JobSetState:
    """
    Suspend this very JobSet.

    Patched, not applied with all that it has: an apply would make the operator own what admission has set, the next
    apply would remove that, and JobSets refuse such a change. The next apply sets `suspend` whatever was patched,
    because TrainJobs have that field by default.

    Raises:
        FrameworkError: The API server refused, or could not be reached.
    """
    patch: Json = {"metadata": {"uid": job_set.metadata.uid}, "spec": {"suspend": True}}
    return await client.patch(JOB_SET_STATES, job_set.key, patch)
