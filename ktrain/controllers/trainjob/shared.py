"""
Shared snapshots: one ConfigMap for all jobs of a namespace that run on the same state of a runtime.

Which one a job runs on is written on its JobSet, as an annotation, so it survives a restart; until the JobSet is
written, and if it vanishes, this process remembers it. The content is named by its digest: nobody owns it, nobody can
change it unnoticed, and one that vanished is written again by any job that still has it in memory.

`Collector` deletes what no unfinished job refers to any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import anyio
import structlog

from ktrain.api import core
from ktrain.api import trainer as api
from ktrain.api.meta import Key
from ktrain.framework.controller.results import Result
from ktrain.framework.errors import AlreadyExists, ApiError, Conflict, NotFound
from ktrain.pipeline.errors import PlanError
from ktrain.plugins.jobset import JOB_SET_STATES

from . import snapshot as snapshots
from .lookups import is_of_train_jobs
from .metrics import REFUSED, STORED, snapshot_counter
from .observe import SNAPSHOT_METADATA

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ktrain.api.meta import Object
    from ktrain.framework.cache.cache import Cache
    from ktrain.framework.client.client import Client
    from ktrain.framework.env import Env
    from ktrain.framework.metrics import Metrics
    from ktrain.plugins.jobset import JobSetState

    from .snapshot import Snapshot

log = structlog.get_logger(__name__)

KEEP_S: Final = 600.0
"""How long one stays that nobody refers to. Jobs of one runtime often come again; and caches may be behind."""
DELETION_GAP_S: Final = 0.2
"""Between two deletions: tidying up is never in a hurry."""
_BY_SNAPSHOT: Final = "by-shared-snapshot"


class SharedSnapshots:
    """
    What this process knows of shared snapshots: which are there, what they hold, and which jobs it has put on which.

    Args:
        for_new_jobs: Whether a job that has no snapshot yet gets a shared one. Those that run on one go on in any case.
    """

    def __init__(
        self, client: Client, cache: Cache, *, for_new_jobs: bool = False, metrics: Metrics | None = None
    ) -> None:
        self.for_new_jobs = for_new_jobs
        self._count = snapshot_counter(metrics, "shared")
        self.config_maps = cache.informer(SNAPSHOT_METADATA, holds=is_of_train_jobs)
        self.job_sets = cache.informer(JOB_SET_STATES, holds=is_of_train_jobs)
        self.job_sets.add_index(_BY_SNAPSHOT, _snapshot_index)
        self.config_maps.add_handler(self)
        self._client = client
        self._proven: dict[Key, str] = {}
        """UIDs of those whose content was written or read by us."""
        self._contents: WeakValueDictionary[Key, Snapshot] = WeakValueDictionary()
        self._jobs: dict[str, Key] = {}
        """What jobs run on, by their UID."""
        self._locks: WeakValueDictionary[Key, anyio.Lock] = WeakValueDictionary()

    # A handler of the informer

    def on_add(self, obj: Object, *, initial: bool) -> None:
        """Its content is read when it is needed."""

    def on_update(self, old: Object, new: Object) -> None:
        """Its content cannot change, and one that is made anew comes as a deletion and an addition."""

    def on_delete(self, obj: Object) -> None:
        """Whoever needs it has to write it again."""
        if self._proven.get(obj.metadata.key) == obj.metadata.uid:
            self._proven.pop(obj.metadata.key)

    # Jobs

    def bind(self, uid: str, key: Key) -> None:
        """Remember that the job of this UID runs on this snapshot."""
        self._jobs[uid] = key

    def release(self, uid: str) -> None:
        """Forget a job that has ended or is gone."""
        self._jobs.pop(uid, None)

    def of(self, job: api.TrainJob, job_set: JobSetState | None) -> Key | None:
        """Return what a job runs on: what its own JobSet says, else what we remember."""
        if job_set and job_set.metadata.is_controlled_by(job.metadata.uid) and (key := snapshots.shared_key(job_set)):
            return key
        return self._jobs.get(job.metadata.uid)

    def job_sets_on(self, key: Key) -> Iterable[JobSetState]:
        """The JobSets that say they run on this snapshot."""
        return self.job_sets.by_index(_BY_SNAPSHOT, str(key))

    def is_remembered(self, key: Key) -> bool:
        """Whether a job that we put on it may have no JobSet yet that says so."""
        return key in self._jobs.values()

    # ConfigMaps

    async def put(self, job: api.TrainJob, snapshot: Snapshot) -> None:
        """
        Put a job on a snapshot, and see to it that this is there.

        Raises:
            PlanError, FrameworkError: As `ensure`. After a PlanError the job is on none.
        """
        namespace, uid = job.metadata.namespace, job.metadata.uid
        self.bind(uid, Key(namespace, snapshot.shared_name))
        try:
            await self.ensure(namespace, snapshot)
        except PlanError:
            self.release(uid)
            raise

    async def ensure(self, namespace: str, snapshot: Snapshot) -> None:
        """
        See to it that the ConfigMap is there: no call if it is known to be, else one, however many jobs ask at once.

        Raises:
            PlanError: What has its name holds something else.
            FrameworkError: The API server refused, or could not be reached.
        """
        key = Key(namespace, snapshot.shared_name)
        async with self._lock(key):
            if key in self._proven:
                return
            if self.config_maps.get(key) is None and await self._create(key, snapshot):
                return
            content = await self._read(key)
        if isinstance(content, PlanError):
            raise content

    async def read(self, key: Key) -> Snapshot | PlanError:
        """
        Return what a ConfigMap holds; it is fetched once for all jobs.

        Raises:
            NotFound: It is gone.
        """
        async with self._lock(key):
            known = self._contents.get(key)
            return known if known is not None and key in self._proven else await self._read(key)

    async def delete(self, found: Object) -> None:
        """Delete this very ConfigMap, unless a job of ours has come to need it."""
        key = found.metadata.key
        async with self._lock(key):
            if self.is_remembered(key):
                return
            try:
                await self._client.delete(SNAPSHOT_METADATA, key, uid=found.metadata.uid)
            except (NotFound, Conflict):
                log.debug("snapshot.gone", snapshot=str(key))
            self._proven.pop(key, None)

    async def _create(self, key: Key, snapshot: Snapshot) -> bool:
        """False if something has the name already, which the cache did not show yet."""
        body = snapshots.shared_config_map(key.namespace, snapshot)
        try:
            written = await self._client.create(SNAPSHOT_METADATA, body)
        except AlreadyExists:
            return False
        except ApiError:
            self._count(REFUSED)
            raise
        self._count(STORED)
        self._prove(key, written, snapshot)
        return True

    async def _read(self, key: Key) -> Snapshot | PlanError:
        found = await self._client.get(core.CONFIG_MAPS, key.name, key.namespace)
        content = snapshots.read_shared(found)
        if not isinstance(content, PlanError):
            self._prove(key, found, content)
        return content

    def _prove(self, key: Key, found: Object, snapshot: Snapshot) -> None:
        self._proven[key] = found.metadata.uid
        self._contents[key] = snapshot

    def _lock(self, key: Key) -> anyio.Lock:
        return self._locks.setdefault(key, anyio.Lock())


def is_shared(config_map: Object) -> bool:
    """Whether a ConfigMap says it is a shared snapshot."""
    return snapshots.SHARED in config_map.metadata.labels


def _snapshot_index(job_set: JobSetState) -> Iterable[str]:
    key = snapshots.shared_key(job_set)
    return (str(key),) if key else ()


class Collector:
    """Deletes shared snapshots that no unfinished job has referred to for `KEEP_S`, one after the other."""

    def __init__(self, shared: SharedSnapshots, cache: Cache, env: Env) -> None:
        self._shared = shared
        self._env = env
        self._jobs = cache.informer(api.TRAIN_JOBS)
        self._unused_since_s: dict[Key, float] = {}

    async def reconcile(self, key: Key) -> Result | None:
        """
        Look at one ConfigMap, and again after `KEEP_S` for as long as it is there.

        Raises:
            FrameworkError: It could not be deleted.
        """
        found, now_s = self._shared.config_maps.get(key), self._env.clock.monotonic()
        if found is None or not is_shared(found) or self._is_used(key):
            self._unused_since_s.pop(key, None)
            return Result(requeue_after_s=KEEP_S) if found else None
        left_s = self._unused_since_s.setdefault(key, now_s) + KEEP_S - now_s
        if left_s > 0:
            return Result(requeue_after_s=left_s)
        await self._shared.delete(found)
        await self._env.clock.sleep(DELETION_GAP_S)
        return Result(requeue_after_s=KEEP_S)

    def _is_used(self, key: Key) -> bool:
        return self._shared.is_remembered(key) or any(map(self._may_run, self._shared.job_sets_on(key)))

    def _may_run(self, job_set: JobSetState) -> bool:
        """Whether the job of a JobSet is unfinished. Of a JobSet whose job is not known we cannot tell."""
        job = self._jobs.get(job_set.key)
        return job is None or not job_set.metadata.is_controlled_by(job.metadata.uid) or not job.is_finished
