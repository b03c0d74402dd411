"""Patch documents: read once, applied to the newest version as often as that changes meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ktrain.api.patch import PatchError, json_patch, merge_patch
from ktrain.api.patch_text import show
from ktrain.api.strategic import PatchFormatError, StrategicMergeError, strategic_merge
from ktrain.local.apiserver import codec, errors
from ktrain.local.apiserver.errors import StatusError, bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Schema

MAX_OPERATIONS: Final = 10_000
_TEXTS: Final = ("op", "path", "from")
_MEMBERS: Final = frozenset({*_TEXTS, "value"})

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch that has been read."""

    apply: Callable[[Json], Json]
    """Patches an object without changing it. Raises StatusError when the patch does not apply."""
    complaints: list[str]
    """What fieldValidation is told of the document itself."""
    text: str = ""
    """How complaints about the result show what they are about; nothing: by the result."""


def read_patch(kind: str, body: bytes, schema: Schema) -> Patch:
    """
    Read a patch of one of the three kinds that are not apply.

    Raises:
        StatusError: 400 or 413.
    """
    document, complaints = codec.decode_patch(body)
    if kind == JSON_PATCH:
        operations = _operations(document)
        complaints += [f'unknown field "{path}"' for path in _unknown(operations)]
        return Patch(lambda obj: _apply_operations(obj, operations), [f"json patch {text}" for text in complaints])
    if document is None and kind == STRATEGIC_PATCH:
        document = {}
    if not isinstance(document, dict):
        raise bad_request("error decoding patch: a merge patch must be an object")
    if kind == MERGE_PATCH:
        return Patch(lambda obj: _as_object(merge_patch(obj, document)), complaints)
    return Patch(lambda obj: _apply_strategic(obj, document, schema), complaints, show(document))


def _operations(document: object) -> list[Json]:
    """Return the operations of a JSON patch, if they are so far in order that they may be tried."""
    operations = [] if document is None else document
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: a JSON patch must be a list of operations")
    if len(operations) > MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise StatusError(413, "RequestEntityTooLarge", message)
    for operation in operations:
        if not isinstance(operation, dict | None):
            raise bad_request("error decoding patch: an operation of a JSON patch must be an object")
        for name in _TEXTS:
            if operation and not isinstance(operation.get(name, ""), str | None):
                raise bad_request(f"error decoding patch: {name} of an operation must be a string")
    return operations


def _unknown(operations: list[Json]) -> Iterator[str]:
    for number, operation in enumerate(operations):
        yield from (f"[{number}].{name}" for name in operation or () if name not in _MEMBERS)


def _apply_operations(obj: Json, operations: list[Json]) -> Json:
    try:
        return _as_object(json_patch(obj, operations))
    except PatchError as error:
        raise errors.invalid_patch() from error


def _apply_strategic(obj: Json, patch: Json, schema: Schema) -> Json:
    try:
        return strategic_merge(obj, patch, schema)
    except PatchFormatError as error:
        raise bad_request(str(error)) from error
    except StrategicMergeError as error:
        raise StatusError(500, "", str(error)) from error


def _as_object(patched: object) -> Json:
    if not isinstance(patched, dict):
        raise errors.invalid_patch()
    return patched
