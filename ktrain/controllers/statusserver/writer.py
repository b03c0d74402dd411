"""
Stores reports: at a bounded rate, of each job the newest.

10,000 jobs that report every five seconds would be 2,000 writes a second, each of which every watcher of TrainJobs is
told. So a report waits for its turn, and one that comes meanwhile takes its place: a job costs memory once, however
often it reports, and the API server sees at most `qps` writes a second, after at most `burst` at once. Reports of jobs
that are done go first; the others in the order in which their jobs began to wait. A job's reports are stored one after
the other.

Replicas know of each other only what the TrainJob says. When another one has stored something newer since a report
came, that report is dropped: it must not turn the clock back. (By the senders' clocks, and only against what was stored
meanwhile: a pod whose clock is ahead cannot silence the others.)

A report was answered when it was taken, so nobody tries again for its sender: what could not be stored for want of an
answer waits again, unless a newer one has come. A report on a job that is gone, or on another of the same name, is
dropped. At the end there are five seconds to store what waits; what is left then is dropped, and in a moment its
senders report again, to another replica.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import anyio
import structlog

from ktrain.api import trainer as api
from ktrain.framework.backoff import Backoff
from ktrain.framework.errors import ApiError, Conflict, FrameworkError, NotFound, ServerError, TooManyRequests
from ktrain.framework.metrics import Metrics
from ktrain.framework.workqueue.limiters import Bucket

if TYPE_CHECKING:
    from datetime import datetime

    from anyio.abc import TaskStatus
    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Json, Key
    from ktrain.framework.client.client import Client
    from ktrain.framework.env import Env

log: FilteringBoundLogger = structlog.get_logger(__name__)

FIELD_MANAGER: Final = "trainer-status"
QPS: Final = 180.0
BURST: Final = 20
"""Together at most 200 writes in any second."""
AT_A_TIME: Final = 16
FLUSH_S: Final = 5.0
_STORED: Final = "stored"


class Jobs(Protocol):
    """Which TrainJobs there are: an informer."""

    def get(self, key: Key, /) -> api.TrainJob | None:
        """Return the TrainJob as it was seen last, or None."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """What waits for a job, by its UID: the status to apply, and whether it is the last."""

    uid: str
    status: Json
    terminal: bool
    when: datetime
    """When the sender says that it was so."""
    stored: datetime | None
    """The same of what was stored when it came."""


@dataclass(frozen=True, slots=True)
class WriterStatistics:
    """Number of progress reports that pods sent, by what became of them."""

    waiting: int
    stored: int
    replaced: int
    """By newer ones, before they were stored."""
    dropped: int


class Writer:
    """
    Owns all writes of `status.trainerStatus`.

    Args:
        client: Without a guard: every replica writes.
        env: Time and randomness.
        jobs: Which TrainJobs there are, with what is stored.
        qps: Writes a second.
        burst: Writes at once, after a while without any.
        metrics: For what has become of reports.
    """

    def __init__(
        self,
        client: Client,
        env: Env,
        jobs: Jobs,
        *,
        qps: float = QPS,
        burst: int = BURST,
        metrics: Metrics | None = None,
    ) -> None:
        self._client = client.with_options(field_manager=FIELD_MANAGER)
        self._env = env
        self._jobs = jobs
        self._backoff = Backoff(env, cap_s=10.0)
        self._bucket = Bucket(env, rate=qps, burst=burst)
        self._urgent: OrderedDict[Key, _Entry] = OrderedDict()
        self._others: OrderedDict[Key, _Entry] = OrderedDict()
        self._held: dict[Key, _Entry] = {}
        """Newer reports of jobs one of whose reports is being stored."""
        self._storing: set[Key] = set()
        self._changed = anyio.Event()
        self._slots = anyio.Semaphore(AT_A_TIME)
        self._scope = anyio.CancelScope(shield=True)
        self._closing = False
        self._stored = self._replaced = self._dropped = 0
        registry = metrics or Metrics()
        self._count = registry.counter_by(
            "ktrain_trainer_status_reports",
            "Number of progress reports that pods sent, by what became of them.",
            "result",
        )
        registry.gauge_read(
            "ktrain_trainer_status_waiting",
            "Number of TrainJobs whose progress report waits to be written to their status.",
            {},
            lambda: self._waiting,
        )

    def put(self, job: Key, uid: str, status: Json, *, when: datetime, terminal: bool) -> None:
        """Store this soon: it takes the place of what waits for the job. Never waits."""
        entry = _Entry(uid, status, terminal, when, self._last_stored(job))
        replaced = job in self._held or job in self._urgent or job in self._others
        if job in self._storing:
            self._held[job] = entry
        elif terminal:
            self._others.pop(job, None)
            self._urgent[job] = entry
        elif job in self._urgent:
            self._urgent[job] = entry
        else:
            self._others[job] = entry
        if replaced:
            self._replaced += 1
            self._count("replaced")
        self._changed.set()

    def statistics(self) -> WriterStatistics:
        """Return what has become of reports so far."""
        return WriterStatistics(self._waiting, self._stored, self._replaced, self._dropped)

    def close(self) -> None:
        """Take nothing more: `run` stores what waits, for at most five seconds, and returns. Never waits."""
        self._closing = True
        self._scope.deadline = anyio.current_time() + FLUSH_S
        self._changed.set()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Store reports until `close`. Cancellation does not end it: whoever starts it must close it."""
        task_status.started()
        with self._scope:
            async with anyio.create_task_group() as tasks:
                while await self._wait_for_work():
                    await self._slots.acquire()
                    await self._env.clock.sleep(self._bucket.delay_s("any"))
                    # What is newest now, after the wait.
                    if (found := self._next()) is None:
                        self._slots.release()
                        continue
                    tasks.start_soon(self._store, *found, name=f"trainer status of {found[0]}")
        if self._scope.cancelled_caught:
            self._drop("stopped", self._waiting)
            log.warning("statusserver.reports_lost", jobs=self._waiting)

    @property
    def _waiting(self) -> int:
        return len(self._urgent) + len(self._others) + len(self._held)

    async def _wait_for_work(self) -> bool:
        """Wait until a report can be stored; False if none will be any more."""
        while not (self._urgent or self._others):
            if self._closing and not self._storing:
                return False
            self._changed = anyio.Event()
            await self._changed.wait()
        return True

    def _next(self) -> tuple[Key, _Entry] | None:
        for queue in (self._urgent, self._others):
            while queue:
                job, entry = queue.popitem(last=False)
                if (result := self._vain(job, entry)) is None:
                    self._storing.add(job)
                    return job, entry
                self._drop(result)
        return None

    def _vain(self, job: Key, entry: _Entry) -> str | None:
        """
        Say why a report need not be stored any more, if so.

        That a job is still the same is seen in the cache, moments late: an API server takes a UID in a write to a
        status for no precondition.
        """
        found = self._jobs.get(job)
        if found is None or found.metadata.uid != entry.uid:
            return "gone"
        last = self._last_stored(job)
        if last is None:
            return None
        if found.is_finished:
            # Its pods are done; what they said in time may still come, but nothing is said again.
            return "outdated" if last >= entry.when else None
        return "outdated" if last != entry.stored and last > entry.when else None

    def _last_stored(self, job: Key) -> datetime | None:
        found = self._jobs.get(job)
        reported = found.status.trainer_status if found else None
        return reported.last_updated_time if reported else None

    async def _store(self, job: Key, entry: _Entry) -> None:
        try:
            result = await self._apply(job, entry)
            if result == _STORED:
                self._stored += 1
                self._count(_STORED)
                self._backoff.reset()
            elif result is not None:
                self._drop(result)
            else:
                # The slot is kept meanwhile: an API server that is away is asked by few.
                await self._backoff.sleep()
                self._held.setdefault(job, entry)
        except asyncio.CancelledError:  # the time for it was over
            self._drop("stopped")
            raise
        finally:
            self._storing.discard(job)
            self._slots.release()
            if job in self._held:
                newer = self._held.pop(job)
                (self._urgent if newer.terminal else self._others)[job] = newer
            self._changed.set()

    async def _apply(self, job: Key, entry: _Entry) -> str | None:
        """Apply a report. Returns what has become of it; None if nobody knows."""
        try:
            await self._client.apply(api.TRAIN_JOBS, _body(job, entry), subresource="status")
        except (NotFound, Conflict) as error:
            log.info("statusserver.job_gone", trainjob=str(job), error=str(error))
            return "gone"
        except FrameworkError as error:
            log.warning("statusserver.report_not_stored", trainjob=str(job), error=str(error))
            is_final = isinstance(error, ApiError) and not isinstance(error, ServerError | TooManyRequests)
            return "refused" if is_final else None
        return _STORED

    def _drop(self, result: str, number: int = 1) -> None:
        self._dropped += number
        for _ in range(number):
            self._count(result)


def _body(job: Key, entry: _Entry) -> Json:
    metadata = {"name": job.name, "namespace": job.namespace}
    return {"apiVersion": api.API_VERSION, "kind": "TrainJob", "metadata": metadata, "status": entry.status}
