"""
Keeps a sink equal to what the API server has: one initial content, then a watch that never ends.

The initial content comes as a streaming list where the server has it (KEP-3157: objects as ADDED events, closed by a
bookmark, and the same stream goes on as the watch), else as pages. After that only a 410 leads to a new list, at once
after a watch that lived, with growing pauses if lists expire as soon as they are made.
Everything else that ends a watch, a cut connection, silence, throttling, a missing permission, leads to a new watch
from the last version: relisting a whole kind because a proxy cuts streams is how clusters fall over
(kubernetes/kubernetes#138552).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import structlog

from ktrain.api.meta import Key, ObjectMeta, Resource
from ktrain.framework.backoff import Backoff
from ktrain.framework.client.client import Client, selector_query
from ktrain.framework.client.codec import INITIAL_EVENTS_END, BadObject, accept_header, codec_for, metadata_of
from ktrain.framework.errors import (
    ApiError,
    BadRequest,
    DecodeError,
    FrameworkError,
    Gone,
    Invalid,
    Status,
    TransportError,
    error_from_status,
    is_version_too_large,
)

from .listing import Content, list_all

if TYPE_CHECKING:
    from ktrain.framework.client.transport import Stream
    from ktrain.framework.env import Env

T = TypeVar("T")

log = structlog.get_logger("ktrain.framework.cache")

IDLE_TIMEOUT_S: Final = 75.0
"""The server sends a bookmark about once a minute; longer silence is a dead stream."""
WATCH_TIMEOUT_S: Final = (300, 600)
"""The server ends watches after a random time in this range, so that reconnects spread out."""
PRODUCTIVE_S: Final = 5.0
"""A stream that lived this long, or delivered something, was worth opening: the next opens at once."""
EVENTS_PER_TURN: Final = 256
"""Buffered events are decoded without waiting; after this many, others have a turn (about 5 ms)."""


class Sink(Protocol[T]):
    """Where content goes. Each call takes effect at once and never raises."""

    def replace(self, objects: dict[Key, T], version: int) -> None:
        """Make this the whole content."""

    def put(self, key: Key, obj: T, version: int) -> None:
        """Add or change an object."""

    def remove(self, key: Key, last: T | None, version: int) -> None:
        """Remove an object; `last` is its final state, if it could be read."""

    def reached(self, version: int) -> None:
        """The content is complete up to this version."""

    def failed(self, error: FrameworkError) -> None:
        """The API server cannot be followed at the moment; it is tried again."""


class Reflector(Generic[T]):
    """Runs until cancelled. One per informer."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        sink: Sink[T],
        env: Env,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> None:
        self._client = client
        self._resource = resource
        self._codec = codec_for(resource)
        self._sink = sink
        self._env = env
        self._namespace = namespace
        self._selectors = selector_query(label_selector, field_selector)
        self._backoff = Backoff(env)
        self._log = log.bind(resource=resource.qualified_name, namespace=namespace or "*")
        self._listed = False
        self._streaming_list = True
        self._version = ""
        self._initial: Content[T] | None = None
        self._delivered = False
        self._installed_at_s = 0.0

    async def run(self) -> None:
        """Follow the API server for ever. Every error is logged, handed to the sink, and followed by a wait."""
        while True:
            try:
                await self._cycle()
            except Gone as error:
                await self._on_gone(error)
            except FrameworkError as error:
                self._sink.failed(error)
                if not self._listed and is_version_too_large(error):
                    self._version = ""
                retry_after = error.status.details.retry_after_seconds if isinstance(error, ApiError) else 0
                self._log.warning("watch.failed" if self._listed else "list.failed", error=str(error))
                await self._backoff.sleep(at_least_s=retry_after)
            except Exception as error:  # noqa: BLE001 - what nobody foresaw, in one kind, must not stop the cache of all
                await self._on_crash(error)

    async def _cycle(self) -> None:
        if self._listed or self._streaming_list:
            try:
                await self._watch()
            except (BadRequest, Invalid):
                if self._listed:
                    raise
                self._log.info("list.streaming_refused")
                self._streaming_list = False
        else:
            self._install(
                await list_all(
                    self._client,
                    self._resource,
                    namespace=self._namespace,
                    selectors=self._selectors,
                    not_older_than=self._version,
                )
            )

    async def _on_gone(self, error: Gone) -> None:
        """
        Expired watch: list, not older than what was seen. Expired list: the newest.

        At once, if the content was good for a while; a server whose lists expire at once must not be asked for whole
        kinds in a loop.
        """
        self._log.info("watch.expired" if self._listed else "list.expired", version=self._version)
        if self._listed:
            self._listed = False
            at_once = self._env.clock.monotonic() - self._installed_at_s >= PRODUCTIVE_S
        else:
            at_once = bool(self._version)
            self._version = ""
        if not at_once:
            self._sink.failed(error)
            await self._backoff.sleep()

    async def _on_crash(self, error: Exception) -> None:
        """Begin anew after a pause: what the exception left half done is not known."""
        self._log.error("watch.crashed", error=repr(error), exc_info=error)
        self._sink.failed(FrameworkError(f"unexpected {type(error).__name__} while following the API server: {error}"))
        self._listed = False
        await self._backoff.sleep()

    async def _watch(self) -> None:
        """Open one stream and follow it to its end. Raises what ended it, unless the stream was worth opening."""
        started = self._env.clock.monotonic()
        self._initial = None if self._listed else Content()
        self._delivered = False
        ended: FrameworkError = TransportError("the server ended the watch")
        try:
            async with self._client.stream(
                self._resource.path(self._namespace),
                query=self._query(),
                headers=accept_header(self._resource),
                idle_timeout_s=IDLE_TIMEOUT_S,
            ) as stream:
                await self._follow(stream)
        except (TransportError, DecodeError) as error:  # DecodeError: cut in the middle of a line
            ended = error
        lived_s = self._env.clock.monotonic() - started
        if not self._listed or not (self._delivered or lived_s >= PRODUCTIVE_S):
            raise ended
        self._log.debug("watch.restarted", version=self._version, lived_s=lived_s, reason=str(ended))

    def _query(self) -> list[tuple[str, str]]:
        timeout_s = self._env.random.randint(*WATCH_TIMEOUT_S)
        query = [("watch", "true"), ("allowWatchBookmarks", "true"), ("timeoutSeconds", str(timeout_s))]
        if not self._listed:
            # A resumed watch must not ask for this again: it would get everything a second time.
            query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
        if self._version:
            query.append(("resourceVersion", self._version))
        return [*query, *self._selectors]

    async def _follow(self, stream: Stream) -> None:
        count = 0
        async for line in stream.lines:
            self._handle(*self._codec.decode_event(line))
            count += 1
            if count % EVENTS_PER_TURN == 0:
                await self._env.clock.sleep(0)

    def _handle(self, kind: str, payload: T | ObjectMeta | Status | BadObject) -> None:
        if isinstance(payload, Status):
            raise error_from_status(payload, method="GET", path=self._resource.path(self._namespace))
        if isinstance(payload, ObjectMeta):
            self._on_bookmark(payload)
            return
        self._delivered = True
        if isinstance(payload, BadObject):
            self._on_bad(payload, deleted=kind == "DELETED")
            return
        meta = metadata_of(payload)
        key = meta.key
        if self._initial is not None:
            # Initial events come in no order of versions: the bookmark at their end says where the watch goes on.
            if kind == "DELETED":
                self._initial.objects.pop(key, None)
            else:
                self._initial.objects[key] = payload
            return
        self._version = meta.resource_version
        if kind == "DELETED":
            self._sink.remove(key, payload, version_number(self._version))
        else:
            self._sink.put(key, payload, version_number(self._version))

    def _on_bookmark(self, meta: ObjectMeta) -> None:
        if self._initial is None:
            self._version = meta.resource_version
            self._sink.reached(version_number(self._version))
        elif meta.annotations.get(INITIAL_EVENTS_END) == "true":
            self._initial.resource_version = meta.resource_version
            self._install(self._initial)
            self._initial = None

    def _on_bad(self, bad: BadObject, *, deleted: bool) -> None:
        """Drop an object that cannot be read: nobody may act on a copy known to be out of date."""
        self._log.error("object.unreadable", key=str(bad.key), reason=bad.reason, deleted=deleted)
        if self._initial is None:
            self._sink.remove(bad.key, None, 0)

    def _install(self, content: Content[T]) -> None:
        for bad in content.bad:
            self._log.error("object.unreadable", key=str(bad.key), reason=bad.reason, deleted=False)
        self._listed = True
        self._delivered = True
        self._installed_at_s = self._env.clock.monotonic()
        self._version = content.resource_version
        self._sink.replace(content.objects, version_number(self._version))
        self._log.debug("list.done", objects=len(content.objects), version=self._version)


def version_number(version: str) -> int:
    """A resource version as the integer it is (comparable within one resource since KEP-5504); 0 if it is none."""
    return int(version) if version.isdecimal() else 0
