"""
What an answer says about the object that was written, noted for read-your-own-writes.

Nothing is noted of a write that stored nothing (a dry run), of one whose answer is not about the object (a binding, an
eviction, a token), and of a deletion of many. A Scale is about its object but does not have its labels: informers with
a label selector cannot know that it concerns them, and do not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ktrain.api.meta import Object, ObjectMeta
from ktrain.framework.errors import DecodeError
from ktrain.framework.writes import Write, record

from .codec import UNFIT, metadata_of

if TYPE_CHECKING:
    from ktrain.api.meta import Key, Resource


class _Deleted(msgspec.Struct, gc=False):
    """The part of an answer to DELETE that tells which object it was: a Status, or the object itself."""

    class Details(msgspec.Struct, gc=False):
        uid: str = ""

    details: Details | None = None
    metadata: ObjectMeta | None = None


def note_write(resource: Resource[Any], written: object, *, cluster: str) -> None:
    """Note a write to a cluster by what was stored."""
    if not isinstance(written, dict) and not hasattr(written, "metadata"):
        return
    meta = metadata_of(written)
    if meta.resource_version.isdecimal():
        version = int(meta.resource_version)
        record(Write(resource.group, resource.plural, meta.key, meta.uid, version, meta.labels, cluster))


def note_deletion(resource: Resource[Any], key: Key, uid: str, answer: bytes, *, forced: bool, cluster: str) -> None:
    """Note a deletion: of an object that is gone, or the mark on one that stays; a `forced` one gives no grace."""
    try:
        deleted = msgspec.json.decode(answer, type=_Deleted)
    except UNFIT as error:
        raise DecodeError(f"the answer to the deletion of {resource.kind} {key} cannot be read: {error}") from error
    meta = deleted.metadata or ObjectMeta()
    if meta.deletion_timestamp and (meta.finalizers or (meta.deletion_grace_period_seconds and not forced)):
        # Its finalizers may take for ever; what the cache will show soon is that it is being deleted.
        note_write(resource, Object(metadata=meta), cluster=cluster)
        return
    found = (deleted.details and deleted.details.uid) or meta.uid or uid
    record(Write(resource.group, resource.plural, key, found, 0, {}, cluster))
