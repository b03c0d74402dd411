"""
The state of a TrainJob in a word, for people: `status.state`, with `nodes` and `restarts` beside it. Pure.

A state is a function of what other parts of the status are computed from (conditions, counters, the diagnosis), so it
changes when they do and is stored by their writes. One that changes alone (a restart whose counters look the same by
the time they are written) is a write like that of counters. Kubeflow's own CRD drops the three fields: the status as it
was read shows no state then, and the state alone is no reason to write.

| state | while |
|---|---|
| Complete, Failed | the condition is True |
| Queued | `spec.suspend`, and the label of a Kueue queue |
| Suspended | `spec.suspend`, otherwise |
| Stalled | it would be Pending, Starting or Restarting, and the diagnosis says why it does not get on |
| Pending | there is no JobSet, or no Job of it has a pod |
| Running | all Jobs that train are ready or done; of an elastic job, as many nodes as it needs |
| Restarting | not all are ready, and the JobSet restarts, or the job was Running before |
| Starting | otherwise: the first pods start, or initializers run |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ktrain.api import jobset
from ktrain.api import trainer as api
from ktrain.api.meta import is_condition_true
from ktrain.controllers.kueue import QUEUE_LABEL

from . import elastic
from .observe import CONDITIONS_FAILED

if TYPE_CHECKING:
    from ktrain.api.jobset import JobSetStatus
    from ktrain.plugins.jobset import JobSetState

PENDING: Final = "Pending"
QUEUED: Final = "Queued"
STARTING: Final = "Starting"
RUNNING: Final = "Running"
SUSPENDED: Final = "Suspended"
RESTARTING: Final = "Restarting"
STALLED: Final = "Stalled"

_STALLS: Final = (PENDING, STARTING, RESTARTING)
_HARMLESS: Final = frozenset({elastic.UNSUPPORTED, CONDITIONS_FAILED})
"""Reasons of a diagnosis with which a job starts all the same."""


def with_state(status: api.TrainJobStatus, job: api.TrainJob, job_set: JobSetState | None) -> api.TrainJobStatus:
    """
    Return *status*, the desired one but for its diagnosis, with state, nodes and restarts.

    A JobSet that is gone, or so new that it has no counters, says nothing: the last known nodes and restarts stay.
    """
    word = _settled(job, status)
    if job_set is None or not job_set.metadata.is_controlled_by(job.metadata.uid):
        return replace(status, state=word or PENDING)
    if not (observed := job_set.status) or not observed.replicated_jobs_status:
        return replace(status, state=word or PENDING)
    nodes, restarts = _nodes(job_set, observed, status.elastic), _restarts(observed)
    if not word:
        is_idle = job_set.spec.suspend
        needed = status.elastic.min_nodes if status.elastic else nodes.wanted - _waiting(job_set, observed)
        word = PENDING if is_idle else _progress(job.status, needed, observed, nodes, restarts)
    return replace(status, state=word, nodes=nodes, restarts=restarts)


def without_state(status: api.TrainJobStatus, _job: api.TrainJob, _job_set: JobSetState | None) -> api.TrainJobStatus:
    """Return *status* as Kubeflow's operator has it: the feature gate TrainJobState is off."""
    return replace(status, state="", nodes=None, restarts=None)


def with_stall(status: api.TrainJobStatus) -> api.TrainJobStatus:
    """Return *status* as Stalled if its diagnosis says why the job does not start."""
    is_stalled = status.diagnosis is not None and status.diagnosis.reason not in _HARMLESS
    return replace(status, state=STALLED) if is_stalled and status.state in _STALLS else status


def _settled(job: api.TrainJob, status: api.TrainJobStatus) -> str:
    """Return the state that the job has whatever its JobSet does; empty if it has none of these."""
    for one in status.conditions:
        if one.is_true and one.type in (api.CONDITION_COMPLETE, api.CONDITION_FAILED):
            return one.type
    if job.is_suspended:
        return QUEUED if job.metadata.labels.get(QUEUE_LABEL) else SUSPENDED
    return ""


def _progress(shown: api.TrainJobStatus, needed: int, status: JobSetStatus, nodes: api.Nodes, restarts: int) -> str:
    """*needed*: how many nodes have to be ready. Those of an elastic job train while others join."""
    is_restarting = is_condition_true(status.conditions, jobset.CONDITION_RESTARTING)
    if 0 < needed <= nodes.ready and not is_restarting:
        return RUNNING
    is_restarted = shown.restarts is not None and restarts > shown.restarts
    if is_restarting or is_restarted or shown.state == RESTARTING:
        return RESTARTING
    if shown.state == RUNNING:
        # A job whose turn comes later adds nodes that are wanted; only fewer nodes that are ready are a restart.
        return RUNNING if shown.nodes and shown.nodes.ready <= nodes.ready else RESTARTING
    has_begun = any(one.active or one.ready or one.succeeded for one in status.replicated_jobs_status)
    return STARTING if has_begun else PENDING


def _nodes(job_set: JobSetState, status: JobSetStatus, size: api.ElasticStatus | None) -> api.Nodes:
    """Count the pods that train. An elastic job knows of each node; otherwise whole Jobs count."""
    if size is not None:
        return api.Nodes(size.observed_nodes, size.desired_nodes)
    ready = wanted = 0
    done = {one.name: one.ready + one.succeeded for one in status.replicated_jobs_status}
    for one in job_set.spec.replicated_jobs:
        if not one.initializes:
            pods = one.pods
            ready += min(done.get(one.name, 0), one.replicas) * pods
            wanted += one.replicas * pods
    return api.Nodes(ready, wanted)


def _waiting(job_set: JobSetState, status: JobSetStatus) -> int:
    """Count the wanted pods whose Jobs wait until others have succeeded."""
    succeeded = {one.name: one.succeeded for one in status.replicated_jobs_status}
    left = {one.name for one in job_set.spec.replicated_jobs if succeeded.get(one.name, 0) < one.replicas}
    return sum(
        one.replicas * one.pods
        for one in job_set.spec.replicated_jobs
        if not one.initializes and any(it.status == "Complete" and it.name in left for it in one.depends_on)
    )


def _restarts(status: JobSetStatus) -> int:
    """How often the JobSet was restarted as a whole, and its Jobs alone."""
    restarts = status.restarts
    for one in status.replicated_jobs_status:
        restarts += sum(one.job_restarts)
    return restarts
