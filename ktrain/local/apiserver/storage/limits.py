"""
How large an object may be: what etcd takes in one request, in kube-apiserver's words.

kube-apiserver knows no limit of its own: it sends what was written to etcd, whose client refuses messages above 2 MiB
before they leave, and whose server requests above 1.5 MiB. Custom kinds, and their definitions, are stored as Go writes
JSON. Other built-in ones are stored as protobuf, of which nothing is written here: their size is computed from the same
tables that read it, to some bytes for each part of an object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver.errors import StatusError
from ktrain.local.apiserver.protobuf.size import size_of

from .store import encode

if TYPE_CHECKING:
    from ktrain.api.meta import Json, Key
    from ktrain.local.apiserver.registry import ServedResource

REQUEST_LIMIT: Final = 3 << 19
"""Bytes; etcd's `--max-request-bytes`."""
MESSAGE_LIMIT: Final = 2 << 20
"""Bytes; what etcd's client sends at once."""
_FRAME: Final = 25
"""What is around the object and its keys in a message (seen on etcd 3.6)."""
_HEADER: Final = 15
"""What etcd's server adds before it compares."""
_ANY_FITS: Final = REQUEST_LIMIT // 6 - 1024
"""So short a JSON fits however many escapes it has."""
_DEFINITIONS: Final = "apiextensions.k8s.io"
_ESCAPED: Final = (b"<", b">", b"&")
"""What Go writes as six characters."""


def fitted(resource: ServedResource, key: Key, obj: Json, *, is_new: bool, is_applied: bool) -> Json:
    """
    Return an object as it fits into etcd: where only that helps, without the record of who set which field.

    An apply needs that record, and is refused.

    Raises:
        StatusError: 500, without a reason: it is too large.
    """
    encoded = encode(obj)
    if len(encoded) < _ANY_FITS:
        return obj
    try:
        _check(resource, key, obj, encoded, is_new=is_new)
    except StatusError:
        if is_applied or "managedFields" not in obj["metadata"]:
            raise
    else:
        return obj
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    less = obj | {"metadata": metadata}
    _check(resource, key, less, encode(less), is_new=is_new)
    return less


def _check(resource: ServedResource, key: Key, obj: Json, encoded: bytes, *, is_new: bool) -> None:
    is_json = resource.custom or resource.group == _DEFINITIONS
    value = _as_json(encoded, obj) if is_json else size_of(obj)
    path = "/".join(part for part in ("/registry", resource.group, resource.plural, *key) if part)
    size = value + len(path) * (2 if is_new else 3) + _FRAME
    if size > MESSAGE_LIMIT:
        text = f"trying to send message larger than max ({size} vs. {MESSAGE_LIMIT})"
        raise StatusError(500, "", f"rpc error: code = ResourceExhausted desc = {text}")
    if size + _HEADER > REQUEST_LIMIT:
        raise StatusError(500, "", "etcdserver: request is too large")


def _as_json(encoded: bytes, obj: Json) -> int:
    """Return the size of an object as Go stores it: with its escapes and a newline, and without resourceVersion."""
    version = obj["metadata"].get("resourceVersion")
    unstored = len(f'"resourceVersion":"{version}",') if version else 0
    return len(encoded) + 5 * sum(map(encoded.count, _ESCAPED)) + 1 - unstored
