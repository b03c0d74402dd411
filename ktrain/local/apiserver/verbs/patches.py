"""Patch documents: read once, applied to the newest version as often as that changes meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.patch import PatchError, json_patch, merge_patch
from ktrain.api.strategic import StrategicMergeError, strategic_merge
from ktrain.local.apiserver import codec, errors
from ktrain.local.apiserver.errors import StatusError, bad_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrain.api.meta import Json
    from ktrain.api.schema import Schema

MAX_OPERATIONS: Final = 10_000

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"


def read_patch(kind: str, body: bytes, schema: Schema) -> Callable[[Json], Json]:
    """
    Read a patch of one of the three kinds that are not apply; the result patches an object without changing it.

    The result raises StatusError when the patch does not apply.

    Raises:
        StatusError: 400 or 413.
    """
    document = codec.decode_patch(body)
    if kind == JSON_PATCH:
        if not isinstance(document, list):
            raise bad_request("error decoding patch: a JSON patch must be a list of operations")
        if len(document) > MAX_OPERATIONS:
            message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(document)}"
            raise StatusError(413, "RequestEntityTooLarge", message)
        return lambda obj: _apply_operations(obj, document)
    if not isinstance(document, dict):
        raise bad_request("error decoding patch: a merge patch must be an object")
    if kind == MERGE_PATCH:
        return lambda obj: _as_object(merge_patch(obj, document))
    return lambda obj: _apply_strategic(obj, document, schema)


def _apply_operations(obj: Json, operations: list[Json]) -> Json:
    try:
        return _as_object(json_patch(obj, operations))
    except PatchError as error:
        raise errors.invalid_patch() from error


def _apply_strategic(obj: Json, patch: Json, schema: Schema) -> Json:
    try:
        return strategic_merge(obj, patch, schema)
    except StrategicMergeError as error:
        raise bad_request(str(error)) from error


def _as_object(patched: object) -> Json:
    if not isinstance(patched, dict):
        raise errors.invalid_patch()
    return patched
