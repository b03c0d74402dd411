"""
One leader, by a Lease (coordination.k8s.io/v1), in the way of client-go and better fenced.

What a candidate may conclude from the record is in `lease.py`: a foreign lease is valid until nothing in it has changed
for its own `leaseDurationSeconds`, by a clock of the candidate's that never goes back, and goes on while the machine is
suspended. So the leader may write until that time has passed since it *sent* its last successful renewal; nobody can
have seen that renewal earlier.

    sent ─── renew_deadline_s: no more writes are begun ─── lease_duration_s: none is on its way; others may lead

`guard` is that rule as a function. `Client` asks it before every attempt to write, and cuts an attempt short at the end
of the lease. A process that was paused finds its guard closed when it wakes, before it has noticed anything else.

Candidates watch the lease: they know of each renewal as it happens, take over when the last one they saw has expired
(not a poll later), and at once when it is given up. Attempts at the retry period do not depend on the watch.

The election wants a client of its own on a transport of its own (and without a guard): the most reported failure of
elections is a lease lost because renewals queued behind other calls.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio
import structlog

from ktrain.api.core import LEASES, Lease, LeaseSpec
from ktrain.api.meta import Json, Key, format_micro_time
from ktrain.framework.cache.reflector import Reflector
from ktrain.framework.errors import (
    ApiError,
    Conflict,
    Forbidden,
    FrameworkError,
    LeadershipLost,
    NotFound,
    Unauthorized,
)
from ktrain.framework.metrics import Metrics
from ktrain.framework.metrics.election import ElectionMetrics

from .lease import RELEASED_S, Record, own_namespace
from .writes import LeaseWrites

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from structlog.typing import FilteringBoundLogger

    from ktrain.framework.cache.names import Names
    from ktrain.framework.client.client import Client
    from ktrain.framework.env import Env
    from ktrain.framework.events import EventRecorder

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.election")

ACQUIRE_JITTER: Final = 1.2
EXPIRY_JITTER: Final = 0.2
"""Candidates that see one lease expire come apart by so much of a retry period."""
HANG_S: Final = 20.0
"""So long after its lease was over, a leader that has not stopped is unhealthy."""


@dataclass(frozen=True, slots=True)
class Timing:
    """
    The three times of an election, in seconds, with client-go's defaults.

    A crash costs at most `lease_duration_s` plus one retry until another leads; an end in order less than a second.
    """

    lease_duration_s: float = 15.0
    """How long others respect the lease after its last change."""
    renew_deadline_s: float = 10.0
    """How long after the last renewal the leader still begins writes; then leadership is lost."""
    retry_period_s: float = 2.0
    """Between two attempts to renew; candidates wait up to 2.2 times as long."""

    def __post_init__(self) -> None:
        """Refuse times under which two could lead."""
        if not self.lease_duration_s > self.renew_deadline_s > self.retry_period_s * ACQUIRE_JITTER > 0:
            raise ValueError(
                f"leader election needs lease duration > renew deadline > {ACQUIRE_JITTER} x retry period > 0; got "
                f"{self.lease_duration_s:g}, {self.renew_deadline_s:g}, {self.retry_period_s:g} s"
            )


class LeaderElection:
    """
    A candidate for one lease.

    Args:
        client: Its own, on its own transport, without a guard.
        env: Time and randomness.
        name: Of the Lease.
        namespace: Of the Lease. Default: this pod's; ValueError outside of a pod.
        identity: Of this process; must differ between processes (host name and a random part).
        timing: See `Timing`.
        labels: That the Lease shall have.
        recorder: Tells on the Lease who came to lead, and who left.
        metrics: For `leader_election_master_status` and `leader_election_slowpath_total`.
    """

    def __init__(
        self,
        client: Client,
        env: Env,
        *,
        name: str,
        namespace: str = "",
        identity: str,
        timing: Timing | None = None,
        labels: Mapping[str, str] | None = None,
        recorder: EventRecorder | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._client = client
        self._env = env
        self._key = Key(namespace or own_namespace("the Lease of the leader election"), name)
        self._identity = identity
        self._timing = timing or Timing()
        self._attempt_s = self._timing.renew_deadline_s / 3
        self._writes = LeaseWrites(client, self._key, dict(labels or {}))
        self._recorder = recorder
        self._metrics = ElectionMetrics.of(metrics or Metrics(), name)
        self._record = Record(identity)
        self._sent_at_s: float | None = None
        self._unsure = False
        self._problem = ""
        self._is_refused = False
        self._log = log.bind(lease=str(self._key), identity=identity)

    @property
    def is_leader(self) -> bool:
        """Whether writes may be begun now."""
        return self._left_s(self._timing.renew_deadline_s) > 0

    @property
    def holder(self) -> str:
        """Who leads, as far as this process knows; empty for nobody."""
        return self._record.holder

    def guard(self) -> float:
        """
        Seconds until another may lead. For `Client(guard=...)`.

        Raises:
            LeadershipLost: The renewal is overdue, or this process does not lead at all.
        """
        if not self.is_leader:
            raise LeadershipLost(f"{self._identity} does not hold the lease {self._key}: no write may be sent")
        return self._left_s(self._timing.lease_duration_s)

    def check(self) -> str | None:
        """Say for `/healthz` whether this process should have stopped long ago: its lease is over, its work is not."""
        if self._sent_at_s is None:
            return None
        over_s = self._env.clock.boottime() - self._sent_at_s - self._timing.lease_duration_s
        return f"the lease was over {over_s:.0f} s ago, and its work goes on" if over_s > HANG_S else None

    def describe(self) -> str:
        """Say in a few words who leads, for readiness."""
        if self.is_leader:
            return "this process leads"
        state = f"waits; {self.holder or 'nobody known'} leads"
        return f"{state}; the last attempt failed: {self._problem}" if self._problem else state

    def refusal(self) -> str:
        """Say why this process can never lead, because it may not read or write the Lease; empty if it may."""
        grant = "grant this identity `get`, `list`, `watch`, `create` and `patch` on the Lease"
        return f"{self._problem}; {grant}" if self._is_refused else ""

    async def acquire(self) -> None:
        """
        Wait until this process leads. Errors of the API are logged and tried again.

        Safe to cancel: what may have been won by then is given up again.
        """
        self._log.info("election.waiting")
        watch = _Watch(self._saw)
        selector = f"metadata.name={self._key.name}"
        reflector = Reflector(
            self._client, LEASES, watch, self._env, namespace=self._key.namespace, field_selector=selector
        )
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(reflector.run, name=f"watch lease {self._key}")
                while not await self._attempt():
                    await watch.wait(self._pause_s())
                tasks.cancel_scope.cancel()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._release()
            raise
        self._metrics.status(1)
        self._log.info("election.won")
        self._report("became leader")

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """
        Renew the lease during the block, and release it afterwards, so that a successor need not wait.

        Raises:
            LeadershipLost: No renewal succeeded within the deadline. The block is cancelled.
        """
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._renew, name=f"renew lease {self._key}")
                yield
                tasks.cancel_scope.cancel()
        finally:
            self._metrics.status(0)
            self._report("stopped leading")
            with anyio.CancelScope(shield=True):
                await self._release()

    async def _renew(self) -> None:
        while True:
            await self._env.clock.sleep(min(self._timing.retry_period_s, self._left_s(self._timing.renew_deadline_s)))
            if not await self._attempt() and not self.is_leader:
                self._log.error("election.lost", holder=self.holder)
                raise LeadershipLost(
                    f"the lease {self._key} was not renewed within {self._timing.renew_deadline_s:g} s; "
                    f"its last known holder is {self.holder or 'nobody'}"
                )

    async def _attempt(self) -> bool:
        """Try once to get or to keep the lease; True if it is ours. Ends well before the renewal is overdue."""
        try:
            async with asyncio.timeout(self._attempt_s):
                won = await self._try_once()
        except (FrameworkError, TimeoutError) as error:
            known, self._problem = self._problem, str(error) or f"no answer in {self._attempt_s:.1f} s"
            self._is_refused = isinstance(error, Forbidden | Unauthorized)
            # Attempts come every few seconds: the same problem is one line, until an attempt succeeds.
            if self._problem != known:
                self._log.warning("election.attempt_failed", error=self._problem)
            return False
        self._problem, self._is_refused = "", False
        return won

    async def _try_once(self) -> bool:
        if self._sent_at_s is not None and self._record.spec is not None:
            # The record in hand is our own last write: one call is enough, unless somebody touched it since.
            with suppress(Conflict, NotFound):
                return await self._write(self._record.spec)
            self._metrics.slowpath()
        await self._look()
        if self._record.taken_for_s(self._env.clock.boottime()) > 0:
            self._sent_at_s = None
            return False
        return await self._write(self._record.spec)

    async def _look(self) -> None:
        lease: Lease | None = None
        with suppress(NotFound):
            lease = await self._client.get(LEASES, self._key.name, self._key.namespace)
        self._record.see(lease, self._env.clock.boottime())

    async def _write(self, old: LeaseSpec | None) -> bool:
        """Store this process as the holder. Raises Conflict if somebody else was faster."""
        sent_at_s = self._env.clock.boottime()
        now = self._env.clock.now()
        mine = old is not None and old.holder_identity == self._identity
        spec: Json = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": math.ceil(self._timing.lease_duration_s),
            "acquireTime": format_micro_time(old.acquire_time if mine and old and old.acquire_time else now),
            "renewTime": format_micro_time(now),
            "leaseTransitions": 0 if old is None else old.lease_transitions + (not mine),
        }
        lease = await self._exchange(spec, create=old is None)
        self._record.see(lease, self._env.clock.boottime())
        self._sent_at_s = sent_at_s
        return True

    async def _exchange(self, spec: Json, *, create: bool = False) -> Lease:
        """Write the record, if it is still the one that was seen. What no answer tells is looked up later."""
        self._record.claimed = self._unsure = True
        try:
            lease = await (self._writes.create(spec) if create else self._writes.change(spec, self._record.version))
        except ApiError:
            self._unsure = False
            raise
        self._unsure = False
        return lease

    async def _release(self) -> None:
        """Give the lease up, if it is ours. Nobody may write on its strength any more when this is called."""
        if self._sent_at_s is None and not self._unsure:
            return
        known = self._sent_at_s is not None and not self._unsure
        self._sent_at_s = None
        try:
            async with asyncio.timeout(self._attempt_s):
                while not known or not await self._try_release():
                    await self._look()
                    if not self._record.is_ours:
                        return
                    known = True
            self._log.info("election.released")
        except (FrameworkError, TimeoutError) as error:
            self._log.warning("election.release_failed", error=str(error) or "no answer in time")

    async def _try_release(self) -> bool:
        """False if somebody touched the record since it was seen."""
        now = format_micro_time(self._env.clock.now())
        spec = {"holderIdentity": "", "leaseDurationSeconds": RELEASED_S, "renewTime": now, "acquireTime": now}
        try:
            lease = await self._exchange(spec)
        except Conflict:
            return False
        self._record.see(lease, self._env.clock.boottime())
        return True

    def _saw(self, lease: Lease | None) -> bool:
        """Take in what the watch brought; True if it is time for an attempt."""
        now_s = self._env.clock.boottime()
        if lease is None or self._record.is_newer(lease):
            self._record.see(lease, now_s)
        return self._record.taken_for_s(now_s) == 0

    def _pause_s(self) -> float:
        """Until the next attempt: the retry period, but not beyond the moment at which the lease is free."""
        draw, retry_s = self._env.random.uniform, self._timing.retry_period_s
        pause_s = draw(1.0, 1.0 + ACQUIRE_JITTER) * retry_s
        taken_s = self._record.taken_for_s(self._env.clock.boottime())
        return min(pause_s, taken_s + draw(0.0, EXPIRY_JITTER) * retry_s) if taken_s > 0 else pause_s

    def _report(self, what: str) -> None:
        if self._recorder is not None and self._record.lease is not None:
            message = f"{self._identity} {what}"
            self._recorder.event(LEASES, self._record.lease, reason="LeaderElection", message=message, action="Lead")

    def _left_s(self, span_s: float) -> float:
        """What is left of a time span that began when the last good renewal was sent."""
        if self._sent_at_s is None:
            return 0.0
        return max(0.0, self._sent_at_s + span_s - self._env.clock.boottime())


class _Watch:
    """A sink for one lease, which wakes its candidate when `saw` says that the lease is free."""

    def __init__(self, saw: Callable[[Lease | None], bool]) -> None:
        self._saw = saw
        self._event = asyncio.Event()

    async def wait(self, at_most_s: float) -> None:
        """Wait until the lease is free, or the time has passed."""
        with anyio.move_on_after(at_most_s):
            await self._event.wait()
        self._event.clear()

    async def replace(self, objects: dict[Key, Lease], version: int, left_out: Names | None = None) -> None:
        """Look at the lease, if there is one; that there is none, the attempts find out by themselves."""
        for lease in objects.values():
            self._look(lease)

    def put(self, key: Key, obj: Lease, version: int) -> None:
        """Look at the lease."""
        self._look(obj)

    def leave_out(self, key: Key, version: int) -> None:
        """Nothing is left out here."""

    def remove(self, key: Key, last: Lease | None, version: int) -> None:
        """Note that the lease was deleted."""
        self._look(None)

    def reached(self, version: int) -> None:
        """Nothing to do."""

    def failed(self, error: FrameworkError) -> None:
        """Nothing to do: the attempts at the retry period go on."""

    def _look(self, lease: Lease | None) -> None:
        if self._saw(lease):
            self._event.set()
