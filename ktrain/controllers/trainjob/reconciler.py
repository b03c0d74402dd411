"""
One pass over one TrainJob: observe from caches, decide, act with the fewest calls, in order.

The order of writes is what makes a crash between any two of them harmless: what pods mount before the JobSet; the
status before the deletion that it announces; a child only ever under its owner's UID. The snapshot of a job's own has
no place in it: it goes beside what is built from it (`own_snapshots.py` says why it may). A shared one comes before the
first JobSet. What plugins have written after the JobSet is done before the status says that the job has begun.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
from msgspec.structs import replace

from ktrain.api import core
from ktrain.api import trainer as api
from ktrain.framework.client.client import PatchType
from ktrain.framework.errors import ApiError, Conflict, FrameworkError, LeadershipLost, NotFound, is_namespace_ending
from ktrain.framework.parallel import run_all
from ktrain.pipeline.errors import PlanError
from ktrain.pipeline.points import Context
from ktrain.plugins.jobset import JOB_SET_STATES

from . import comparing, elastic, refusals
from . import snapshot as snapshots
from . import status as statuses
from .build import runtime_key
from .decide import decide, replace_status
from .decision import Decision
from .looks import Looks
from .lookups import Lookups
from .memories import Memories
from .metrics import snapshot_counter
from .observe import RUNTIMES, SNAPSHOT_METADATA, Applied, Check, Failure, Observed
from .own_snapshots import OwnSnapshots
from .stopping import stop
from .telling import Telling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ktrain.api.meta import Json, Key, Resource
    from ktrain.framework.cache.informer import Informer
    from ktrain.framework.client.client import Client
    from ktrain.framework.env import Env
    from ktrain.framework.events import EventRecorder
    from ktrain.framework.metrics import Metrics
    from ktrain.pipeline import Registry, Removal, Size
    from ktrain.pipeline.watches import Find

    from .observe import Memory, Stall
    from .shared import SharedSnapshots
    from .writing import Apply

log = structlog.get_logger(__name__)


class Reconciler:
    """
    Reconciles TrainJobs.

    `informers` holds TrainJobs, both kinds of runtimes, snapshots by their metadata, and what the plugins watch. `wake`
    asks for a pass over a key at a later time; it is called as soon as that time is known, so that no failure loses it.
    """

    def __init__(
        self,
        client: Client,
        env: Env,
        recorder: EventRecorder,
        registry: Registry,
        informers: Mapping[Resource[Any], Informer[Any]],
        *,
        config: Mapping[str, Json],
        find: Find,
        shared: SharedSnapshots,
        shows_state: bool,
        wake: Callable[[Key, float], None],
        metrics: Metrics | None = None,
    ) -> None:
        self._client = client
        self._env = env
        self._registry = registry
        self._informers = informers
        self._config = config
        self._find = find
        self._own = OwnSnapshots(client, snapshot_counter(metrics, "perJob"))
        self._shared = shared
        self._shows_state = shows_state
        self._wake = wake
        self._looks = Looks(client, env, wake)
        self.memories = Memories(env)
        self._telling = Telling(client, env, recorder, self.memories, wake)

    async def reconcile(self, key: Key) -> None:
        """
        Bring one TrainJob a step further. Safe to cancel.

        Raises:
            JobFailed, JobBlocked, ApiError: It could not be; its event, and if that lasts its status, says why.
            FrameworkError: The API server could not be reached.
        """
        job = self._current(key)
        if job is None:
            return
        self.memories.begin(job)
        try:
            await self._pass(job)
        except FrameworkError:
            raise
        except Exception as error:
            self._wake_at_deadline(job)
            failure = refusals.unforeseen(error)
            self._telling.note(job, failure)
            await self._telling.write(job, Decision(failure=failure))
            raise
        finally:
            if self.memories.end(job.metadata.uid):
                self._wake(key, 0)

    def _wake_at_deadline(self, job: api.TrainJob) -> None:
        left = statuses.remaining(job, job.status.conditions, self._env.clock.now())
        if left is not None and left.total_seconds() > 0:
            self._wake(job.key, left.total_seconds())

    async def _pass(self, job: api.TrainJob) -> None:
        decision, cause = await self._decide(job)
        if decision is None:
            return
        ends = job.is_finished or bool(decision.status and replace_status(job, decision.status).is_finished)
        cause = await self._write_components(job, decision, cause)
        if cause and not ends and is_namespace_ending(cause):
            return  # there is nobody to tell: the job goes, too
        if cause and ends:
            if refusals.may_pass(cause):
                raise cause
            cause = None
        is_incomplete = bool(cause or decision.is_held)
        if (cause or decision.is_built) and self._memory(job).is_incomplete is not is_incomplete:
            self._remember(job, is_incomplete=is_incomplete)
        if self._memory(job).behind_since and not (cause and refusals.is_behind(cause)):
            self._remember(job, behind_since=None)
        failure = self._refusal(job, decision.size, cause) if cause else decision.failure
        stall = None if cause else decision.stall
        self._follow(job, stall)
        self._telling.note(job, failure)
        self._telling.warn(job, decision.unused)
        await self._telling.write(job, decision)
        if ends:
            self._release(job)
        undeleted = self._memory(job).undeleted
        await self._delete_all(job, decision.removals, may_tell=failure == undeleted)
        if failure == undeleted:
            failure = None
        if failure and failure.again_s is not None:
            self._wake(job.key, failure.again_s)
            return
        if failure and not (failure.is_final and (cause is None or decision.resize)):
            raise refusals.error_of(failure, cause)
        if stall:
            await self._listen(job, stall)

    def _release(self, job: api.TrainJob) -> None:
        """Keep nothing that only a job needs which goes on."""
        self._shared.release(job.metadata.uid)
        self._own.forget(job.metadata.uid)
        if self._memory(job).applied:
            self._remember(job, snapshot=None, applied={})

    # Observe and decide

    def _current(self, key: Key) -> api.TrainJob | None:
        """Return the job of this name, and forget an earlier one."""
        job: api.TrainJob | None = self._informers[api.TRAIN_JOBS].get(key)
        if earlier := self.memories.meet(key, job.metadata.uid if job else ""):
            self._shared.release(earlier)
            self._own.forget(earlier)
        return job

    def _memory(self, job: api.TrainJob) -> Memory:
        return self.memories.of(job.metadata.uid)

    def _remember(self, job: api.TrainJob, **changes: Any) -> None:  # noqa: ANN401 -- checked by `Memories`
        self.memories.change(job.metadata.uid, **changes)

    def _lookup(self, resource: Resource[Any], key: Key) -> Any:  # noqa: ANN401 -- any kind
        informer = self._informers.get(resource)
        return None if informer is None else informer.get(key)

    def _observe(self, job: api.TrainJob, checked: Check, lookups: Lookups) -> Observed:
        ref = job.spec.runtime_ref
        where, resource = runtime_key(job), RUNTIMES.get((ref.api_group, ref.kind))
        snapshot = lookups(SNAPSHOT_METADATA, snapshots.snapshot_key(job))
        job_set = lookups(JOB_SET_STATES, job.key) or self._memory(job).ended
        if not self._memory(job).had_children and any(
            child and child.metadata.is_controlled_by(job.metadata.uid) for child in (snapshot, job_set)
        ):
            self._remember(job, had_children=True)

        def lookup(resource: Resource[Any], key: Key) -> Any:  # noqa: ANN401 -- any kind
            return job_set if (resource, key) == (JOB_SET_STATES, job.key) else lookups(resource, key)

        context = Context.at_present(self._env, lookup, self._config, self._informers, self._find)
        runtime = self._lookup(resource, where) if resource and where else None
        shared, shares = self._shared.of(job, job_set), self._shared.for_new_jobs and job_set is None
        memory, kinds, taken = self._memory(job), self._informers, self._own.taken(job.metadata.uid)
        known = (runtime, snapshot, job_set, memory, context, kinds, checked, shared, taken)
        return Observed(job, *known, shares=shares, shows_state=self._shows_state)

    async def _decide(self, job: api.TrainJob) -> tuple[Decision | None, ApiError | PlanError | None]:
        """
        Decide, asking the API server first where no cache can tell.

        Returns the decision, None if the job turns out to be gone; and the refusal, if the server did not tell.
        """
        checked = Check.NONE
        lookups = Lookups(self._client, self._informers, self._wake, job.key)
        while True:
            decision = decide(self._observe(job, checked, lookups), self._registry)
            if decision.requeue_after_s is not None:
                self._wake(job.key, decision.requeue_after_s)
            if not (decision.check or lookups.unknown):
                return decision, None
            log.debug("trainjob.checks", trainjob=str(job.key), check=decision.check.name)
            try:
                if lookups.unknown:
                    await lookups.ask()
                    continue
                if not await self._ask(job, decision):
                    return None, None
            except ApiError as error:
                if self._is_behind(job, error):
                    raise
                return decision, error
            except LeadershipLost:
                raise
            except FrameworkError:
                await self._stop(decision)
                raise
            checked |= decision.check

    async def _ask(self, job: api.TrainJob, decision: Decision) -> bool:
        """Ask the API server what *decision* wants to know. False if the job turns out to be gone."""
        if decision.check is Check.JOB and not await self._exists(job):
            return False
        if decision.check is Check.SNAPSHOT:
            await self._read_snapshot(job)
        if decision.built:
            await self._compare(job, decision.built)
        return True

    async def _exists(self, job: api.TrainJob) -> bool:
        try:
            live = await self._client.get(api.TRAIN_JOBS, job.metadata.name, job.metadata.namespace)
        except NotFound:
            return False
        return live.metadata.uid == job.metadata.uid and live.metadata.deletion_timestamp is None

    async def _read_snapshot(self, job: api.TrainJob) -> None:
        if shared := self._shared.of(job, self._lookup(JOB_SET_STATES, job.key)):
            self._remember(job, snapshot=await self._shared.read(shared))
            return
        key = snapshots.snapshot_key(job)
        found = await self._client.get(core.CONFIG_MAPS, key.name, key.namespace)
        version = found.metadata.resource_version
        self._remember(job, snapshot=snapshots.read(found, job), snapshot_version=version)
        self._own.forget(job.metadata.uid)

    async def _compare(self, job: api.TrainJob, built: Sequence[Apply]) -> None:
        """Remember components as written if writing them would change nothing: a settled world stays unwritten."""
        compared = await comparing.compare(
            self._client, built, keeps=snapshots.is_kubeflows(self._memory(job).snapshot)
        )
        if compared.kept:
            self._remember(job, kept=compared.kept)
        for apply, generation in compared.settled:
            self._remember_applied(job, apply, generation)

    # Act

    async def _write_components(
        self, job: api.TrainJob, decision: Decision, cause: ApiError | PlanError | None
    ) -> ApiError | PlanError | None:
        """Write what is to be written; if *cause* is known, only what needs no plan. Returns what was refused first."""
        if cause:
            decision = Decision(stops=decision.stops)
        if decision.applies:
            self._remember(job, is_incomplete=True)  # also if the answer to one of them is lost
        try:
            await self._write_all(job, decision)
        except (ApiError, PlanError) as error:
            if self._is_behind(job, error):
                raise
            return cause or error
        return cause

    def _is_behind(self, job: api.TrainJob, error: ApiError | PlanError) -> bool:
        """Whether only our caches were behind, which they are for a moment: what lasts is told as any refusal is."""
        if not refusals.is_behind(error):
            return False
        now = self._env.clock.now()
        since = self._memory(job).behind_since or now
        self._remember(job, behind_since=since)
        return (now - since).total_seconds() < statuses.DIAGNOSE_AFTER_S

    async def _write_all(self, job: api.TrainJob, decision: Decision) -> None:
        """Write the snapshot beside the rest where it may: what changes a JobSet that is there never waits for it."""
        snapshot, built = partial(self._write_snapshot, job, decision), partial(self._write_built, job, decision)
        exists = self._lookup(JOB_SET_STATES, job.key) is not None
        own = None if decision.shared else decision.snapshot
        may_start = own and self._own.are_accepted(job.metadata.namespace)
        together = bool(decision.applies or decision.resize or decision.stops) and (exists or may_start)
        if own and (together or exists):
            self._own.remember(job.metadata.uid, own)
        if together and decision.snapshot:
            await run_all((built, snapshot), limit=2)  # the JobSet is on its way before the snapshot is even encoded
        else:
            await snapshot()
            await built()

    async def _write_snapshot(self, job: api.TrainJob, decision: Decision) -> None:
        if (snapshot := decision.snapshot) is None:
            return
        if decision.shared:
            self._remember(job, snapshot=snapshot)
            await self._shared.put(job, snapshot)
            return
        version = await self._own.create(job, snapshot)
        self._remember(job, snapshot=snapshot, snapshot_version=version, had_children=True)

    async def _write_built(self, job: api.TrainJob, decision: Decision) -> None:
        try:
            for apply in decision.applies:
                component = apply.component
                body = await comparing.to_write(self._client, apply, self._memory(job).kept)
                done = await self._client.apply(component.resource, apply.guarded(body), force=apply.exists)
                self._remember_applied(job, apply, done.metadata.generation)
                if component.resource == JOB_SET_STATES:
                    decision = replace(decision, stops=None)
                    self._remember(job, job_set_version=done.metadata.resource_version)
        except LeadershipLost:
            raise
        except Exception:
            await self._stop(decision)
            raise
        await self._stop(decision)
        if resize := decision.resize:
            await self._client.patch(JOB_SET_STATES, resize.job_set.key, resize.patch, type=PatchType.JSON)

    async def _stop(self, decision: Decision) -> None:
        """Suspend the JobSet as it is, also when nothing else can be asked or written."""
        if decision.stops:
            await stop(self._client, decision.stops)

    def _refusal(self, job: api.TrainJob, size: Size | None, cause: ApiError | PlanError) -> Failure:
        """Say why the API server refused, and remember it where asking again would be no use."""
        job_set = self._lookup(JOB_SET_STATES, job.key)
        if isinstance(cause, PlanError) or job_set is None or size is None:
            return refusals.failure(cause)
        if (refused := elastic.refused(job, job_set, size, self._memory(job), cause)) is None:
            return refusals.failure(cause)
        self._remember(job, refused_nodes=size.status.desired_nodes)
        return refused

    def _remember_applied(self, job: api.TrainJob, apply: Apply, generation: int) -> None:
        applied = {**self._memory(job).applied, apply.memory_key: Applied(apply.digest, generation)}
        self._remember(job, applied=applied, had_children=True)

    def _follow(self, job: api.TrainJob, stall: Stall | None) -> None:
        """Remember since when the JobSet stands still; one that gets on is not looked at."""
        if stall != self._memory(job).stall:
            self._remember(job, stall=stall)
        if stall is None:
            self._looks.drop(job.key)

    async def _listen(self, job: api.TrainJob, stall: Stall) -> None:
        """Hear why the JobSet stands still, when the time has come, and see to it that the time comes."""
        heard = await self._looks.look(self._lookup(JOB_SET_STATES, job.key), job.key, stall)
        self._remember(job, stall=heard)

    async def _delete_all(self, job: api.TrainJob, removals: Sequence[Removal], *, may_tell: bool) -> None:
        """Try every deletion, and raise the first error; one that is refused is told if nothing else is."""
        try:
            await run_all([partial(self._delete, job, removal) for removal in removals], limit=len(removals))
        except ApiError as error:
            self._remember(job, undeleted=refusals.failure(error))
            if may_tell:
                self._telling.note(job, self._memory(job).undeleted)
            raise
        if self._memory(job).undeleted:
            self._remember(job, undeleted=None)
            self._wake(job.key, 0)

    async def _delete(self, job: api.TrainJob, removal: Removal) -> None:
        try:
            await self._client.delete(removal.resource, removal.key, uid=removal.uid, propagation="Background")
        except (NotFound, Conflict):
            log.debug("child.gone", kind=removal.resource.kind, child=str(removal.key))
        self._remember(job, deleted=self._memory(job).deleted | {removal.uid})
