"""
The JobSet controller: observe from caches, decide, act.

The acts of a pass go out in the order of the decision. Whatever fails in it ends it before the status is written, and
the next pass decides anew: so counters move exactly once, under the resource version that the decision was made on.
Ownership is by UID alone; names and labels prove nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from ktrain.api.core import PERSISTENT_VOLUME_CLAIMS, SERVICES
from ktrain.api.jobset import CHILD_JOBS, JOBSETS, MANAGED_BY, ChildJob, JobSet, JobSetStatus
from ktrain.api.meta import Key
from ktrain.framework import Result
from ktrain.framework.errors import AlreadyExists, ApiError, Conflict, NotFound
from ktrain.framework.parallel import run_all

from .attempts import JobAttempts
from .children import JobBuilder, Slot, subdomain
from .conditions import status_json
from .decide import Decision, Observed, decide
from .errors import ChildRefused, Undecidable
from .gates import OFF, Gates
from .metrics import JobSetMetrics
from .volumes import claim_name, template_names

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from ktrain.api.meta import Json, Object, Resource
    from ktrain.framework import Client, Env, EventRecorder, Informer

    from .conditions import EventType
    from .elastic import Resize
    from .pods import JobSetPods
    from .suspend import Wake

PARALLEL_CALLS: Final = 50
BY_JOBSET: Final = "jobset"
"""Index of Jobs: UID of the JobSet that controls them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Informers:
    """What the reconciler reads."""

    jobsets: Informer[JobSet]
    jobs: Informer[ChildJob]
    services: Informer[Object]
    claims: Informer[Object]
    pods: JobSetPods


