"""
The gangs of a job that runs: what its scheduler needs of it and is gone, and why it does not place the pods. And what
else is gone that it goes on needing: what pods mount that come in place of failed ones, an autoscaler. Pure.

A scheduler says anew in each of its cycles why a gang waits, often in other words (how many nodes lack what). That a
job waits is news once; other words are taken over at most once a minute, so that they cost few events and writes.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from ktrain import pipeline
from ktrain.pipeline.errors import PipelineError
from ktrain.pipeline.points import Address

from . import status as statuses
from .observe import Failure

if TYPE_CHECKING:
    from ktrain.api.trainer import RuntimeSpec
    from ktrain.pipeline import Gang, Registry

    from .observe import Observed

REWORD_AFTER: Final = timedelta(minutes=1)


class Gangs(NamedTuple):
    """What there is to do about the gangs of a running job."""

    missing: tuple[Address, ...] = ()
    """Also of what the job goes on needing otherwise."""
    failure: Failure | None = None
    """What to tell about them."""
    requeue_after_s: float | None = None
    """When there may be more to tell."""


def look(observed: Observed, registry: Registry, runtime: RuntimeSpec) -> Gangs:
    """Look at the gangs of a running job."""
    try:
        found = pipeline.gangs(registry, observed.job, runtime, observed.context)
        kept = pipeline.upkeep(registry, observed.job, runtime, observed.context)
    except PipelineError as error:
        return Gangs(failure=Failure.of(error))
    needed = (*(Address(gang.resource, gang.key) for gang in found), *kept)
    missing = tuple(
        where for where in needed if where.resource in observed.kinds and observed.context.lookup(*where) is None
    )
    return _waiting(observed, found)._replace(missing=missing)


def _waiting(observed: Observed, gangs: tuple[Gang, ...]) -> Gangs:
    """Say what the first gang that waits says, once the job has had time to start."""
    job, now, known = observed.job, observed.context.now, observed.memory.failure
    wait = next((gang.wait for gang in gangs if gang.wait), None)
    if wait is None:
        return Gangs()
    failure = Failure(wait.reason, wait.message, at_once=True, event=wait.reason, is_final=True)
    if known is not None and known.event == failure.event:
        due = (observed.memory.told or now) + REWORD_AFTER
    else:
        due = (statuses.running_since(job, job.status.conditions) or now) + timedelta(seconds=wait.patience_s)
        known = None
    if now >= due or failure == known:
        return Gangs(failure=failure)
    return Gangs(failure=known, requeue_after_s=(due - now).total_seconds())
