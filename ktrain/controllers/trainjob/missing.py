"""
What is told of TrainJobs while the cluster lacks a kind that they need, most likely JobSet.

The controller waits for it, so no pass runs that could tell; without a word, a job would look as if nobody cared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ktrain.api import trainer as api

from .telling import CREATION_FAILED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.framework.cache.informer import Informer
    from ktrain.framework.events import EventRecorder


async def tell_of_missing(
    recorder: EventRecorder, jobs: Informer[api.TrainJob], missing: Sequence[Informer[Any]]
) -> None:
    """Say in one event of each job, those that come meanwhile too, what it waits for. Ends when it is cancelled."""
    with jobs.subscribe() as changes:
        async for change in changes:
            job = change.new
            if change.old is not None or job is None or job.is_finished or not job.is_managed_here:
                continue
            kinds = ", ".join(informer.resource.qualified_name for informer in missing if not informer.synced)
            if not kinds:
                return
            recorder.event(
                api.TRAIN_JOBS,
                job,
                type="Warning",
                reason=CREATION_FAILED,
                message=f"TrainJob resources reconciliation failed: the cluster does not serve {kinds}, which it needs"
                " to start. Once it is installed (JobSet's operator brings JobSets), the TrainJob goes on by itself.",
                action="Reconciling",
            )
