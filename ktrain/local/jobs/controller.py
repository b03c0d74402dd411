"""
The Job controller: observe, decide, act.

Differences from upstream are delays only: status is written as soon as it changes (upstream batches for a second), and
`Tuning` may shorten the back-off for a laptop.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from ktrain.api.core import PODS, Pod
from ktrain.api.meta import Json, Key
from ktrain.api.patch import merge_diff
from ktrain.framework import Cache, Client, Controller, Env, EventRecorder, Informer, PatchType, Result
from ktrain.framework.errors import NotFound
from ktrain.framework.parallel import run_all

from . import pods as pod_factory
from .counting import is_tracked
from .decide import Backoff, Decision, Tuning, decide, stored_status
from .types import JOBS, MANAGED_BY, TRACKING_FINALIZER, Job

if TYPE_CHECKING:
    from collections.abc import Iterable

PARALLEL_CALLS = 16
JOB_INDEX = "job"


def make_controller(
    client: Client, cache: Cache, env: Env, recorder: EventRecorder, *, tuning: Tuning | None = None
) -> Controller:
    """Make the Job controller; it watches Jobs, and Pods by their controller reference."""
    jobs, pods = cache.informer(JOBS), cache.informer(PODS)
    pods.add_index(JOB_INDEX, _job_of)
    reconciler = JobReconciler(client, env, recorder, jobs, pods, tuning or Tuning())
    controller = Controller("job", reconciler.reconcile, env=env, cache=cache, max_concurrent_reconciles=8)
    controller.watches(jobs)
    controller.owns(pods, owner=JOBS)
    return controller


def _job_of(pod: Pod) -> Iterable[str]:
    owner = pod.metadata.controller
    if owner is not None and owner.kind == "Job":
        yield str(Key(pod.metadata.namespace, owner.name))


class JobReconciler:
    """Brings one Job's pods and status to what its spec says."""

    def __init__(
        self,
        client: Client,
        env: Env,
        recorder: EventRecorder,
        jobs: Informer[Job],
        pods: Informer[Pod],
        tuning: Tuning,
    ) -> None:
        self._client = client
        self._env = env
        self._recorder = recorder
        self._jobs = jobs
        self._pods = pods
        self._tuning = tuning
        # With the UID of the Job that it belongs to: a new Job of the same name starts without the failures of the old.
        self._backoff: dict[Key, tuple[str, Backoff]] = {}

    async def reconcile(self, key: Key) -> Result | None:
        """Run one pass. Pods of a Job that is gone, deleted or finished only lose their tracking finalizer."""
        job = self._jobs.get(key)
        pods = self._pods.by_index(JOB_INDEX, str(key))
        if job is not None and job.spec.managed_by not in (None, MANAGED_BY):
            return None
        if job is None or job.metadata.deletion_timestamp is not None:
            self._backoff.pop(key, None)
            await self._release(pods)
            return None
        mine = [pod for pod in pods if pod.metadata.is_controlled_by(job.metadata.uid)]
        await self._release([pod for pod in pods if not pod.metadata.is_controlled_by(job.metadata.uid)])
        if job.is_finished:
            self._backoff.pop(key, None)
            await self._release(mine)
            return await self._expire(job)
        now = self._env.clock.now()
        uid, backoff = self._backoff.get(key, ("", Backoff()))
        if uid != job.metadata.uid:
            backoff = Backoff()
        decision = decide(job, mine, backoff, now, self._tuning)
        await self._act(job, decision)
        if decision.requeue_after is None:
            return None
        return Result(requeue_after_s=max(decision.requeue_after.total_seconds(), 0.0))

    async def _act(self, job: Job, decision: Decision) -> None:
        stored = stored_status(job)
        if decision.record is not None:
            job = await self._write_status(job, stored, decision.record)
            stored = decision.record
        await self._release(decision.release)
        # Only now: a pass that fails above sees the same pods again and must not count them twice for the back-off.
        self._backoff[job.key] = (job.metadata.uid, decision.backoff)
        await self._release(decision.drop)
        doomed = (*decision.drop, *decision.delete)
        await run_all([partial(self._delete, job, pod) for pod in doomed], limit=PARALLEL_CALLS)
        await self._create(job, decision.create)
        if decision.status != stored:
            await self._write_status(job, stored, decision.status)
        for event in decision.events:
            self._recorder.event(JOBS, job, type=event.type, reason=event.reason, message=event.message)

    async def _write_status(self, job: Job, stored: Json, status: Json) -> Job:
        """
        Write what changed and return the Job as it is then, the version for the next write of the pass.

        Counters are absolute, so they go onto the version they were counted on and no other, least of all onto a new
        Job of the same name. A Job that is gone is returned as it was.

        Raises:
            Conflict: The Job has changed; the next pass counts anew.
        """
        precondition = {"uid": job.metadata.uid, "resourceVersion": job.metadata.resource_version}
        patch = {"metadata": precondition, "status": merge_diff(stored, status)}
        try:
            return await self._client.patch(JOBS, job.key, patch, type=PatchType.MERGE, subresource="status")
        except NotFound:
            return job

    async def _release(self, pods: Iterable[Pod]) -> None:
        tracked = [partial(self._drop_finalizer, pod) for pod in pods if is_tracked(pod)]
        await run_all(tracked, limit=PARALLEL_CALLS)

    async def _drop_finalizer(self, pod: Pod) -> None:
        finalizers = [name for name in pod.metadata.finalizers if name != TRACKING_FINALIZER]
        # The list is written whole, so it must not have changed since it was read.
        patch: Json = {
            "metadata": {
                "uid": pod.metadata.uid,
                "resourceVersion": pod.metadata.resource_version,
                "finalizers": finalizers or None,
            }
        }
        try:
            await self._client.patch(PODS, pod.key, patch, type=PatchType.MERGE)
        except NotFound:
            return

    async def _delete(self, job: Job, pod: Pod) -> None:
        try:
            await self._client.delete(PODS, pod.key, uid=pod.metadata.uid)
        except NotFound:
            return
        self._recorder.event(
            JOBS, job, type="Normal", reason="SuccessfulDelete", message=f"Deleted pod: {pod.metadata.name}"
        )

    async def _create(self, job: Job, wanted: tuple[tuple[int | None, Pod | None], ...]) -> None:
        """Create pods in batches of 1, 2, 4, …: a Job that the API server refuses costs one request, not hundreds."""
        batch = 1
        while wanted:
            calls = [partial(self._create_one, job, index, previous) for index, previous in wanted[:batch]]
            await run_all(calls, limit=PARALLEL_CALLS)
            wanted, batch = wanted[batch:], batch * 2

    async def _create_one(self, job: Job, index: int | None, previous: Pod | None) -> None:
        try:
            pod = await self._client.create(PODS, pod_factory.build(job, index, previous=previous))
        except Exception as error:
            self._recorder.event(JOBS, job, type="Warning", reason="FailedCreate", message=f"Error creating: {error}")
            raise
        self._recorder.event(
            JOBS, job, type="Normal", reason="SuccessfulCreate", message=f"Created pod: {pod.metadata.name}"
        )

    async def _expire(self, job: Job) -> Result | None:
        """Delete a finished Job when its time is up (ttlSecondsAfterFinished)."""
        if job.spec.ttl_seconds_after_finished is None:
            return None
        left = _finished_at(job) + timedelta(seconds=job.spec.ttl_seconds_after_finished) - self._env.clock.now()
        if left > timedelta(0):
            return Result(requeue_after_s=left.total_seconds())
        try:
            await self._client.delete(JOBS, job.key, uid=job.metadata.uid, propagation="Foreground")
        except NotFound:
            return None
        return None


def _finished_at(job: Job) -> datetime:
    """When the Job ended; every final condition has a time, because the API server requires one."""
    for condition in job.status.conditions:
        if condition.is_true and condition.type in ("Complete", "Failed") and condition.last_transition_time:
            return condition.last_transition_time
    raise ValueError(f"Job {job.key} is finished but no condition says when")
