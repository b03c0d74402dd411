"""Objects that the server makes by itself: not asked for by anybody, so nobody is asked and no rule is applied."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from ktrain.api.meta import format_time

if TYPE_CHECKING:
    from ktrain.api.meta import Json, Key
    from ktrain.local.apiserver.backend import Backend


def found(backend: Backend, api_version: str, kind: str, key: Key, body: Json) -> None:
    """
    Store a new object of a built-in kind; `body` may bring labels and annotations in its metadata.

    Raises:
        RevisionMismatch: There is one of that name.
    """
    resource = backend.registry.builtin(api_version, kind)
    metadata: Json = {"name": key.name}
    if key.namespace:
        metadata["namespace"] = key.namespace
    metadata["uid"] = str(uuid.UUID(int=backend.env.random.getrandbits(128), version=4))
    metadata["creationTimestamp"] = format_time(backend.now())
    if resource.strategy.has_generation:
        metadata["generation"] = 1
    obj = {**body, "kind": kind, "apiVersion": api_version, "metadata": {**body.get("metadata", {}), **metadata}}
    backend.store.put(resource.collection, key, obj, expected=0, schema=resource.schema)
