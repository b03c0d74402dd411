"""
The Job controller: observe, decide, act.

Differences from upstream are delays only: what happens to pods is acted on at once, upstream collects it for a second;
a finished Job outlives its time to live by one; and `Tuning` may shorten the back-off for a laptop.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from ktrain.api.core import PODS, Pod
from ktrain.api.patch import merge_diff
from ktrain.framework import Cache, Client, Controller, Env, EventRecorder, Informer, PatchType, Result
from ktrain.framework.controller.predicates import Changed
from ktrain.framework.errors import ApiError, FrameworkError, NotFound, is_namespace_ending
from ktrain.framework.parallel import run_all

from . import pods as pod_factory
from . import status as statuses
from .backoff import Backoff, Tuning
from .claims import PARALLEL_CALLS, Claims, make_orphan_controller
from .counting import is_ready, is_terminal
from .decide import Decision, Event, decide
from .types import JOBS, Job

STATUS_DELAY_S: Final = 1.0
REFUSED_BASE_S: Final = 0.25
REFUSED_CAP_S: Final = 60.0
SEEN_WITHIN: Final = timedelta(seconds=1)
"""How much longer a finished Job stays than it must: its time of completion is cut to the second, and its JobSet, which
makes one again that is gone, is to see how it ended."""

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ktrain.api.meta import Json, Key
    from ktrain.framework.metrics import Metrics

    from .managing import Wanted


def make_controllers(
    client: Client,
    cache: Cache,
    env: Env,
    recorder: EventRecorder,
    *,
    tuning: Tuning | None = None,
    metrics: Metrics | None = None,
) -> list[Controller]:
    """Make the Job controller, which watches Jobs and their pods, and the one that looks after orphaned pods."""
    jobs, pods = cache.informer(JOBS), cache.informer(PODS)
    claims = Claims(client, jobs, pods)
    reconciler = JobReconciler(client, env, recorder, jobs, claims, tuning or Tuning())
    reconcile = reconciler.reconcile
    controller = Controller("job", reconcile, env=env, cache=cache, max_concurrent_reconciles=8, metrics=metrics)
    controller.watches(jobs, predicate=Changed(_what_calls_for_a_pass))
    jobs.add_handler(_StatusWrites(controller))
    controller.watches(pods, claims.jobs_of, predicate=Changed(_what_counts_of_a_pod))
    return [controller, make_orphan_controller(cache, env, claims, metrics)]


def _what_calls_for_a_pass(job: Job) -> object:
    return job.metadata.generation, job.metadata.deletion_timestamp, job.is_finished


def _what_counts_of_a_pod(pod: Pod) -> object:
    """Most writes to a pod, its binding and the steps of its start among them, change nothing for its Job."""
    status, meta = pod.status, pod.metadata
    restarts = sum(s.restart_count for s in (*status.container_statuses, *status.init_container_statuses))
    judged = status.conditions if is_terminal(pod) else is_ready(pod)
    return status.phase, judged, restarts, meta.deletion_timestamp, meta.labels, meta.finalizers, meta.owner_references


class _StatusWrites:
    """
    Looks again some time after a status was written, whoever wrote it. A handler of the informer.

    Nobody waits for it: our own writes need no further pass, and others' are to be seen for a moment, as upstream,
    before they are put right.
    """

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def on_add(self, obj: Job, *, initial: bool) -> None:
        """Nothing to do: a new Job has a pass anyway."""

    def on_update(self, old: Job, new: Job) -> None:
        """Come back later."""
        if old.status != new.status and not new.is_finished:
            self._controller.enqueue(new.key, after_s=STATUS_DELAY_S, reason="its status was written")

    def on_delete(self, obj: Job) -> None:
        """Nothing to do: the controller hears of it."""


class JobReconciler:
    """Brings one Job's pods and status to what its spec says."""

    def __init__(
        self,
        client: Client,
        env: Env,
        recorder: EventRecorder,
        jobs: Informer[Job],
        claims: Claims,
        tuning: Tuning,
    ) -> None:
        self._client = client
        self._env = env
        self._recorder = recorder
        self._jobs = jobs
        self._claims = claims
        self._tuning = tuning
        # With the UID of the Job that it belongs to: a new Job of the same name starts without the failures of the old.
        self._backoff: dict[Key, tuple[str, Backoff]] = {}
        # How often in a row pods of a Job were refused.
        self._refusals: dict[Key, int] = {}

    async def reconcile(self, key: Key) -> Result | None:
        """Run one pass."""
        job = self._jobs.get(key)
        if job is None or job.is_finished:
            self._backoff.pop(key, None)
            self._refusals.pop(key, None)
            return None if job is None else await self._expire(job)
        if not job.is_ours:
            return None
        pods = await self._claims.pods_of(job)
        uid, backoff = self._backoff.get(key, ("", Backoff()))
        if uid != job.metadata.uid:
            backoff = Backoff()
        decision = decide(job, pods, backoff, self._env.clock.now(), self._tuning)
        if await self._act(job, decision):
            # What an admission rule or a quota refuses it may allow later; the Job's events tell about it meanwhile.
            count = self._refusals[key] = self._refusals.get(key, 0) + 1
            return Result(requeue_after_s=min(REFUSED_BASE_S * 2.0 ** min(count - 1, 10), REFUSED_CAP_S))
        self._refusals.pop(key, None)
        if decision.requeue_after is None:
            return None
        return Result(requeue_after_s=max(decision.requeue_after.total_seconds(), 0.0))

    async def _act(self, job: Job, decision: Decision) -> bool:
        """Carry it out; returns whether pods were refused."""
        if doomed := (*decision.drop, *decision.delete):
            await self._claims.release(decision.drop)
            await run_all([partial(self._delete, job, pod) for pod in doomed], limit=PARALLEL_CALLS)
        missing, refusal = await self._create(job, decision.create)
        self._send(job, decision.events)
        before, after = (_with_fewer_active(status, missing) for status in (decision.record, decision.status))
        job = await self._write_status(job, statuses.stored(job), before)
        # Only now: a pass that fails above sees the same pods again and must not count them twice for the back-off.
        self._backoff[job.key] = (job.metadata.uid, decision.backoff)
        await self._claims.release(decision.release)
        await self._write_status(job, before, after)
        self._send(job, decision.final_events)
        if refusal is not None and not isinstance(refusal, ApiError):
            raise refusal
        return refusal is not None

    def _send(self, job: Job, events: Iterable[Event]) -> None:
        for event in events:
            self._recorder.event(JOBS, job, type=event.type, reason=event.reason, message=event.message)

    async def _write_status(self, job: Job, stored: Json, status: Json) -> Job:
        """
        Write what changed and return the Job as it is then, the version for the next write of the pass.

        Counters are absolute, so they go onto the version they were counted on and no other, least of all onto a new
        Job of the same name. A Job that is gone is returned as it was.

        Raises:
            Conflict: The Job has changed; the next pass counts anew.
        """
        if status == stored:
            return job
        precondition = {"uid": job.metadata.uid, "resourceVersion": job.metadata.resource_version}
        patch = {"metadata": precondition, "status": merge_diff(stored, status)}
        try:
            return await self._client.patch(JOBS, job.key, patch, type=PatchType.MERGE, subresource="status")
        except NotFound:
            return job

    async def _delete(self, job: Job, pod: Pod) -> None:
        try:
            await self._client.delete(PODS, pod.key, uid=pod.metadata.uid)
        except NotFound:
            return  # somebody else deleted it, so no event says that this controller did
        self._recorder.event(
            JOBS, job, type="Normal", reason="SuccessfulDelete", message=f"Deleted pod: {pod.metadata.name}"
        )

    async def _create(self, job: Job, wanted: Sequence[Wanted]) -> tuple[int, Exception | None]:
        """
        Create pods in batches of 1, 2, 4, …: a Job that the API server refuses costs one request, not hundreds.

        Returns how many were not created, and why. The rest of the pass goes on: a Job whose pods are refused must
        still get its start time, and may reach its deadline.
        """
        created, batch = 0, 1
        refusals: list[Exception] = []

        async def create(one: Wanted) -> None:
            nonlocal created
            try:
                pod = await self._client.create(PODS, pod_factory.build(job, one.index, replaces=one.replaces))
            except FrameworkError as error:
                refusals.append(error)
                self._refused(job, error)
                return
            created += 1
            message = f"Created pod: {pod.metadata.name}"
            self._recorder.event(JOBS, job, type="Normal", reason="SuccessfulCreate", message=message)

        left = wanted
        while left and not refusals:
            await run_all([partial(create, one) for one in left[:batch]], limit=PARALLEL_CALLS)
            left, batch = left[batch:], batch * 2
        return len(wanted) - created, next((error for error in refusals if not is_namespace_ending(error)), None)

    def _refused(self, job: Job, error: FrameworkError) -> None:
        if not is_namespace_ending(error):
            detail = error.status.message if isinstance(error, ApiError) else str(error)
            message = f"Error creating: {detail}"
            self._recorder.event(JOBS, job, type="Warning", reason="FailedCreate", message=message)

    async def _expire(self, job: Job) -> Result | None:
        """Delete a finished Job when its time is up (ttlSecondsAfterFinished)."""
        if job.spec.ttl_seconds_after_finished is None:
            return None
        end = _finished_at(job) + timedelta(seconds=job.spec.ttl_seconds_after_finished) + SEEN_WITHIN
        left = end - self._env.clock.now()
        if left > timedelta(0):
            return Result(requeue_after_s=left.total_seconds())
        with suppress(NotFound):  # Somebody was faster.
            await self._client.delete(JOBS, job.key, uid=job.metadata.uid, propagation="Foreground")
        return None


def _with_fewer_active(status: Json, missing: int) -> Json:
    if not missing:
        return status
    active = status.get("active", 0) - missing
    rest = {name: value for name, value in status.items() if name != "active"}
    return {**rest, "active": active} if active else rest


def _finished_at(job: Job) -> datetime:
    """When the Job ended; every final condition has a time, because the API server requires one."""
    for condition in job.status.conditions:
        if condition.is_true and condition.type in ("Complete", "Failed") and condition.last_transition_time:
            return condition.last_transition_time
    raise ValueError(f"Job {job.key} is finished but no condition says when")
