"""
From what is known of a TrainJob to what should be written. Pure and synchronous: no awaits, no side effects.

The rules, in the order in which they are asked (Kubeflow Trainer's reconciler, without its races):

1. Of a job that another controller manages, nothing is written.
2. A finished job gets no child any more. If its deadline ended it, its JobSet is deleted until it is gone.
3. Only an owner's UID proves that an object is ours. An object of another owner with our name is left alone.
4. The runtime is read once, into a snapshot. From then on only the snapshot counts.
5. Components are built when the JobSet is not there, or while it or the job is suspended; a running one is left alone,
   but for the size of an elastic one. What schedulers need of a running gang is made again if it vanishes.
6. No plugin keeps a job from its end, or from being suspended: one that fails is told, and asked again.
7. The status follows the JobSet. What cannot be built, or placed, is said in an event and, if it lasts, in the status;
   so is what keeps a JobSet from having its Jobs and pods.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ktrain import pipeline
from ktrain.api import trainer as api
from ktrain.api.meta import find_condition
from ktrain.pipeline.errors import PluginOverrun
from ktrain.pipeline.points import Removal
from ktrain.plugins.jobset import JOB_SET_STATES

from . import stalls
from . import state as states
from . import status as statuses
from .build import build, runtime_key
from .decision import Decision
from .observe import CONDITIONS_FAILED, Failure
from .stopping import to_stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Condition
    from ktrain.pipeline import Registry
    from ktrain.pipeline.errors import PipelineError

    from .observe import Observed

_MINIMUM_WAIT: Final = timedelta(seconds=1)


def decide(observed: Observed, registry: Registry) -> Decision:
    """Decide what to do about one TrainJob."""
    job = observed.job
    if not job.is_managed_here:
        return Decision()
    failures: list[PipelineError] = []
    status = _status(observed, registry, failures)
    ended = replace_status(job, status).is_finished
    if failures and not ended:
        return _unknown(observed, status, _told(failures))
    status, unsaid = _with_own_conditions(observed, registry, status)
    stops = ended or job.is_suspended
    removals = pipeline.removals(registry, job, observed.context, failures) if stops else ()
    idle = ended or job.metadata.deletion_timestamp
    building = _last(observed, status) if idle else stalls.beside(observed, build(observed, registry))
    if building.size:
        status = msgspec.structs.replace(status, elastic=building.size.status)
    with_state = states.with_state if observed.shows_state else states.without_state
    status = with_state(status, job, observed.job_set)
    removals = (*building.removals, *_overdue(observed, status), *removals)
    removals = tuple(removal for removal in removals if removal.uid not in observed.memory.deleted)
    undeleted = observed.memory.undeleted if removals else None
    return replace(
        building,
        status=status,
        removals=removals,
        is_built=building.is_built and not failures,
        failure=building.failure or (_told(failures) if failures else undeleted or unsaid),
        requeue_after_s=None if ended else _next_look_s(observed, status, building),
    )


def _told(failures: Sequence[PipelineError]) -> Failure:
    """Tell one of them: that which has the longest wait."""
    return Failure.of(next((one for one in failures if isinstance(one, PluginOverrun)), failures[0]))


def _unknown(observed: Observed, status: api.TrainJobStatus, failure: Failure) -> Decision:
    """Decide what to do while a plugin cannot say how the job is: no more than that it stops if it should."""
    idle = Decision(stops=to_stop(observed), is_built=False, failure=failure)
    return replace(idle, requeue_after_s=_next_look_s(observed, status, idle))


def _last(observed: Observed, status: api.TrainJobStatus) -> Decision:
    """
    Decide what to write for a job that ends: what it ran on, if that is not stored yet. After its end, nothing.

    Nor for one that its deadline ends: its pods go on until the end is told, and that does not wait for a snapshot.
    """
    job = observed.job
    is_over = job.is_finished or job.metadata.deletion_timestamp is not None or observed.snapshot is not None
    return Decision(snapshot=None if is_over or _is_overdue(status) else observed.taken)


def _next_look_s(observed: Observed, status: api.TrainJobStatus, building: Decision) -> float | None:
    left = statuses.remaining(observed.job, status.conditions, observed.context.now)
    deadline_s = None if left is None else max(left, _MINIMUM_WAIT).total_seconds()
    return min((time for time in (deadline_s, building.requeue_after_s) if time is not None), default=None)


def replace_status(job: api.TrainJob, status: api.TrainJobStatus) -> api.TrainJob:
    """Return *job* as it is with another status."""
    return msgspec.structs.replace(job, status=status)


def _status(observed: Observed, registry: Registry, failures: list[PipelineError]) -> api.TrainJobStatus:
    """Return the status, as far as it is known: plugins that fail are noted, and keep no job from its end."""
    job, ctx = observed.job, observed.context
    conditions = statuses.with_suspension(job, ctx.now)
    end = None if job.is_finished else _end(observed, registry, failures)
    counters = pipeline.jobs_status(registry, job, ctx, failures)
    if end:
        conditions = statuses.with_condition(conditions, end, ctx.now)
    # A JobSet that is gone, or so new that it has no counters, says nothing; the last known ones stay.
    return msgspec.structs.replace(job.status, conditions=conditions, jobs_status=counters or job.status.jobs_status)


def _with_own_conditions(
    observed: Observed, registry: Registry, status: api.TrainJobStatus
) -> tuple[api.TrainJobStatus, Failure | None]:
    """Return *status* with the conditions of plugins. One that fails to say them is reported, and delays nothing."""
    job, ctx, conditions = observed.job, observed.context, status.conditions
    failures: list[PipelineError] = []
    if job.is_finished:
        return status, None
    for own in pipeline.conditions(registry, job, ctx, failures):
        conditions = statuses.with_condition(conditions, own, ctx.now)
    told = dataclasses.replace(_told(failures), reason=CONDITIONS_FAILED) if failures else None
    return msgspec.structs.replace(status, conditions=conditions), told


def _end(observed: Observed, registry: Registry, failures: list[PipelineError]) -> Condition | None:
    job, now = observed.job, observed.context.now
    if runtime_key(job) is None:
        kind = ".".join(part for part in (job.spec.runtime_ref.kind, job.spec.runtime_ref.api_group) if part)
        return statuses.failed(statuses.REASON_UNSUPPORTED, f"unsupported runtime: {kind}", now)
    if end := pipeline.terminal_condition(registry, job, observed.context, failures):
        return end
    left = statuses.remaining(job, statuses.with_suspension(job, now), now)
    if left is not None and left <= timedelta():
        return statuses.failed(statuses.REASON_DEADLINE, "TrainJob exceeded its active deadline", now)
    return None


def _overdue(observed: Observed, status: api.TrainJobStatus) -> tuple[Removal, ...]:
    """Return the JobSet of a job that its deadline ended."""
    job_set = observed.job_set
    if job_set is None or not job_set.metadata.is_controlled_by(observed.job.metadata.uid):
        return ()
    is_left = _is_overdue(status) and not job_set.metadata.deletion_timestamp
    return (Removal.of(JOB_SET_STATES, job_set),) if is_left else ()


def _is_overdue(status: api.TrainJobStatus) -> bool:
    """Whether it was its deadline that ended the job."""
    failed = find_condition(status.conditions, api.CONDITION_FAILED)
    return failed is not None and failed.is_true and failed.reason == statuses.REASON_DEADLINE
