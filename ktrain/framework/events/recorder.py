"""
Taking and sending events.

Reporting never waits and never raises: events go into a bounded queue, and one sender writes them. Losing events is
allowed; slowing a controller is not. So an event is given up at once if the server says no (the namespace is going
away, or the right is missing), after four attempts if the server fails on it, and after twelve, some two minutes, while
no server is there, which holds all of them up anyway. What is lost is counted by why.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import anyio
import structlog

from ktrain.api.core import EVENTS
from ktrain.api.meta import Json, Key, Resource, format_micro_time
from ktrain.api.rbac import right
from ktrain.framework.backoff import Backoff
from ktrain.framework.client.codec import metadata_of
from ktrain.framework.errors import AlreadyExists, ApiError, FrameworkError, NotFound, TransportError
from ktrain.framework.metrics import Metrics
from ktrain.framework.metrics.events import EventMetrics

from .correlation import KEPT, Correlation, Series, Subject
from .forms import Form, NewerForm, OlderForm

if TYPE_CHECKING:
    from anyio.abc import TaskStatus
    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import ObjectMeta
    from ktrain.framework.client.client import Client
    from ktrain.framework.env import Env

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.events")

RIGHTS: Final = (right("watched", EVENTS, "create", "patch", reason="events for users"),)
QUEUE_SIZE: Final = 1000
"""Events that wait to be sent; further ones are dropped and counted."""

MAX_ATTEMPTS: Final = 4
"""How often an event is sent that the API server refuses."""

AWAY_ATTEMPTS: Final = 12
RETRY_CAP_S: Final = 10.0
NOTE_BYTES: Final = 1024
INSTANCE_LENGTH: Final = 128
NAME_LENGTH: Final = 230
FLUSH_TIMEOUT_S: Final = 5.0
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class EventRecorder:
    """
    Reports events as one component.

    Args:
        client: Writes them; one without a guard, as the last events are sent when the lease is given up already.
        env: Time and randomness.
        component: `reportingController`, for example `trainer-trainjob-controller`.
        instance: `reportingInstance`, by default the component.
        metrics: For what was written and what was lost.
        by_version: Whether events about two versions of an object always differ, as with client-go's recorder for
            `events.k8s.io`: each restart of a job, say, is an event of its own.
        older: Whether events are written through the core API, with `firstTimestamp`, `lastTimestamp` and `count`, as
            kubelets do. It takes rights on events of the group "" in place of `events.k8s.io`.
    """

    needs_leader = False
    """Events are not the leader's: a manager that is given a further recorder runs it in every replica."""

    def __init__(
        self,
        client: Client,
        env: Env,
        *,
        component: str,
        instance: str = "",
        metrics: Metrics | None = None,
        by_version: bool = False,
        older: bool = False,
    ) -> None:
        self._client = client
        self._env = env
        self._component = component
        self._instance = (instance or component)[:INSTANCE_LENGTH]
        self._metrics = EventMetrics.of(metrics or Metrics())
        self._by_version = by_version
        self._form: Form = OlderForm() if older else NewerForm()
        self._correlation = Correlation()
        self._queue: deque[Series] = deque()
        self._unwritten: set[Series] = set()
        self._until_s = float("inf")
        self._wake = anyio.Event()

    def event(
        self,
        resource: Resource[Any],
        obj: object,
        *,
        reason: str,
        message: str,
        type: str = "Normal",  # noqa: A002 - the API's own word
        action: str = "Reconcile",
        related: tuple[Resource[Any], object] | None = None,
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
            related: Kind and object of a second one that has to do with it, for example the Job that was made.
        """
        meta = metadata_of(obj)
        now_s = self._env.clock.monotonic()
        identity = meta.uid or str(meta.key)
        other = _reference(*related) if related else {}
        regarding = f"{identity} {meta.resource_version}" if self._by_version else identity
        subject = Subject(
            regarding, other.get("uid") or other.get("name", ""), resource.kind, type, reason, action, _cut(message)
        )
        subject, note = self._correlation.combine(subject, now_s)
        stamp = format_micro_time(self._env.clock.now())
        if (series := self._correlation.running(subject, now_s)) is not None:
            series.again(now_s, stamp)
            self._note(series)
            return
        if len(self._queue) >= QUEUE_SIZE:
            self._drop("queue_full", subject, meta.key)
            return
        if not self._correlation.may_begin(identity, now_s):
            self._metrics.dropped("spam")  # not logged: that would be the next flood
            return
        told: Json = {"type": type, "reason": reason, "action": action, "note": _cut(note)}
        about: Json = {"regarding": _reference(resource, obj)} | ({"related": other} if other else {})
        series = Series(subject, self._body(meta, stamp) | about | told, now_s, stamp)
        self._correlation.begin(series)
        self._enqueue(series)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Send events until cancelled; then what is left is sent for at most 5 seconds more."""
        task_status.started()
        try:
            while True:
                await self._wait()
                self._collect(self._env.clock.monotonic())
                await self._flush()
        finally:
            with anyio.move_on_after(FLUSH_TIMEOUT_S, shield=True):
                self._collect(float("inf"))
                await self._flush()
            for series in self._queue:
                self._lose(series, "stopped", "")
            self._queue.clear()

    def _body(self, meta: ObjectMeta, stamp: str) -> Json:
        """Return an event without what it is about, and what it tells."""
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": self._name(meta.name), "namespace": meta.namespace or "default"},
            "eventTime": stamp,
            "reportingController": self._component,
            "reportingInstance": self._instance,
        }

    async def _wait(self) -> None:
        """Wait for an event, or until the count of a series should be written."""
        self._until_s = min((series.due_s() for series in self._unwritten), default=float("inf"))
        if not self._queue:
            with anyio.move_on_after(max(self._until_s - self._env.clock.monotonic(), 0.0)):
                await self._wake.wait()
        self._wake = anyio.Event()

    def _note(self, series: Series) -> None:
        """Remember that the server does not know a series' count; if there are too many, until it happens again."""
        if len(self._unwritten) < KEPT:
            self._unwritten.add(series)
            # A flood of repetitions must not keep the sender awake, looking for what is due.
            if series.due_s() < self._until_s:
                self._wake.set()

    def _collect(self, now_s: float) -> None:
        """Queue the series whose counts should be written by now."""
        for series in [one for one in self._unwritten if one.due_s() <= now_s]:
            self._unwritten.discard(series)
            if not series.queued:
                self._enqueue(series)

    def _enqueue(self, series: Series) -> None:
        series.queued = True
        self._queue.append(series)
        self._wake.set()

    async def _flush(self) -> None:
        while self._queue:
            # Stays in the queue until sent, so that the flush after a cancellation begins with it.
            await self._send(self._queue[0])
            self._queue.popleft().queued = False

    async def _send(self, series: Series) -> None:
        backoff = Backoff(self._env, cap_s=RETRY_CAP_S)
        attempts = 0
        while True:
            attempts += 1
            try:
                await self._write(series)
            except FrameworkError as error:
                limit = AWAY_ATTEMPTS if isinstance(error, TransportError) else MAX_ATTEMPTS
                if _is_final(error) or attempts >= limit:
                    self._lose(series, "refused" if _is_final(error) else "unreachable", str(error))
                    return
                log.info("event.retried", reason=series.subject.reason, error=str(error))
                await backoff.sleep()
            except Exception:
                # An event is not worth the operator: what nobody foresaw costs this one.
                log.exception("event.crashed", reason=series.subject.reason)
                self._lose(series, "crashed", "see above")
                return
            else:
                self._metrics.written()
                return

    async def _write(self, series: Series) -> None:
        count, observed, form = series.count, series.observed, self._form
        if series.key is not None:
            try:
                await self._client.patch(form.resource, series.key, form.repeated(count, observed))
            except NotFound:
                # The server forgets events after an hour without a change.
                series.key = None
                series.body["metadata"]["name"] = self._name(series.body["regarding"]["name"])
        if series.key is None:
            key = Key(series.body["metadata"]["namespace"], series.body["metadata"]["name"])
            try:
                await self._client.create(form.resource, form.whole(series.body, count, observed))
            except AlreadyExists:
                # The name was drawn for this event: an attempt before this one succeeded and was cut short.
                await self._client.patch(form.resource, key, form.repeated(count, observed))
            series.key = key
        series.wrote(count, self._env.clock.monotonic())
        if series.count == count:
            self._unwritten.discard(series)

    def _lose(self, series: Series, why: str, error: str) -> None:
        self._unwritten.discard(series)
        if series.key is None:
            self._correlation.forget(series)
        regarding = series.body["regarding"]
        self._drop(why, series.subject, Key(regarding.get("namespace", ""), regarding.get("name", "")), error)

    def _drop(self, why: str, subject: Subject, key: Key, error: str = "") -> None:
        self._metrics.dropped(why)
        log.warning("event.dropped", why=why, reason=subject.reason, kind=subject.kind, object=str(key), error=error)

    def _name(self, regarding: str) -> str:
        name = regarding[:NAME_LENGTH]
        if not _SUBDOMAIN.fullmatch(name):
            # Not every object's name can be an Event's: those of RBAC are like system:node.
            name = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-") or "event"
        return f"{name}.{self._env.random.getrandbits(64):016x}"


def _reference(resource: Resource[Any], obj: object) -> Json:
    meta = metadata_of(obj)
    found = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }
    return {name: value for name, value in found.items() if value}


def _cut(note: str) -> str:
    """As much of a note as the API takes: 1024 bytes, and no half character."""
    return note.encode()[:NOTE_BYTES].decode(errors="ignore")


def _is_final(error: FrameworkError) -> bool:
    """Whether trying again is in vain: the namespace is going away, or the right is missing. Being busy passes."""
    return isinstance(error, ApiError) and 400 <= error.code < 500 and error.code != 429
