"""
Keeps a sink equal to what the API server has: one initial content, then a watch that never ends.

The initial content comes as a streaming list where the server has it (KEP-3157: objects as ADDED events, closed by a
bookmark, and the same stream goes on as the watch), else as pages. After that these lead to a new list, nothing else:

    expired     410: at once after a watch that lived, with growing pauses if lists expire as soon as they are made
    went_back   the server was put back to an earlier state (a restored etcd)
    missing     the kind was not served for a while
    crashed     an index function, which is foreign code, raised: how far the store is right is not known

Everything else that ends a watch, a cut connection, silence, throttling, a missing permission, leads to a new watch
from the last version, also if it was very short: relisting a whole kind because a proxy cuts streams is how clusters
fall over (kubernetes/kubernetes#138552).
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import structlog

from ktrain.framework.backoff import Backoff
from ktrain.framework.client.client import Client, selector_query
from ktrain.framework.client.codec import accept_header, codec_for
from ktrain.framework.errors import (
    ApiError,
    BadRequest,
    DecodeError,
    Forbidden,
    FrameworkError,
    Gone,
    Invalid,
    KindMissing,
    NotFound,
    TooManyRequests,
    TransportError,
    Unauthorized,
    is_version_too_large,
)

from .intake import Holds, Intake, Sink, Taken, Transform
from .listing import Content, list_all
from .record import WatchRecord
from .replays import version_number
from .silence import IDLE_TIMEOUT_S, Silence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Resource
    from ktrain.framework.client.transport import Stream
    from ktrain.framework.env import Env


T = TypeVar("T")

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.cache")

WATCH_TIMEOUT_S: Final = (300, 600)
"""The server ends watches after a random time in this range, so that reconnects spread out."""
PRODUCTIVE_S: Final = 5.0
"""A stream that lived this long, or brought something new, was worth opening: the next opens at once."""
DUMB_S: Final = 60.0
"""A resumed stream that lived this long and brought nothing new, not even a bookmark, is suspicious."""
SHORT_WATCH_CAP_S: Final = 2.0
"""Longest pause (times up to two) after watches that are accepted and end at once: a request costs a server little."""
ABSENT_CAP_S: Final = 5.0
"""Longest pause (times up to two) between looks for a kind that is missing: somebody waits for what was installed."""
SLOW_LIST_S: Final = 10.0
EVENTS_PER_TURN: Final = 64
BYTES_PER_TURN: Final = 256 << 10
"""Buffered events are decoded without waiting; after so many, or so much, others have a turn (some milliseconds)."""


class Reflector(Generic[T]):
    """
    Runs until cancelled. One per informer. Cancelled and run again it goes on where it was; the sink sees no gap.

    Args:
        transform: See `Transform`.
        holds: See `Holds`.
        watch_timeout_s: The server is asked to end each watch after a random time in this range. Shorter ones notice a
            dead connection sooner (at most five seconds after the longest), at the price of that many reconnects. A
            streaming list must fit into it.
        record: Where counts are noted.
        on_unauthorized: Logs that the server does not know us, in place of a line for each kind.
    """

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
        transform: Transform[T] | None = None,
        holds: Holds[T] | None = None,
        watch_timeout_s: tuple[int, int] = WATCH_TIMEOUT_S,
        record: WatchRecord | None = None,
        on_unauthorized: Callable[[Unauthorized], None] | None = None,
    ) -> None:
        self._client = client
        self._resource = resource
        self._sink = sink
        self._env = env
        self._namespace = namespace
        self._selectors = selector_query(label_selector, field_selector)
        self._watch_timeout_s = watch_timeout_s
        self._record = record or WatchRecord()
        self._intake = Intake(resource, sink, self._record, transform=transform, holds=holds)
        self._silence = Silence()
        self._on_unauthorized = on_unauthorized
        self._refused = Backoff(env)
        self._short = Backoff(env, cap_s=SHORT_WATCH_CAP_S)
        self._absent = Backoff(env, cap_s=ABSENT_CAP_S)
        self._log = log.bind(resource=resource.qualified_name, namespace=namespace or "*")
        self._listed = False
        self._streaming_list = True
        self._installed_at_s = 0.0
        self._not_found = False
        self._missing = False
        self._doubtful = False

    async def run(self) -> None:
        """Follow the API server for ever. Every error is logged, handed to the sink, and followed by a wait."""
        while True:
            try:
                await self._cycle()
            except Gone as error:
                await self._on_gone(error)
            except NotFound as error:
                await self._on_not_found(error)
            except FrameworkError as error:
                await self._on_failure(error)
            except Exception as error:  # noqa: BLE001 - what nobody foresaw, in one kind, must not stop the cache of all
                await self._on_crash(error)

    async def _cycle(self) -> None:
        if self._doubtful:
            await self._check_position()
        if self._listed:
            await self._watch()
        elif self._streaming_list:
            try:
                await self._watch()
            except (BadRequest, Invalid):
                if self._listed:
                    raise
                self._log.info("list.streaming_refused")
                self._streaming_list = False
        else:
            await self._list()

    async def _list(self) -> None:
        started_s = self._env.clock.monotonic()
        content = await list_all(
            self._client,
            self._resource,
            self._intake.kept,
            namespace=self._namespace,
            selectors=self._selectors,
            not_older_than=self._intake.version,
        )
        await self._install(content, started_s)

    async def _install(self, content: Content[T], started_s: float) -> None:
        self._intake.note(content)
        # Before the wait: whoever is cancelled in it must not go back behind what readers see already.
        self._intake.version = content.resource_version
        await self._sink.replace(content.objects, version_number(content.resource_version), content.left_out)
        now_s = self._env.clock.monotonic()
        self._intake.content = None
        self._listed, self._missing = True, False
        self._installed_at_s = now_s
        self._record.heard_at_s = now_s
        self._record.metrics.list_duration(now_s - started_s)
        self._log.debug("list.done", objects=len(content.objects), version=content.resource_version)

    # One stream

    async def _watch(self) -> None:
        """Open one stream and follow it to its end. Raises what ended it, unless the stream was worth opening."""
        started_s = self._env.clock.monotonic()
        timeout_s = self._env.random.randint(*self._watch_timeout_s)
        resumed, began_at = self._listed, self._intake.version
        self._intake.begin(resumed=resumed)
        ended: FrameworkError = TransportError("the server ended the watch")
        reason, opened = "ended", False
        try:
            async with (
                asyncio.timeout(None) as limit,
                self._client.stream(
                    self._resource.path(self._namespace),
                    query=self._query(timeout_s),
                    headers=accept_header(self._resource),
                    idle_timeout_s=IDLE_TIMEOUT_S,
                ) as stream,
            ):
                opened, self._not_found = True, False
                self._silence.opened(self._env.clock.monotonic(), timeout_s)
                with self._impatience():
                    await self._follow(stream, limit, started_s)
        except TimeoutError:
            self._silence.missed()
            reason, ended = "silent", TransportError("the watch was silent although a bookmark, or its end, was due")
        except (TransportError, DecodeError) as error:  # DecodeError: cut in the middle of a line
            reason, ended = "cut", error
        lived_s = self._env.clock.monotonic() - started_s
        if resumed and not self._intake.delivered and lived_s >= DUMB_S:
            self._doubtful = True
        if not (opened and self._listed):
            raise ended
        self._record.restarted(reason)
        self._log.debug("watch.restarted", version=self._intake.version, lived_s=lived_s, reason=str(ended))
        if self._intake.version != began_at or lived_s >= PRODUCTIVE_S:
            self._short.reset()
        elif resumed:
            # Accepted, and over at once: the server is squeezed, or something between cuts. Never a reason to list.
            self._sink.failed(ended)
            await self._short.sleep()

    @contextmanager
    def _impatience(self) -> Iterator[None]:
        """While the first content is not complete, say so every ten seconds."""
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        timer: asyncio.TimerHandle

        def warn() -> None:
            nonlocal timer
            if self._intake.content is not None:
                objects = len(self._intake.content.objects)
                self._log.warning("list.slow", seconds=round(loop.time() - started_s), objects=objects)
                timer = loop.call_later(SLOW_LIST_S, warn)

        timer = loop.call_later(SLOW_LIST_S, warn)
        try:
            yield
        finally:
            timer.cancel()

    def _query(self, timeout_s: int) -> list[tuple[str, str]]:
        query = [("watch", "true"), ("allowWatchBookmarks", "true"), ("timeoutSeconds", str(timeout_s))]
        if not self._listed:
            # A resumed watch must not ask for this again: it would get everything a second time.
            query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
        if self._intake.version:
            query.append(("resourceVersion", self._intake.version))
        return [*query, *self._selectors]

    async def _follow(self, stream: Stream, limit: asyncio.Timeout, started_s: float) -> None:
        clock, loop = self._env.clock, asyncio.get_running_loop()
        if self._listed:
            limit.reschedule(loop.time() + self._silence.left_s(clock.monotonic()))
        events = size = 0
        async for line in stream.lines:
            self._record.heard_at_s = now_s = clock.monotonic()
            taken = self._intake.take(line)
            if taken is not Taken.EVENT:
                if taken is Taken.INITIAL_END and self._intake.content is not None:
                    await self._install(self._intake.content, started_s)
                if self._listed:
                    self._silence.bookmark(now_s)
                    limit.reschedule(loop.time() + self._silence.left_s(clock.monotonic()))
            events += 1
            size += len(line)
            if events >= EVENTS_PER_TURN or size >= BYTES_PER_TURN:
                events = size = 0
                await clock.sleep(0)

    # What to do when it ends otherwise

    async def _on_gone(self, error: Gone) -> None:
        """
        Expired watch: list, not older than what was seen. Expired list: the newest.

        At once, if the content was good for a while; a server whose lists expire at once must not be asked for whole
        kinds in a loop.
        """
        self._log.info("watch.expired" if self._listed else "list.expired", version=self._intake.version)
        if self._listed:
            self._list_again("expired")
            at_once = self._env.clock.monotonic() - self._installed_at_s >= PRODUCTIVE_S
        else:
            at_once = bool(self._intake.version)
            self._intake.version = ""
        if not at_once:
            self._sink.failed(error)
            await self._refused.sleep()

    async def _on_not_found(self, error: NotFound) -> None:
        """
        Wait for the kind to come (back): its CRD is not installed.

        A kind that was there is believed to be gone at the second answer only: one replica of the API server may not
        have heard of a CRD yet, and to tell every controller that all is deleted is not a small thing.
        """
        if self._listed and not self._not_found:
            self._not_found = True
            self._record.restarted("error")
            self._sink.failed(error)
            await self._refused.sleep()
            return
        if self._listed:
            self._list_again("missing")
            await self._sink.replace({}, 0)
        self._intake.version = ""
        if not self._missing:
            self._log.warning("kind.missing", error=str(error))
        self._missing = True
        name = f"{self._resource.qualified_name} {self._resource.version}"
        self._sink.failed(KindMissing(f"the API server does not serve {name}: its CRD is not installed"))
        await self._absent.sleep()

    async def _on_failure(self, error: FrameworkError) -> None:
        """Back off, then go on from the same version: nothing but a 410 is a reason to list a whole kind again."""
        self._sink.failed(error)
        if is_version_too_large(error):
            if not self._listed and self._intake.version:
                self._intake.version = ""
                return
            self._doubtful = self._listed
        if self._listed:
            self._record.restarted(_reason(error))
        retry_after_s = error.retry_after_s if isinstance(error, ApiError) else 0
        if isinstance(error, Unauthorized) and self._on_unauthorized is not None:
            self._on_unauthorized(error)
        else:
            self._log.warning("watch.failed" if self._listed else "list.failed", error=str(error))
        await self._refused.sleep(at_least_s=retry_after_s)

    async def _on_crash(self, error: Exception) -> None:
        """Begin anew after a pause: what the exception left half done is not known."""
        self._log.error("watch.crashed", error=repr(error), exc_info=error)
        self._sink.failed(FrameworkError(f"unexpected {type(error).__name__} while following the API server: {error}"))
        if self._listed:
            self._list_again("crashed")
        await self._refused.sleep()

    async def _check_position(self) -> None:
        """
        Ask where the server is, after a watch that went suspiciously.

        A watch from a version that the server has not reached opens, says nothing, and ends in good order. This is what
        a restored etcd looks like: without this question the cache would show the lost future for ever.
        """
        try:
            response = await self._client.raw(
                "GET",
                self._resource.path(self._namespace),
                query=[("limit", "1"), *self._selectors],
                headers=accept_header(self._resource, many=True),
            )
        except Forbidden as error:
            # Streaming lists need the right to watch only. Better in doubt than without a watch.
            self._log.info("watch.position_unknown", error=str(error))
            self._doubtful = False
            return
        now_at = codec_for(self._resource).split_page(response.body)[0].resource_version
        self._doubtful = False
        if 0 < version_number(now_at) < version_number(self._intake.version):
            self._log.warning("watch.went_back", version=now_at, seen=self._intake.version)
            self._intake.version = ""
            self._list_again("went_back")

    def _list_again(self, reason: str) -> None:
        self._listed = self._doubtful = False
        self._record.relisted(reason)


def _reason(error: FrameworkError) -> str:
    if isinstance(error, TooManyRequests):
        return "throttled"
    if isinstance(error, Forbidden | Unauthorized):
        return "forbidden"
    return "cut" if isinstance(error, TransportError) else "error"
