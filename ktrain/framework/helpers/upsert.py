"""
Create an object, or change the one that is there.

Server-side apply does this in one request and is the better choice where a controller knows all fields it wants. This
is for those who want to change what they find: append to a list, fill in what is missing, keep a value once chosen.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

from ktrain.api.core import untyped
from ktrain.api.patch import equal
from ktrain.framework.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrain.api.meta import Json, Key, Resource
    from ktrain.framework.client.client import Client


class Outcome(Enum):
    """What `create_or_update` did."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


async def create_or_update(
    client: Client, resource: Resource[Any], key: Key, mutate: Callable[[Json], None]
) -> tuple[Json, Outcome]:
    """
    Bring an object to the state that `mutate` makes of it; nothing is written if that is the state it has.

    `mutate` gets the whole object as a dict, read from the API server for this, or one with nothing but its name, and
    changes it in place. It is not called twice for one write. The status is not written: that is a subresource.

    Returns:
        The object as it is now, and what was done.

    Raises:
        ValueError: `mutate` changed the name, the namespace or the kind.
        Conflict: Somebody wrote meanwhile, or created it (AlreadyExists). The next pass will see it; outside of a
            reconciler see `retry_on_conflict`.
    """
    resource = untyped(resource)
    try:
        found: Json = await client.get(resource, key.name, key.namespace)
    except NotFound:
        body: Json = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})},
        }
        _mutate(body, mutate)
        return await client.create(resource, body), Outcome.CREATED
    body = msgspec.json.decode(msgspec.json.encode(found))
    _mutate(body, mutate)
    if equal(found, body):
        return found, Outcome.UNCHANGED
    return await client.update(resource, body), Outcome.UPDATED


def _mutate(body: Json, mutate: Callable[[Json], None]) -> None:
    before = _identity(body)
    mutate(body)
    if (after := _identity(body)) != before:
        raise ValueError(f"a mutate function may not make another object of one: {before} became {after}")


def _identity(body: Json) -> tuple[Any, ...]:
    meta = body.get("metadata") or {}
    return (body.get("apiVersion"), body.get("kind"), meta.get("namespace", ""), meta.get("name"))
