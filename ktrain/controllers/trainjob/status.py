"""
The desired status of a TrainJob, and the smallest merge patch that gets it there. Pure functions.

The controller sets Kubeflow's conditions only, and none before the job is suspended for the first time or ends: the SDK
calls an unfinished job Running only if it has none, and upstream's State column takes the last one for the job's state.
Conditions of plugins and of other controllers come before them. What hinders a job goes to our own `diagnosis`, what it
does to our own `state`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api import trainer as api
from ktrain.api.meta import Condition, condition_json, find_condition, format_time, is_condition_true

if TYPE_CHECKING:
    from ktrain.api.meta import Json

    from .observe import Memory

REASON_DEADLINE: Final = "DeadlineExceeded"
REASON_UNSUPPORTED: Final = "TrainingRuntimeNotSupported"

DIAGNOSE_AFTER_S: Final = 2.5
"""A failure that passes sooner is not worth a status write: a runtime may be applied just after its job."""
_MAX_DIAGNOSIS: Final = 1024
_SUSPENDED: Final = ("True", "Suspended", "TrainJob is suspended")
_RESUMED: Final = ("False", "Resumed", "TrainJob is resumed")


def with_condition(conditions: tuple[Condition, ...], new: Condition, now: datetime) -> tuple[Condition, ...]:
    """Set one condition. Its transition time moves only when its status does; a new one goes to the end."""
    old = find_condition(conditions, new.type)
    if old and old.status == new.status:
        new = msgspec.structs.replace(new, last_transition_time=old.last_transition_time)
    elif new.last_transition_time is None:
        new = msgspec.structs.replace(new, last_transition_time=now)
    if old is None:
        return (*conditions, new)
    return tuple(new if condition.type == new.type else condition for condition in conditions)


def with_suspension(job: api.TrainJob, now: datetime) -> tuple[Condition, ...]:
    """
    Say that the job is suspended, or that it was and is resumed. A job that has never been suspended says neither.

    A finished job keeps its conditions: Go's Trainer appends Suspended to them, and kubectl then shows that as state.
    """
    conditions = job.status.conditions
    if job.is_finished:
        return conditions
    if job.is_suspended:
        return with_condition(conditions, Condition(api.CONDITION_SUSPENDED, *_SUSPENDED), now)
    if is_condition_true(conditions, api.CONDITION_SUSPENDED):
        return with_condition(conditions, Condition(api.CONDITION_SUSPENDED, *_RESUMED), now)
    return conditions


def failed(reason: str, message: str, now: datetime) -> Condition:
    """Build the condition of a job that the controller itself ends."""
    return Condition(api.CONDITION_FAILED, "True", reason, message, now)


def remaining(job: api.TrainJob, conditions: tuple[Condition, ...], now: datetime) -> timedelta | None:
    """
    Time until the job's deadline, zero or less if it has passed; None if none runs.

    The clock starts with the job, and anew with each resumption; while the job is suspended it stands.
    """
    if not job.spec.active_deadline_seconds or job.is_suspended:
        return None
    start = running_since(job, conditions)
    if start is None:
        return None
    return start + timedelta(seconds=job.spec.active_deadline_seconds) - now


def running_since(job: api.TrainJob, conditions: tuple[Condition, ...]) -> datetime | None:
    """Return when a job that is not suspended was created or, since then, resumed."""
    resumed = find_condition(conditions, api.CONDITION_SUSPENDED)
    if resumed and resumed.status == "False":
        return resumed.last_transition_time
    return job.metadata.creation_timestamp


def diagnosis(job: api.TrainJob, memory: Memory, now: datetime) -> api.Diagnosis | None:
    """Return what the status should say about failures."""
    failure, since = memory.failure, memory.failing_since
    if failure is None or since is None:
        return None
    shown, message = job.status.diagnosis, failure.message[:_MAX_DIAGNOSIS]
    same = shown and (shown.reason, shown.message) == (failure.reason, message)
    lasts = failure.at_once or (now - since).total_seconds() >= DIAGNOSE_AFTER_S
    if same or memory.diagnosed == failure or not lasts:
        return shown
    return api.Diagnosis(failure.reason, message, since)


def is_early(job: api.TrainJob, memory: Memory, diagnosis: api.Diagnosis | None, *, is_held: bool = False) -> bool:
    """
    Whether the status must not say yet that the job has begun, or goes on: it is how another process knows, if this one
    dies, that all was written (see `build`). For some seconds, until it can say, too, that not all was.
    """
    begins = not job.status.jobs_status or is_condition_true(job.status.conditions, api.CONDITION_SUSPENDED)
    is_told = diagnosis is not None or (memory.diagnosed == memory.failure and not (is_held and memory.failure is None))
    return bool(memory.is_incomplete) and begins and not (job.is_suspended or is_told)


def is_urgent(old: api.TrainJobStatus, new: api.TrainJobStatus) -> bool:
    """Whether a user waits for the change. Counters, the state and plugins' conditions can wait for the next ones."""
    return _kubeflows(old.conditions) != _kubeflows(new.conditions) or old.diagnosis != new.diagnosis


