"""
Suspending a JobSet as it is.

Whoever suspends a job, or preempts it, wants its pods to go, and that needs no more than the JobSet that we own: not
its runtime, no plugin, and nothing of what stands beside it. So when a JobSet that should be suspended cannot be
written as a whole, this is what is written of it. The rest follows when it can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import core
from ktrain.plugins.jobset import JOB_SET_STATES

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.framework.client.client import Client
    from ktrain.plugins.jobset import JobSetState

    from .observe import Observed

_KEPT: Final = ("name", "namespace", "resourceVersion", "labels", "annotations", "ownerReferences")


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

    Applied with all that it has, not patched: what a patch sets is not taken back by an apply that leaves it out.

    Raises:
        FrameworkError: The API server refused, or could not be reached.
    """
    live = await client.get(core.untyped(JOB_SET_STATES), job_set.key.name, job_set.key.namespace)
    metadata = {field: live["metadata"][field] for field in _KEPT if field in live["metadata"]}
    body: Json = {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": metadata | {"uid": job_set.metadata.uid},
        "spec": live["spec"] | {"suspend": True},
    }
    return await client.apply(JOB_SET_STATES, body)
