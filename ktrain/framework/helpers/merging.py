"""The patch between an object as it was read and as it should be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.api.patch import merge_diff

if TYPE_CHECKING:
    from ktrain.api.meta import Json


def merge_from(old: Json, new: Json, *, lock: bool = False) -> Json:
    """
    Return the merge patch (RFC 7386) that makes `new` of `old`; empty if they are equal, and then nothing need be sent.

    Fields that others write meanwhile stay as they are, but a list is replaced whole. So a patch that changes a list
    which others change, too (finalizers, conditions), wants `lock`.

    Args:
        old: As read.
        new: As it should be; a copy, changed.
        lock: Put the version of `old` into the patch, so that it is a Conflict if anybody wrote meanwhile.

    Raises:
        ValueError: A lock is wanted, and `old` has no version.
    """
    patch = merge_diff(old, new)
    if not patch or not lock:
        return patch
    version = (old.get("metadata") or {}).get("resourceVersion")
    if not version:
        raise ValueError("a patch can be locked only to an object with metadata.resourceVersion: one that was read")
    return {**patch, "metadata": {**(patch.get("metadata") or {}), "resourceVersion": version}}
