"""
Lists in pages, and watches for those who need no cache.

An informer (`ktrain.framework.cache`) is the way to follow a kind for long. These are for what is done once: go through
all objects with the memory of one page, or wait until something happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar, cast

import structlog

from ktrain.api.meta import ObjectMeta
from ktrain.framework.backoff import Backoff
from ktrain.framework.errors import (
    ApiError,
    DecodeError,
    Gone,
    ServerError,
    Status,
    TooManyRequests,
    TransportError,
    error_from_status,
)

from .codec import BadObject, Page, accept_header, codec_for, metadata_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Resource

    from .sending import Sender
    from .transport import Query

T = TypeVar("T")

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.client")

PAGE_SIZE: Final = 500
LIST_PATIENCE: Final = 3
"""A page may take so many times as long as another call."""
IDLE_TIMEOUT_S: Final = 75.0
"""For a watch: bookmarks come about once a minute."""


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[T]):
    """A consistent list. Watch from its `resource_version`."""

    items: list[T]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """
    One thing that happened.

    Attributes:
        type: ADDED, MODIFIED or DELETED; BOOKMARK says that nothing happened up to this version.
        object: As it is now, or was last when DELETED; None with a bookmark.
        resource_version: To watch on from here.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: T | None
    resource_version: str


async def read_pages(
    sender: Sender, resource: Resource[T], path: str, *, selectors: Query, page_size: int
) -> AsyncGenerator[ObjectList[T], None]:
    """Read a collection page by page (`Client.pages`); an expired token is the caller's matter."""
    codec, headers = codec_for(resource), accept_header(resource, many=True)
    query = [("limit", str(page_size)), *selectors] if page_size else [*selectors]
    while True:
        response = await sender.send(
            "GET", path, query=query, headers=headers, body=None, timeout_s=LIST_PATIENCE * sender.timeout_s
        )
        page = _whole(resource, codec.decode_page(response.body))
        yield ObjectList(page.items, page.resource_version)
        if not page.continue_token:
            return
        query = [("limit", str(page_size)), ("continue", page.continue_token), *selectors]


async def read_list(sender: Sender, resource: Resource[T], path: str, *, selectors: Query) -> ObjectList[T]:
    """Read a whole collection (`Client.list`)."""
    items: list[T] = []
    version = ""
    try:
        async for page in read_pages(sender, resource, path, selectors=selectors, page_size=PAGE_SIZE):
            items += page.items
            version = page.resource_version
    except Gone:
        if not items:
            raise
        # The token of a later page expired, so the pages before it cannot be completed: all at once instead.
        (whole,) = [page async for page in read_pages(sender, resource, path, selectors=selectors, page_size=0)]
        return whole
    return ObjectList(items, version)


async def follow(
    sender: Sender, resource: Resource[T], path: str, *, selectors: Query, resource_version: str, bookmarks: bool
) -> AsyncGenerator[WatchEvent[T], None]:
    """Watch a collection across broken connections (`Client.watch`)."""
    backoff, headers = Backoff(sender.env), accept_header(resource)
    version = resource_version
    while True:
        # The server ends watches by itself; a random end keeps those that began together from coming back together.
        lasts_s = str(int(sender.env.random.uniform(290, 590)))
        query = [("watch", "true"), ("allowWatchBookmarks", "true"), ("timeoutSeconds", lasts_s), *selectors]
        if version:
            query.append(("resourceVersion", version))
        asked_s = 0
        try:
            async with sender.open(path, query=query, headers=headers, idle_timeout_s=IDLE_TIMEOUT_S) as stream:
                async for line in stream.lines:
                    event = _event(resource, *_split(resource, line))
                    version = event.resource_version or version
                    backoff.reset()
                    if bookmarks or event.type != "BOOKMARK":
                        yield event
        except (TransportError, TooManyRequests, ServerError) as error:
            log.warning("watch.interrupted", path=path, resource_version=version, error=str(error))
            if isinstance(error, ApiError):
                asked_s = error.retry_after_s
        await backoff.sleep(at_least_s=asked_s)


def _split(resource: Resource[T], line: bytes) -> tuple[str, T | ObjectMeta | Status | BadObject]:
    try:
        return codec_for(resource).decode_event(line)
    except DecodeError as error:
        # No event at all: whoever stands between cut the stream, and ended it in good order.
        raise TransportError(f"the watch of {resource.qualified_name} was cut in the middle of a line") from error


def _event(resource: Resource[T], type_: str, found: T | ObjectMeta | Status | BadObject) -> WatchEvent[T]:
    if isinstance(found, Status):
        raise error_from_status(found, method="GET", path=resource.path())
    if isinstance(found, BadObject):
        raise DecodeError(f"{resource.kind} {found.key} cannot be read: {found.reason}")
    if isinstance(found, ObjectMeta):
        return WatchEvent("BOOKMARK", None, found.resource_version)
    kind = cast('Literal["ADDED", "MODIFIED", "DELETED"]', type_)
    return WatchEvent(kind, found, metadata_of(found).resource_version)


def _whole(resource: Resource[T], page: Page[T]) -> Page[T]:
    if page.bad:
        raise DecodeError(f"{resource.kind} {page.bad[0].key} cannot be read: {page.bad[0].reason}")
    return page