def _kubeflows(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    return tuple(one for one in conditions if one.type in api.CONDITIONS)


def _others(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    return tuple(one for one in conditions if one.type not in api.CONDITIONS)


def merge_patch(job: api.TrainJob, new: api.TrainJobStatus) -> Json | None:
    """
    Return the merge patch of the status subresource; None if there is nothing to change.

    Only changed fields are in it, so `trainerStatus`, another writer's, is never touched. The resource version makes it
    a write to the very object that was looked at: a job deleted and made again under its name is another job, and no
    condition that another controller has set meanwhile is lost. Kubeflow's conditions come last: clients of upstream
    take the last one for the job's state.
    """
    old, status = job.status, dict[str, object]()
    if new.conditions != old.conditions:
        ordered = (*_others(new.conditions), *_kubeflows(new.conditions))
        status["conditions"] = list(map(condition_json, ordered))
    if new.jobs_status != old.jobs_status:
        status["jobsStatus"] = msgspec.to_builtins(new.jobs_status) or None
    if new.diagnosis != old.diagnosis:
        status["diagnosis"] = _diagnosis(new.diagnosis)
    if new.elastic != old.elastic:
        status["elastic"] = _elastic(new.elastic)
    # The state is worth a write of its own if an earlier one shows, so that the CRD is known to keep it.
    if status or old.state:
        status |= _state(old, new)
    if not status:
        return None
    # The CRD refuses an empty status, but not that there is none. Upstream's drops what stands beside the state, too.
    stateless = msgspec.structs.replace(new, state="", nodes=None, restarts=None)
    is_last = stateless == api.TrainJobStatus() and old.trainer_status is None and not old.state
    return {"metadata": {"resourceVersion": job.metadata.resource_version}, "status": None if is_last else status}


def _state(old: api.TrainJobStatus, new: api.TrainJobStatus) -> Json:
    """Write what changed of the state and of the numbers beside it."""
    changes: Json = {}
    if new.state != old.state:
        changes["state"] = new.state
    if (nodes := new.nodes) != old.nodes:
        summary = nodes and f"{nodes.ready}/{nodes.wanted}"
        changes["nodes"] = nodes and {"ready": nodes.ready, "wanted": nodes.wanted, "summary": summary}
    if new.restarts != old.restarts:
        changes["restarts"] = new.restarts
    return changes


def _diagnosis(diagnosis: api.Diagnosis | None) -> Json | None:
    if diagnosis is None:
        return None
    since = {"since": format_time(diagnosis.since)} if diagnosis.since else {}
    return {"reason": diagnosis.reason, "message": diagnosis.message, **since}


def _elastic(elastic: api.ElasticStatus | None) -> Json | None:
    """Write all of it: the zero is what an autoscaler asks for."""
    return None if elastic is None else {name: getattr(elastic, field) for field, name in _ELASTIC.items()}


_ELASTIC: Final = dict(
    zip(api.ElasticStatus.__struct_fields__, api.ElasticStatus.__struct_encode_fields__, strict=True)
)
