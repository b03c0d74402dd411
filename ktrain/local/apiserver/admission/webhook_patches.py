"""
The JSON patch of a mutating webhook, applied to the object that it saw.

The library that the API server uses is laxer than RFC 6902 (it replaces what is not there) and has words of its own;
webhooks were written against it. Source: `gopkg.in/evanphx/json-patch.v4`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ktrain.api.patch import PatchError, json_patch
from ktrain.local.apiserver.errors import StatusError, internal
from ktrain.local.apiserver.storage.store import decode, encode
from ktrain.local.apiserver.verbs import accepting

if TYPE_CHECKING:
    from ktrain.api.meta import Json, JsonValue
    from ktrain.local.apiserver.registry import ServedResource

MAX_COPIED_BYTES: Final = 3 << 20
MAX_OPERATIONS: Final = 10_000


def read(patch: bytes) -> list[Json]:
    """
    Decode a patch.

    Raises:
        ValueError: It is no list of operations, or too long a one.
    """
    try:
        operations = msgspec.json.decode(patch, type=list[dict[str, Any]] | None) or []
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    if len(operations) > MAX_OPERATIONS:
        raise ValueError(f"{len(operations)} operations, more than {MAX_OPERATIONS}")
    return operations


def apply(seen: Json, operations: list[Json], resource: ServedResource, view: tuple[str, str] | None) -> Json:
    """
    Return the object as a webhook wants it: patched, of the shape of its kind, defaulted.

    Raises:
        StatusError: 500: it does not apply, or what comes out is no object of the kind.
    """
    patched = _patched(seen, operations)
    if not isinstance(patched, dict):
        raise internal("couldn't get version/kind; json parse error: the patched document is no object")
    version, kind = view or (resource.api_version, resource.kind)
    if (patched.get("apiVersion"), patched.get("kind")) != (version, kind):
        raise internal(
            f'no kind "{patched.get("kind", "")}" is registered for version "{patched.get("apiVersion", "")}"'
        )
    # What `add` and `copy` share with the patch or with each other must not be shared in the store.
    fresh: Json = decode(encode(patched))
    if view is not None:
        return fresh
    try:
        accepting.check_shape(resource, fresh)
    except StatusError as error:
        raise internal(error.message.partition(" cannot be handled as a ")[2].partition(": ")[2]) from error
    if not resource.custom:
        fresh, _ = resource.schema.prune(fresh)
    return accepting.default(resource, fresh)


def _patched(doc: JsonValue, operations: list[Json]) -> JsonValue:
    copied = 0
    for operation in operations:
        op, path = operation.get("op"), operation.get("path")
        if not isinstance(path, str):
            raise internal(f"{op} operation failed to decode path: missing value")
        try:
            if op == "copy":
                copied += _size(doc, operation.get("from"))
                if copied > MAX_COPIED_BYTES:
                    text = f"the accumulated size increase of copy is {copied}, exceeding the limit {MAX_COPIED_BYTES}"
                    raise internal(f"Unable to complete the copy, {text}")
            doc = json_patch(doc, [operation])
        except PatchError as error:
            raise internal(_words(op, path, error)) from error
    return doc


def _size(doc: JsonValue, pointer: JsonValue) -> int:
    """Measure a value to be copied. Finding it is a `copy` to the document's own root."""
    return len(encode(json_patch(doc, [{"op": "copy", "from": pointer, "path": ""}])))


def _words(op: object, path: str, error: PatchError) -> str:
    name = path.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
    if op == "remove":
        return f"error in remove for path: '{path}': Unable to remove nonexistent key: {name}: missing value"
    if op == "test":
        return f"testing value {path} failed: test failed"
    if op not in {"add", "replace", "copy", "move"}:
        return f"Unexpected kind: {op}"
    return f'{op} operation does not apply: doc is missing path: "{path}": missing value ({error})'
