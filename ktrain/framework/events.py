"""
Events for people (events.k8s.io/v1): what a controller did, shown by `kubectl describe`.

Reporting never waits and never raises: events go into a bounded queue, and one sender writes them. When the same thing
happens again, the event on the server becomes a series with a count (KEP-383) instead of a second event. An object
that reports too much is cut short: a burst of 25, then one in 5 minutes. Losing events is allowed; slowing a controller
is not. So an event is tried a few times while the server is away or busy, and given up at once if it says no.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import structlog

from ktrain.api.core import EVENTS
from ktrain.api.meta import Json, Key, Resource, format_micro_time

from .backoff import Backoff
from .client.codec import metadata_of
from .errors import AlreadyExists, ApiError, FrameworkError, NotFound

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from .client.client import Client
    from .env import Env

log = structlog.get_logger("ktrain.framework.events")

QUEUE_SIZE = 1000
MAX_ATTEMPTS = 4
NOTE_BYTES = 1024
SERIES_END_S = 360.0
SERIES_KEPT = 4096
BURST = 25
REFILL_S = 300.0
FLUSH_TIMEOUT_S = 5.0


class Subject(NamedTuple):
    """What makes two events the same."""

    uid: str
    kind: str
    type: str
    reason: str
    action: str
    message: str


@dataclass(slots=True)
class Series:
    """An event that is on the server."""

    key: Key
    count: int
    last_s: float


@dataclass(slots=True)
class Budget:
    """How many more events one object may report."""

    left: float
    since_s: float


class EventRecorder:
    """
    Reports events as one component.

    Args:
        client: Writes them; one without a guard, as the last events are sent when the lease is given up already.
        env: Time and randomness.
        component: `reportingController`, for example `trainer-trainjob-controller`.
        instance: `reportingInstance`, by default the component.
    """

    def __init__(self, client: Client, env: Env, *, component: str, instance: str = "") -> None:
        self._client = client
        self._env = env
        self._component = component
        self._instance = (instance or component)[:128]
        self._queue: deque[tuple[Subject, Json]] = deque()
        self._wake = anyio.Event()
        self._series: OrderedDict[Subject, Series] = OrderedDict()
        self._budgets: OrderedDict[str, Budget] = OrderedDict()

    def event(
        self,
        resource: Resource[Any],
        obj: object,
        *,
        reason: str,
        message: str,
        type: str = "Normal",  # noqa: A002 - the API's own word
        action: str = "Reconcile",
    ) -> None:
        """
        Report that something happened to an object. Returns at once; raises nothing.

        Args:
            resource: The object's kind.
            obj: The object, typed or a dict.
            reason: One CamelCase word for machines.
            message: A sentence for people; at most 1 KiB is kept.
            type: Normal or Warning.
            action: What the component was doing.
        """
        meta = metadata_of(obj)
        note = message.encode()[:NOTE_BYTES].decode(errors="ignore")
        if not self._may_report(meta.uid or str(meta.key)):
            return
        if len(self._queue) >= QUEUE_SIZE:
            log.warning("event.dropped", reason=reason, object=str(meta.key), why="queue full")
            return
        regarding = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        }
        now = format_micro_time(self._env.clock.now())
        body: Json = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {
                "name": f"{meta.name[:230]}.{self._env.random.getrandbits(64):016x}",
                "namespace": meta.namespace or "default",
            },
            "eventTime": now,
            "reportingController": self._component,
            "reportingInstance": self._instance,
            "regarding": {name: value for name, value in regarding.items() if value},
            "type": type,
            "reason": reason,
            "action": action,
            "note": note,
        }
        self._queue.append((Subject(meta.uid, resource.kind, type, reason, action, note), body))
        self._wake.set()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Send events until cancelled; then what is queued is sent for at most 5 seconds more."""
        task_status.started()
        try:
            while True:
                await self._wake.wait()
                self._wake = anyio.Event()
                await self._flush()
        finally:
            with anyio.move_on_after(FLUSH_TIMEOUT_S, shield=True):
                await self._flush()

    async def _flush(self) -> None:
        while self._queue:
            # Stays in the queue until sent, so that the flush after a cancellation begins with it.
            await self._send(*self._queue[0])
            self._queue.popleft()

    async def _send(self, subject: Subject, body: Json) -> None:
        backoff = Backoff(self._env)
        for _ in range(MAX_ATTEMPTS):
            try:
                await self._store(subject, body)
            except FrameworkError as error:
                if _is_final(error):
                    log.warning("event.refused", reason=subject.reason, error=str(error))
                    return
                log.info("event.retried", reason=subject.reason, error=str(error))
                await backoff.sleep()
            except Exception:
                # An event is not worth the operator: what nobody foresaw costs this one.
                log.exception("event.dropped", reason=subject.reason)
                return
            else:
                return
        log.warning("event.dropped", reason=subject.reason, why=f"not stored in {MAX_ATTEMPTS} attempts")

    async def _store(self, subject: Subject, body: Json) -> None:
        now_s = self._env.clock.monotonic()
        series = self._series.get(subject)
        if series is not None and now_s - series.last_s < SERIES_END_S:
            patch = {"series": {"count": series.count + 1, "lastObservedTime": body["eventTime"]}}
            try:
                await self._client.patch(EVENTS, series.key, patch)
            except NotFound:
                pass  # the server forgets events after an hour: begin anew
            else:
                series.count, series.last_s = series.count + 1, now_s
                return
        # The name was drawn for this event: if it is taken, an attempt before this one succeeded and was cut short.
        with suppress(AlreadyExists):
            await self._client.create(EVENTS, body)
        key = Key(body["metadata"]["namespace"], body["metadata"]["name"])
        self._series[subject] = Series(key, 1, now_s)
        if len(self._series) > SERIES_KEPT:
            self._series.popitem(last=False)

    def _may_report(self, name: str) -> bool:
        """Take one from the object's budget: 25, refilled by one in 300 s."""
        now_s = self._env.clock.monotonic()
        budget = self._budgets.setdefault(name, Budget(BURST, now_s))
        budget.left = min(BURST, budget.left + (now_s - budget.since_s) / REFILL_S)
        budget.since_s = now_s
        if len(self._budgets) > SERIES_KEPT:
            self._budgets.popitem(last=False)
        if budget.left < 1:
            return False
        budget.left -= 1
        return True


def _is_final(error: FrameworkError) -> bool:
    """Whether trying again is in vain: the namespace is going away, or the right is missing. Being busy passes."""
    return isinstance(error, ApiError) and 400 <= error.code < 500 and error.code != 429
