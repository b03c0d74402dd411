"""
Follows the lives of TrainJobs, for their metrics, while this process leads.

It is a handler of two informers and makes no API call. Each milestone of a life is observed once, when an event shows
that it is reached. When the observer starts, the milestones that a TrainJob is past already are not observed again;
only a suspended TrainJob begins anew, because its status does not tell whether it ran before.

Times are taken from the clock of this process: the timestamps of the API server have whole seconds. An object whose
creation was seen at once was created when it was seen; otherwise its `creationTimestamp` counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec

from ktrain.api import trainer as api
from ktrain.plugins.jobset import JOB_SET_STATES

from ..scope import is_watched
from .build import runtime_key
from .lookups import is_of_train_jobs
from .metrics import MILESTONES, JobSeries, Nodes, Place
from .observe import INTERNAL_ERROR, PLUGIN_FAILED, RUNTIMES
from .state import PENDING, RESTARTING, RUNNING, STALLED, STARTING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import TaskStatus

    from ktrain.api.meta import Key, Resource
    from ktrain.framework.cache.cache import Cache
    from ktrain.framework.cache.informer import Informer
    from ktrain.framework.env import Env
    from ktrain.framework.metrics import Metrics
    from ktrain.framework.telemetry.tracing import Tracing
    from ktrain.plugins.jobset import JobSetState

UNKNOWN: Final = "Unknown"
DEFECTS: Final = frozenset({INTERNAL_ERROR, PLUGIN_FAILED})
"""Reasons of a diagnosis that name a defect of the operator or of a plugin."""
_FRESH_S: Final = 2.0
"""An object that is no older when it is first seen was created just now: timestamps have whole seconds."""
_JOBSET, _ADMITTED, _FIRST_POD, _RUNNING = (1 << number for number in range(4))
_GANG_WAITS: Final = frozenset({PENDING, STARTING, STALLED})
_NO_NODES: Final = Nodes(0, 0, 0)
_UNBLOCKED: Final = ("", "")
_MAX_GANGS: Final = 1000
"""Runtimes that are remembered."""


class _Gang(msgspec.Struct, rename="camel"):
    """The part of a runtime that says whether its TrainJobs are gangs."""

    pod_group_policy: msgspec.Raw = api.ABSENT


_decode_gang: Final = msgspec.json.Decoder(_Gang)


class _Life(msgspec.Struct, gc=False):
    """What is known of one unfinished TrainJob, and what it contributes to gauges."""

    place: Place
    created_s: float
    reached: int = 0
    """The milestones that were observed or passed, a bit each."""
    admitted_s: float | None = None
    """When its pods were last allowed to start; 0 if that was before this observer. None while they are not."""
    is_gang: bool | None = None
    """None while its runtime is not known."""
    waits: bool = False
    nodes: Nodes = _NO_NODES
    blocked: tuple[str, str] = _UNBLOCKED
    """Namespace and reason."""
    was_hindered: bool = False
    """Whether something else than a defect kept it from having a JobSet: no fault of the operator's."""
    restarts: int = 0
    trace_id: str = ""


