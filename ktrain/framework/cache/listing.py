"""
The old way to the first content: LIST in pages, for servers that refuse the streaming list.

Which resourceVersion to send decides how old the answer may be:

- none: a consistent read, the newest. Used first, so that a restarted controller never travels back in time, and
  after a 410. Only then is paging free: any other version is answered from the server's watch cache, which a limit
  would bypass.
- the last one seen: any state not older. Used for every later list, so that the cache never goes backwards.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from ktrain.framework.client.client import PAGE_SIZE, Client
from ktrain.framework.client.codec import BadObject, accept_header, codec_for, metadata_of
from ktrain.framework.errors import Gone

from .names import Names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ktrain.api.meta import Key, Resource
    from ktrain.framework.client.transport import Query

T = TypeVar("T")

LIST_TIMEOUT_S: Final = 60.0
ITEMS_PER_TURN: Final = 64
"""This many items of a page are decoded in one go (some milliseconds), then other tasks have a turn."""


@dataclass(slots=True)
class Content(Generic[T]):
    """Everything there is at one resource version."""

    objects: dict[Key, T] = field(default_factory=dict)
    bad: dict[Key, BadObject] = field(default_factory=dict)
    resource_version: str = ""
    left_out: Names = field(default_factory=Names)

    def add(self, key: Key, obj: T | None, *, deleted: bool = False) -> None:
        """Put an object in (None: one that is not to be held), or take it out."""
        self.bad.pop(key, None)
        if obj is None or deleted:
            self.objects.pop(key, None)
        else:
            self.objects[key] = obj
        if obj is None and not deleted:
            self.left_out.add(key)
        elif self.left_out:
            self.left_out.discard(key)

    def add_bad(self, bad: BadObject, *, deleted: bool = False) -> None:
        """Note an object that cannot be read; what was known of it is out of date."""
        self.objects.pop(bad.key, None)
        self.left_out.discard(bad.key)
        if deleted:
            self.bad.pop(bad.key, None)
        else:
            self.bad[bad.key] = bad


async def list_all(
    client: Client,
    resource: Resource[T],
    keep: Callable[[T], T | BadObject | None],
    *,
    namespace: str,
    selectors: Query,
    not_older_than: str,
) -> Content[T]:
    """
    Read the whole content; `keep` makes of each object the one to hold, or None.

    Raises:
        Gone: The version is no longer there; the caller lists again without one. A continue token that expired is
            handled here, by one list without pages.
    """
    paged = not not_older_than
    first: list[tuple[str, str]] = [("limit", str(PAGE_SIZE))] if paged else [("resourceVersion", not_older_than)]
    content: Content[T] = Content()
    query = first
    while True:
        try:
            response = await client.raw(
                "GET",
                resource.path(namespace),
                query=[*query, *selectors],
                headers=accept_header(resource, many=True),
                timeout_s=LIST_TIMEOUT_S,
            )
        except Gone:
            if query is first:
                raise
            content, query = Content(), []
            continue
        codec = codec_for(resource)
        metadata, raws = codec.split_page(response.body)
        await _take_in(content, map(codec.decode_item, raws), keep)
        content.resource_version = metadata.resource_version
        if not metadata.continue_:
            return content
        # A continued list has its version inside the token; sending one beside it is refused. Pages may come although
        # none were asked for: a server without a watch cache answers so.
        query = [("limit", str(PAGE_SIZE)), ("continue", metadata.continue_)]


async def _take_in(
    content: Content[T], items: Iterable[T | BadObject], keep: Callable[[T], T | BadObject | None]
) -> None:
    for number, item in enumerate(items, 1):
        kept = item if isinstance(item, BadObject) else keep(item)
        if isinstance(kept, BadObject):
            content.add_bad(kept)
        else:
            content.add(metadata_of(item).key, kept)
        if number % ITEMS_PER_TURN == 0:
            await asyncio.sleep(0)
