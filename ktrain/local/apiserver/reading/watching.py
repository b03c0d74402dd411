"""
GET with `watch`: the stream of events of a collection, from a snapshot or from a version.

Opening a watch is one step without awaits: the snapshot is taken and the watcher registered before anything else can be
committed, so nothing is lost or seen twice between them. Refusals come before the first byte, as ordinary answers; only
what concerns history (410) and versions from the future is told inside the stream.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from ktrain.local.apiserver import causes, errors
from ktrain.local.apiserver.errors import StatusError, invalid_options
from ktrain.local.apiserver.reading import listing, selection
from ktrain.local.apiserver.storage.store import Expired, encode
from ktrain.local.apiserver.storage.watchers import Event, event_for

if TYPE_CHECKING:
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.registry import ServedResource
    from ktrain.local.apiserver.storage.store import Collection, Item
    from ktrain.local.apiserver.storage.watchers import Filter, Watcher

QUEUE_LIMIT: Final = 4096
BOOKMARK_INTERVAL_S: Final = 60.0
LAST_BOOKMARK_S: Final = 2.0
"""How long before its end a stream gets a bookmark, so that an idle client resumes from a recent version."""
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

_NOT_OLDER: Final = "NotOlderThan"
_MIN_TIMEOUT_S: Final = 1800
_MAX_EVENT_BATCH: Final = 256

Renderer = Callable[["Item"], bytes]
"""How an object appears inside an event: whole, as metadata only, as a row of a table."""


class Bookmark(Protocol):
    """How the object of a bookmark appears."""

    def __call__(self, revision: int, *, initial_end: bool) -> bytes:
        """Render a bookmark at a revision; `initial_end` marks the end of the initial events."""


@dataclass(frozen=True, slots=True)
class _Options:
    revision: int
    initial: bool
    """Whether the stream begins with all objects there are."""
    bookmarks: bool
    mark_end: bool
    timeout_s: float


@dataclass(frozen=True, slots=True)
class _Start:
    """What a stream begins with, fixed when it was opened."""

    events: list[Event]
    revision: int
    watcher: Watcher | None
    failure: StatusError | None = None


def open_watch(backend: Backend, call: Call, render: Renderer, bookmark: Bookmark) -> AsyncIterator[bytes]:
    """
    Open a stream of events, each a JSON line; several may come in one chunk.

    The iterator must be exhausted or closed (`aclose`), which ends the watch. `bookmark` renders the object of a
    bookmark from its revision and whether it ends the initial events.

    Raises:
        StatusError: The options or selectors are refused.
    """
    options = _read_options(backend, call)
    labels, fields = selection.parse(call)
    accepts = selection.matcher(call.resource, call.namespace, labels, fields)
    start = _start(backend.collection(call.resource), backend.store.revision, accepts, options, call.namespace)
    return _stream(backend, call.resource, start, options, render, bookmark)


def _read_options(backend: Backend, call: Call) -> _Options:
    parameters = call.parameters
    streaming = "sendInitialEvents" in parameters
    parameters.number("limit")  # A watch has none, but a bad number is refused.
    timeout = parameters.number("timeoutSeconds") or 0
    if found := _wrong_match(parameters.text("resourceVersionMatch"), parameters.text("continue"), streaming=streaming):
        raise invalid_options("ListOptions", found)
    revision = listing.read_revision(call)
    bookmarks = parameters.flag("allowWatchBookmarks")
    initial = parameters.flag("sendInitialEvents") if streaming else revision == 0
    return _Options(
        revision=backend.store.revision if streaming and not initial and not revision else revision,
        initial=initial,
        bookmarks=bookmarks,
        mark_end=initial and bookmarks,
        timeout_s=max(timeout, 0) if timeout else _MIN_TIMEOUT_S * (1 + backend.env.random.random()),
    )


def _wrong_match(match: str, token: str, *, streaming: bool) -> list[Cause]:
    details = []
    if streaming and match != _NOT_OLDER:
        details.append(f"sendInitialEvents requires setting resourceVersionMatch to {_NOT_OLDER}")
    if match and not streaming:
        details.append("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
    if token:
        details.append("resourceVersionMatch is forbidden when continue is provided")
    found = [causes.forbidden("resourceVersionMatch", detail) for detail in details]
    if match and match != _NOT_OLDER:
        found.append(causes.not_supported("resourceVersionMatch", match, [_NOT_OLDER]))
    return found


def _start(collection: Collection, current: int, accepts: Filter, options: _Options, namespace: str) -> _Start:
    if options.initial:
        if options.revision > current:
            return _Start([], current, None, errors.future_version(options.revision, current))
        watcher = collection.watch(accepts, limit=QUEUE_LIMIT)
        return _Start(
            [Event("ADDED", item) for _, item in collection.entries(namespace) if accepts(item)], current, watcher
        )
    try:
        changes = collection.changes_since(min(options.revision, current))
    except Expired as error:
        return _Start([], current, None, errors.expired(str(error)))
    # A version from the future stays silent until the store has passed it.
    ahead = options.revision > current
    watcher = collection.watch(accepts, limit=QUEUE_LIMIT, after=options.revision if ahead else 0)
    return _Start([event for change in changes if (event := event_for(change, accepts))], current, watcher)


async def _stream(
    backend: Backend, resource: ServedResource, start: _Start, options: _Options, render: Renderer, bookmark: Bookmark
) -> AsyncIterator[bytes]:
    clock = backend.env.clock
    watcher = start.watcher
    if watcher is None:
        if start.failure is not None:
            yield _line("ERROR", encode(start.failure.body()))
        return
    try:
        end = clock.monotonic() + options.timeout_s
        for chunk in _lines(await _converted(backend, resource, start.events), render):
            yield chunk
        if options.mark_end:
            yield _line("BOOKMARK", bookmark(start.revision, initial_end=True))
        due = _next_bookmark(clock.monotonic(), end)
        while (now := clock.monotonic()) < end:
            if not await watcher.wait((min(end, due) if options.bookmarks else end) - now):
                now = clock.monotonic()
                if options.bookmarks and due <= now < end:
                    yield _line("BOOKMARK", bookmark(backend.store.revision, initial_end=False))
                    due = _next_bookmark(now, end)
                continue
            for chunk in _lines(await _converted(backend, resource, watcher.drain()), render):
                yield chunk
            if watcher.closed:
                if watcher.expired is not None:
                    yield _line("ERROR", encode(errors.expired(str(watcher.expired)).body()))
                return
    except StatusError as error:
        yield _line("ERROR", encode(error.body()))
    finally:
        watcher.close()


async def _converted(backend: Backend, resource: ServedResource, events: list[Event]) -> list[Event]:
    """
    Return events with objects as this version shows them.

    Raises:
        StatusError: The kind's conversion webhook failed.
    """
    if resource.conversion is None:
        return events
    items = await backend.conversions.items(resource, [event.item for event in events])
    return [Event(event.type, item) for event, item in zip(events, items, strict=True)]


def _next_bookmark(now: float, end: float) -> float:
    last = end - LAST_BOOKMARK_S
    return min(now + BOOKMARK_INTERVAL_S, last) if now < last else end


def _lines(events: Iterable[Event], render: Renderer) -> Iterable[bytes]:
    """Join events into few chunks: one write to a socket costs more than the copy."""
    batch: list[bytes] = []
    for event in events:
        batch.append(_line(event.type, render(event.item)))
        if len(batch) >= _MAX_EVENT_BATCH:
            yield b"".join(batch)
            batch = []
    if batch:
        yield b"".join(batch)


def _line(kind: str, obj: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + obj + b"}\n"
