"""
The old way to the first content: LIST in pages, for servers that refuse the streaming list.

Which resourceVersion to send decides how old the answer may be:

- none: a consistent read, the newest. Used first, so that a restarted controller never travels back in time, and
  after a 410. Only then is paging free: any other version is answered from the server's watch cache, which a limit
  would bypass.
- the last one seen: any state not older. Used for every later list, so that the cache never goes backwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from ktrain.framework.client.client import PAGE_SIZE, Client
from ktrain.framework.client.codec import BadObject, accept_header, codec_for, metadata_of
from ktrain.framework.errors import Gone

if TYPE_CHECKING:
    from ktrain.api.meta import Key, Resource
    from ktrain.framework.client.transport import Query

T = TypeVar("T")

LIST_TIMEOUT_S = 60.0


@dataclass(slots=True)
class Content(Generic[T]):
    """Everything there is at one resource version."""

    objects: dict[Key, T] = field(default_factory=dict)
    bad: list[BadObject] = field(default_factory=list)
    resource_version: str = ""


async def list_all(
    client: Client, resource: Resource[T], *, namespace: str, selectors: Query, not_older_than: str
) -> Content[T]:
    """
    Read the whole content.

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
        page = codec_for(resource).decode_page(response.body)
        content.objects.update((metadata_of(item).key, item) for item in page.items)
        content.bad += page.bad
        content.resource_version = page.resource_version
        if not page.continue_token:
            return content
        # A continued list has its version inside the token; sending one beside it is refused.
        query = [("limit", str(PAGE_SIZE)), ("continue", page.continue_token)]