class JobMetrics:
    """
    Keeps the series of TrainJobs up to date. Runs while this process leads.

    Lives are followed from the start, so that a replica that comes to lead need not look at all TrainJobs at once.
    """

    name = "trainjob_metrics"

    def __init__(self, metrics: Metrics, cache: Cache, env: Env) -> None:
        self.series = JobSeries(metrics, self._now_s)
        self._env = env
        self._jobs: Informer[api.TrainJob] = cache.informer(api.TRAIN_JOBS)
        self._job_sets: Informer[JobSetState] = cache.informer(JOB_SET_STATES, holds=is_of_train_jobs)
        self._runtimes: dict[Resource[Any], Informer[api.Runtime]] = {
            resource: cache.informer(resource) for resource in RUNTIMES.values() if is_watched(cache, resource)
        }
        self._lives: dict[str, _Life] = {}
        """By the UID of unfinished TrainJobs."""
        self._places: dict[str, Place] = {}
        """Of all TrainJobs, by UID."""
        self._gangs: dict[str, tuple[str, bool]] = {}
        """Whether a runtime has a gang policy, by its UID and resource version."""
        self._jobs.add_handler(self)
        self._job_sets.add_handler(_JobSets(self))

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Observe and show, until cancelled, what is only followed otherwise."""
        self.series.leads = True
        task_status.started()
        try:
            await anyio.sleep_forever()
        finally:
            self.series.leads = False

    def traced(self, reconcile: Callable[[Key], Awaitable[None]], tracing: Tracing) -> Callable[[Key], Awaitable[None]]:
        """Return *reconcile* that notes its trace: the milestones that follow from it have the trace as exemplar."""

        async def noting(key: Key) -> None:
            trace_id = tracing.trace_id()
            if trace_id and (job := self._jobs.get(key)) and (life := self._lives.get(job.metadata.uid)):
                life.trace_id = trace_id
            await reconcile(key)

        return noting

    # A handler of TrainJobs

    def on_add(self, obj: api.TrainJob, *, initial: bool) -> None:
        """Begin to follow a TrainJob, unless it has ended."""
        place = self.series.enter(obj.metadata.namespace, obj.spec.runtime_ref.name)
        self._places[obj.metadata.uid] = place
        self.series.phases[*place, obj.status.state or UNKNOWN] += 1
        if not obj.is_finished:
            life = _Life(place, self._created_s(obj), restarts=obj.status.restarts or 0)
            self._lives[obj.metadata.uid] = life
            self.follow(life, obj, was_there=initial)

    def on_update(self, old: api.TrainJob, new: api.TrainJob) -> None:
        """Count what has changed."""
        before, after = old.status.state or UNKNOWN, new.status.state or UNKNOWN
        if before != after:
            place = self._places[new.metadata.uid]
            self.series.phases[*place, before] -= 1
            self.series.phases[*place, after] += 1
        life = self._lives.get(new.metadata.uid)
        if life is not None and (old.status != new.status or old.is_suspended != new.is_suspended):
            self.follow(life, new)
            if new.is_finished:
                self._end(life, new)

    def on_delete(self, obj: api.TrainJob) -> None:
        """Follow a TrainJob no more."""
        place = self._places.pop(obj.metadata.uid)
        self.series.phases[*place, obj.status.state or UNKNOWN] -= 1
        if (life := self._lives.pop(obj.metadata.uid, None)) is not None:
            self._contribute(life, obj.metadata.uid, _NO_NODES, _UNBLOCKED, waits=False)
        self.series.leave(place)

    # Lives

    def follow_owner(self, job_set: JobSetState, *, was_there: bool = False) -> None:
        """Follow the TrainJob that controls a JobSet."""
        owner = job_set.metadata.controller
        if owner and (life := self._lives.get(owner.uid)) and (job := self._jobs.get(job_set.key)):
            self.follow(life, job, was_there=was_there)

    def follow(self, life: _Life, job: api.TrainJob, *, was_there: bool = False) -> None:
        """Observe the milestones that a TrainJob has come to, and replace what it contributes to gauges."""
        job_set = self._job_sets.get(job.key)
        if job_set is not None and not job_set.metadata.is_controlled_by(job.metadata.uid):
            job_set = None
        was_there = was_there or not self.series.leads
        is_admitted = job_set is not None and not job_set.spec.suspend and not job.is_suspended
        if not is_admitted:
            life.admitted_s = None
        elif life.admitted_s is None:
            life.admitted_s = 0.0 if was_there else self._now_s()
        if job_set is None and job.status.diagnosis and job.status.diagnosis.reason not in DEFECTS:
            life.was_hindered = True
        reached = _reached(job, job_set, is_admitted=is_admitted)
        if was_there:
            life.reached |= reached and (1 << reached.bit_length()) - 1
        elif new := reached & ~life.reached:
            life.reached |= new
            self._observe(life, new)
        restarts = job.status.restarts or 0
        if restarts > life.restarts and not was_there:
            self.series.restarts[life.place] += restarts - life.restarts
        life.restarts = restarts
        if life.is_gang is None:
            life.is_gang = self._is_gang(job)
        waits = bool(life.is_gang) and is_admitted and not life.reached & _RUNNING and _is_starting(job)
        self._contribute(life, job.metadata.uid, _nodes(job, job_set), self._blocked(life, job), waits=waits)
        if life.blocked != _UNBLOCKED and job.status.diagnosis and (since := job.status.diagnosis.since):
            self.series.blocked_since[life.blocked[1]][job.metadata.uid] = since.timestamp()

    def _observe(self, life: _Life, new: int) -> None:
        now_s, exemplar = self._now_s(), _exemplar(life)
        for number, milestone in enumerate(MILESTONES[:-1]):
            if new & (1 << number) and not (life.was_hindered and milestone == MILESTONES[0]):
                self.series.milestones[milestone](max(0.0, now_s - life.created_s), exemplar)
        if new & _JOBSET:
            self.series.created[life.place] += 1
        if new & _RUNNING and life.is_gang and life.admitted_s:
            self.series.gang_wait(max(0.0, now_s - life.admitted_s), exemplar)

    def _end(self, life: _Life, job: api.TrainJob) -> None:
        del self._lives[job.metadata.uid]
        if not self.series.leads:
            return
        self.series.milestones[MILESTONES[-1]](max(0.0, self._now_s() - life.created_s), _exemplar(life))
        for one in job.status.conditions:
            if one.is_true and one.type in (api.CONDITION_COMPLETE, api.CONDITION_FAILED):
                self.series.end(life.place, one.type, one.reason)
                break

    def _contribute(self, life: _Life, uid: str, nodes: Nodes, blocked: tuple[str, str], *, waits: bool) -> None:
        if nodes != life.nodes:
            self.series.move_nodes(life.place, life.nodes, nodes)
            life.nodes = nodes
        if blocked != life.blocked:
            if life.blocked != _UNBLOCKED:
                self.series.unblock(uid, *life.blocked)
            if blocked != _UNBLOCKED:
                self.series.block(uid, *blocked, self._now_s())
            life.blocked = blocked
        if waits != life.waits:
            self.series.waiting_gangs[(life.place[0],)] += 1 if waits else -1
            life.waits = waits

    # What is known of a TrainJob

    def _now_s(self) -> float:
        return self._env.clock.now().timestamp()

    def _created_s(self, job: api.TrainJob) -> float:
        now_s, created = self._now_s(), job.metadata.creation_timestamp
        return now_s if created is None or now_s - created.timestamp() < _FRESH_S else created.timestamp()

    def _blocked(self, life: _Life, job: api.TrainJob) -> tuple[str, str]:
        found = job.status.diagnosis
        return _UNBLOCKED if found is None or job.is_finished else (life.place[0], self.series.reason(found.reason))

    def _is_gang(self, job: api.TrainJob) -> bool | None:
        """Whether the runtime of a TrainJob has a gang policy; decoded once for each version of a runtime."""
        ref, where = job.spec.runtime_ref, runtime_key(job)
        resource = RUNTIMES.get((ref.api_group, ref.kind))
        informer = self._runtimes.get(resource) if resource else None
        runtime = informer.get(where) if informer and where else None
        if runtime is None:
            return None
        version, uid = runtime.metadata.resource_version, runtime.metadata.uid
        if (known := self._gangs.get(uid)) is None or known[0] != version:
            policy = bytes(_decode_gang.decode(runtime.spec).pod_group_policy)
            if len(self._gangs) >= _MAX_GANGS:
                self._gangs.clear()
            known = self._gangs[uid] = version, policy not in (b"", b"null", b"{}")
        return known[1]


class _JobSets:
    """A handler of JobSets: the milestones that they tell first."""

    def __init__(self, metrics: JobMetrics) -> None:
        self._metrics = metrics

    def on_add(self, obj: JobSetState, *, initial: bool) -> None:
        """Follow the TrainJob that has a JobSet now."""
        self._metrics.follow_owner(obj, was_there=initial)

    def on_update(self, old: JobSetState, new: JobSetState) -> None:
        """Follow the TrainJob whose JobSet is resumed or suspended."""
        if old.spec.suspend != new.spec.suspend:
            self._metrics.follow_owner(new)

    def on_delete(self, obj: JobSetState) -> None:
        """Wait for what the status of the TrainJob says of it."""


def _reached(job: api.TrainJob, job_set: JobSetState | None, *, is_admitted: bool) -> int:
    reached = _JOBSET if job_set is not None else 0
    if is_admitted:
        reached |= _ADMITTED
    if any(one.active or one.ready or one.succeeded or one.failed for one in job.status.jobs_status):
        reached |= _FIRST_POD
    if job.status.state in (RUNNING, RESTARTING):  # nothing restarts that did not run before
        reached |= _RUNNING
    return reached


def _is_starting(job: api.TrainJob) -> bool:
    """Whether the status says that nodes are still to come; without a state it says so only before it has counters."""
    state = job.status.state
    return state in _GANG_WAITS if state else not (job.status.jobs_status or job.is_finished)


def _nodes(job: api.TrainJob, job_set: JobSetState | None) -> Nodes:
    """Count the nodes of a TrainJob that may run. Each pod of a Job that failed is a failed node."""
    nodes = job.status.nodes
    if nodes is None or job.is_finished or job.is_suspended:
        return _NO_NODES
    sizes = {} if job_set is None else {one.name: one for one in job_set.spec.replicated_jobs if not one.initializes}
    failed = sum(
        min(one.failed, size.replicas) * size.pods for one in job.status.jobs_status if (size := sizes.get(one.name))
    )
    return Nodes(nodes.wanted, nodes.ready, failed)


def _exemplar(life: _Life) -> dict[str, str] | None:
    return {"trace_id": life.trace_id} if life.trace_id else None