class JobSetReconciler:
    """Brings the children and the status of one JobSet to what its spec says."""

    def __init__(
        self,
        client: Client,
        env: Env,
        recorder: EventRecorder,
        informers: Informers,
        *,
        gates: Gates = OFF,
        metrics: JobSetMetrics | None = None,
    ) -> None:
        self._client = client
        self._env = env
        self._recorder = recorder
        self._informers = informers
        self._gates = gates
        self._metrics = metrics or JobSetMetrics()

    async def reconcile(self, key: Key) -> Result | None:
        """Run one pass over a JobSet. One that others manage, or that is being deleted, is left alone."""
        jobset = self._informers.jobsets.get(key)
        if jobset is None or jobset.metadata.deletion_timestamp is not None:
            return None
        if jobset.spec.managed_by not in (None, MANAGED_BY):
            return None
        try:
            decision = decide(self._observe(jobset), self._env.clock.now(), self._gates)
            await self._act(jobset, decision)
        except Undecidable as error:
            self._warn(jobset, "ReconcileFailed", str(error))
            raise
        except ChildRefused as error:
            self._warn(jobset, error.reason, str(error))
            raise
        return None if decision.requeue_after_s is None else Result(requeue_after_s=decision.requeue_after_s)

    def _observe(self, jobset: JobSet) -> Observed:
        namespace, informers = jobset.metadata.namespace, self._informers
        jobs = sorted(informers.jobs.by_index(BY_JOBSET, jobset.metadata.uid), key=lambda job: job.metadata.name)
        claims = (claim_name(name, jobset.metadata.name) for name in template_names(jobset))
        pods = informers.pods.pods_of(*jobset.key) if self._gates.in_place_restart else ()
        return Observed(
            jobset,
            tuple(jobs),
            services=_present(informers.services, namespace, (subdomain(jobset),)),
            claims=_present(informers.claims, namespace, claims),
            pods=tuple(pods),
        )

    async def _act(self, jobset: JobSet, decision: Decision) -> None:
        await run_all([partial(self._delete_job, job) for job in decision.delete], limit=PARALLEL_CALLS)
        await self._create_companions(decision)
        await run_all([partial(self._resize, resize) for resize in decision.resize], limit=PARALLEL_CALLS)
        await self._create_jobs(jobset, decision.create)
        await run_all([partial(self._suspend, job) for job in decision.suspend], limit=PARALLEL_CALLS)
        await self._resume_jobs(decision.resume)
        if decision.status is not None:
            await self._write_status(jobset, decision.status)
        for notice in decision.notices:
            self._event(jobset, notice.type, notice.reason, notice.message)
        if decision.expired:
            await self._delete(JOBSETS, jobset)

    async def _create_companions(self, decision: Decision) -> None:
        if decision.service is not None:
            await self._try_all(
                "HeadlessServiceCreationFailed", [partial(self._create, SERVICES, "service", decision.service)]
            )
        creations = [partial(self._create, PERSISTENT_VOLUME_CLAIMS, "pvc", claim) for claim in decision.claims]
        await self._try_all("PVCCreationFailed", creations)

    async def _create_jobs(self, jobset: JobSet, wanted: Iterable[Slot]) -> None:
        """One replicated job after the other, in spec order; a refusal in one keeps all later ones from being made."""
        status = jobset.status or JobSetStatus()
        attempts = None
        if self._gates.restart_job:
            attempts = JobAttempts(jobset.spec.replicated_jobs, status.replicated_jobs_status)
        builder = JobBuilder(jobset, status.restarts, attempts)
        for _, siblings in groupby(wanted, key=lambda slot: slot.replicated_job.name):
            calls = [partial(self._create_job, jobset, builder, slot) for slot in siblings]
            await self._try_all("JobCreationFailed", calls)

    async def _resume_jobs(self, sleeping: Iterable[Wake]) -> None:
        """One replicated job after the other, as they are created: what cannot run whole need not hold its nodes."""
        for _, siblings in groupby(sleeping, key=lambda wake: wake.replicated_job):
            calls = [partial(self._resume, wake) for wake in siblings]
            await self._try_all("ReconcileFailed", calls)

    async def _try_all(self, reason: str, calls: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """
        Try every call.

        Raises:
            ChildRefused: What was refused, after the others have had their turn.
        """
        refused: list[str] = []

        async def attempt(call: Callable[[], Awaitable[None]]) -> None:
            try:
                await call()
            except _Refused as error:
                refused.append(str(error))

        await run_all([partial(attempt, call) for call in calls], limit=PARALLEL_CALLS)
        if refused:
            raise ChildRefused(reason, "\n".join(sorted(refused)))

    async def _create(self, resource: Resource[Any], noun: str, body: Json) -> None:
        """Create a Service or claim. These are known by name: whoever has made it, it is there."""
        try:
            await self._client.create(resource, body)
        except AlreadyExists:
            return
        except ApiError as error:
            raise _Refused(noun, body["metadata"]["name"], error) from error

    async def _create_job(self, jobset: JobSet, builder: JobBuilder, slot: Slot) -> None:
        try:
            await self._client.create(CHILD_JOBS, builder.build(slot))
        except AlreadyExists as error:
            # A create of ours whose answer was lost is no conflict; a Job of somebody else keeps the slot blocked.
            if not await self._is_ours(jobset, slot.name):
                raise _Refused("job", slot.name, error) from error
        except ApiError as error:
            raise _Refused("job", slot.name, error) from error

    async def _is_ours(self, jobset: JobSet, name: str) -> bool:
        """Whether the Job of this name is the JobSet's. Asks the server only when the cache does not know the Job."""
        try:
            job = self._informers.jobs.get(Key(jobset.metadata.namespace, name))
            if job is None:
                job = await self._client.get(CHILD_JOBS, name, jobset.metadata.namespace)
        except NotFound:
            return False
        return job.metadata.is_controlled_by(jobset.metadata.uid)

    async def _delete_job(self, job: ChildJob) -> None:
        await self._delete(CHILD_JOBS, job)

    async def _delete(self, resource: Resource[Any], obj: Object) -> None:
        """Delete in the foreground: the name stays taken until the last pod is gone. Being gone already is as good."""
        try:
            await self._client.delete(resource, obj.key, uid=obj.metadata.uid, propagation="Foreground")
        except (NotFound, Conflict):
            return

    async def _resize(self, resize: Resize) -> None:
        await self._patch_job(resize.job, {"spec": {"parallelism": resize.size, "completions": resize.size}})

    async def _suspend(self, job: ChildJob) -> None:
        await self._patch_job(job, {"spec": {"suspend": True}})

    async def _resume(self, wake: Wake) -> None:
        try:
            if wake.reset_start:
                await self._patch_job(wake.job, {"status": {"startTime": None}}, subresource="status")
            await self._patch_job(wake.job, wake.patch)
        except Conflict:
            raise
        except ApiError as error:
            raise _Refused("job", wake.job.metadata.name, error, "resumption") from error

    async def _patch_job(self, job: ChildJob, patch: Json, *, subresource: str = "") -> None:
        body = {"metadata": {"uid": job.metadata.uid}, **patch}
        try:
            await self._client.patch(CHILD_JOBS, job.key, body, subresource=subresource)
        except NotFound:
            return

    async def _write_status(self, jobset: JobSet, status: JobSetStatus) -> None:
        """Write under the version that the decision was made on: a stale decision must not count a restart again."""
        body: Json = {"metadata": {"resourceVersion": jobset.metadata.resource_version}, "status": status_json(status)}
        try:
            await self._client.patch(JOBSETS, jobset.key, body, subresource="status")
        except NotFound:
            return
        before = jobset.status.terminal_state if jobset.status is not None else ""
        if status.terminal_state != before:
            self._metrics.ended(status.terminal_state, jobset.key)

    def _warn(self, jobset: JobSet, reason: str, message: str) -> None:
        self._event(jobset, "Warning", reason, message)

    def _event(self, jobset: JobSet, type_: EventType, reason: str, message: str) -> None:
        self._recorder.event(JOBSETS, jobset, type=type_, reason=reason, message=message, action="Reconciling")


class _Refused(Exception):
    """The API server refused one child."""

    def __init__(self, noun: str, name: str, cause: ApiError, act: str = "creation") -> None:
        super().__init__(f'{noun} "{name}" {act} failed with error: {cause.status.message or cause}')


def _present(informer: Informer[Object], namespace: str, names: Iterable[str]) -> frozenset[str]:
    keys = {name: Key(namespace, name) for name in names}
    return frozenset(name for name, key in keys.items() if informer.get(key) is not None or informer.leaves_out(key))
