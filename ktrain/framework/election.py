"""
One leader, by a Lease (coordination.k8s.io/v1), in the way of client-go and better fenced.

No clock is compared with another. A candidate watches the record: a foreign lease is valid until nothing in it has
changed for its own `leaseDurationSeconds`, by the candidate's monotonic clock. So the leader may write until that time
has passed since it *sent* its last successful renewal; nobody can have seen that renewal earlier.

    sent ─── renew_deadline_s: no more writes are begun ─── lease_duration_s: none is on its way; others may lead

`guard` is that rule as a function. `Client` asks it before every attempt to write, and cuts an attempt short at the end
of the lease. A process that was paused finds its guard closed when it wakes, before it has noticed anything else.

The election wants a client of its own on a transport of its own (and without a guard): the most reported failure of
elections is a lease lost because renewals queued behind other calls.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import structlog

from ktrain.api.core import LEASES, Lease, LeaseSpec
from ktrain.api.meta import Json, Key, format_micro_time

from .cache.reflector import Reflector
from .errors import Conflict, FrameworkError, LeadershipLost, NotFound
from .metrics import Metrics
from .metrics.election import ElectionMetrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .client.client import Client
    from .env import Env

log = structlog.get_logger("ktrain.framework.election")

ACQUIRE_JITTER = 1.2


@dataclass(frozen=True, slots=True)
class Timing:
    """
    The three times of an election, in seconds, with client-go's defaults.

    A crash costs at most `lease_duration_s` plus two retries until another leads.
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
        namespace: Of the Lease.
        identity: Of this process; must differ between processes (host name and a random part).
        timing: See `Timing`.
        metrics: For `leader_election_master_status`.
    """

    def __init__(
        self,
        client: Client,
        env: Env,
        *,
        name: str,
        namespace: str,
        identity: str,
        timing: Timing | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._client = client
        self._env = env
        self._key = Key(namespace, name)
        self._identity = identity
        self._timing = timing or Timing()
        self._status = ElectionMetrics.of(metrics or Metrics(), name).status
        self._seen: LeaseSpec | None = None
        self._seen_at_s = 0.0
        self._version = ""
        self._sent_at_s: float | None = None
        self._log = log.bind(lease=str(self._key), identity=identity)

    @property
    def is_leader(self) -> bool:
        """Whether writes may be begun now."""
        return self._left_s(self._timing.renew_deadline_s) > 0

    def guard(self) -> float:
        """
        Seconds until another may lead. For `Client(guard=...)`.

        Raises:
            LeadershipLost: The renewal is overdue, or this process does not lead at all.
        """
        if not self.is_leader:
            raise LeadershipLost(f"{self._identity} does not hold the lease {self._key}: no write may be sent")
        return self._left_s(self._timing.lease_duration_s)

    async def acquire(self) -> None:
        """
        Wait until this process leads. Errors of the API are logged and tried again. Safe to cancel.

        A watch tells at once when the lease is given up; attempts at the retry period do not depend on it.
        """
        self._log.info("election.waiting")
        given_up = _GivenUp()
        selector = f"metadata.name={self._key.name}"
        reflector = Reflector(
            self._client, LEASES, given_up, self._env, namespace=self._key.namespace, field_selector=selector
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reflector.run, name=f"watch lease {self._key}")
            while not await self._attempt():
                await given_up.wait(self._env.random.uniform(1.0, 1.0 + ACQUIRE_JITTER) * self._timing.retry_period_s)
            tasks.cancel_scope.cancel()
        self._status(1)
        self._log.info("election.won")

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
            self._status(0)
            with anyio.CancelScope(shield=True):
                await self._release()

    async def _renew(self) -> None:
        while True:
            await self._env.clock.sleep(min(self._timing.retry_period_s, self._left_s(self._timing.renew_deadline_s)))
            if not await self._attempt() and not self.is_leader:
                self._log.error("election.lost")
                holder = self._seen.holder_identity if self._seen else ""
                raise LeadershipLost(
                    f"the lease {self._key} was not renewed within {self._timing.renew_deadline_s:g} s; "
                    f"its last known holder is {holder or 'nobody'}"
                )

    async def _attempt(self) -> bool:
        """Try once to get or to keep the lease; True if it is ours. Ends well before the renewal is overdue."""
        try:
            async with asyncio.timeout(self._timing.renew_deadline_s / 3):
                return await self._try_once()
        except (FrameworkError, TimeoutError) as error:
            self._log.warning("election.attempt_failed", error=str(error) or "no answer in time")
            return False

    async def _try_once(self) -> bool:
        if self._sent_at_s is not None and self._seen is not None:
            # The record in hand is our own last write: one call is enough, unless somebody touched it since.
            with suppress(Conflict, NotFound):
                return await self._write(self._seen)
        try:
            lease = await self._client.get(LEASES, self._key.name, self._key.namespace)
        except NotFound:
            return await self._write(None)
        self._observe(lease)
        if lease.spec.holder_identity not in ("", self._identity) and not self._has_expired(lease.spec):
            self._sent_at_s = None
            return False
        return await self._write(lease.spec)

    async def _write(self, old: LeaseSpec | None) -> bool:
        """Store this process as the holder. Raises Conflict if somebody else was faster."""
        sent_at_s = self._env.clock.monotonic()
        now = self._env.clock.now()
        mine = old is not None and old.holder_identity == self._identity
        spec: Json = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": math.ceil(self._timing.lease_duration_s),
            "acquireTime": format_micro_time(old.acquire_time if mine and old and old.acquire_time else now),
            "renewTime": format_micro_time(now),
            "leaseTransitions": 0 if old is None else old.lease_transitions + (not mine),
        }
        if old is None:
            meta = {"name": self._key.name, "namespace": self._key.namespace}
            body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": meta, "spec": spec}
            lease = await self._client.create(LEASES, body)
        else:
            # A patch keeps fields that are not ours (preferredHolder, strategy); the version makes it an exchange.
            patch = {"metadata": {"resourceVersion": self._version}, "spec": spec}
            lease = await self._client.patch(LEASES, self._key, patch)
        self._observe(lease)
        self._sent_at_s = sent_at_s
        return True

    async def _release(self) -> None:
        """Give the lease up, if it is still ours. Nobody may write on its strength any more when this is called."""
        if self._sent_at_s is None:
            return
        self._sent_at_s = None
        now = format_micro_time(self._env.clock.now())
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now}
        try:
            async with asyncio.timeout(self._timing.renew_deadline_s / 3):
                patch = {"metadata": {"resourceVersion": self._version}, "spec": spec}
                await self._client.patch(LEASES, self._key, patch)
            self._log.info("election.released")
        except (FrameworkError, TimeoutError) as error:
            self._log.warning("election.release_failed", error=str(error) or "no answer in time")

    def _observe(self, lease: Lease) -> None:
        self._version = lease.metadata.resource_version
        if lease.spec != self._seen:
            self._seen = lease.spec
            self._seen_at_s = self._env.clock.monotonic()

    def _has_expired(self, spec: LeaseSpec) -> bool:
        return self._env.clock.monotonic() >= self._seen_at_s + spec.lease_duration_seconds

    def _left_s(self, span_s: float) -> float:
        """What is left of a time span that began when the last good renewal was sent."""
        if self._sent_at_s is None:
            return 0.0
        return max(0.0, self._sent_at_s + span_s - self._env.clock.monotonic())


class _GivenUp:
    """A sink that wakes a candidate when the lease has no holder."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    async def wait(self, at_most_s: float) -> None:
        """Wait until the lease is given up, or the time has passed."""
        with anyio.move_on_after(at_most_s):
            await self._event.wait()
        self._event.clear()

    async def replace(self, objects: dict[Key, Lease], version: int) -> None:
        """Look at the lease, if there is one."""
        for key, lease in objects.items():
            self.put(key, lease, version)

    def put(self, key: Key, obj: Lease, version: int) -> None:  # noqa: ARG002 - a sink's
        """Wake the candidate if nobody holds the lease."""
        if not obj.spec.holder_identity:
            self._event.set()

    def remove(self, key: Key, last: Lease | None, version: int) -> None:  # noqa: ARG002 - a sink's
        """Wake the candidate: the lease was deleted."""
        self._event.set()

    def reached(self, version: int) -> None:
        """Nothing to do."""

    def failed(self, error: FrameworkError) -> None:
        """Nothing to do: the attempts at the retry period go on."""
