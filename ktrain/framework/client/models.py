"""
Models of kubernetes_asyncio as what is written, and as the `type` of a `Resource` for reading.

    config_maps = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True, type=V1ConfigMap)
    await client.apply(config_maps, V1ConfigMap(metadata=V1ObjectMeta(name="c", namespace="shop"), data={"k": "v"}))

Written models are walked here, by the names that they declare, so kubernetes_asyncio is not imported for it. Models
that are read are built by the package's own deserializer. For a pod that takes about ninety times as long as ktrain's
`Pod`, and eight times the memory, so informers refuse models. Give the informer a Struct, and read a model where one
call needs all of an object.
"""

from __future__ import annotations

import json
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from ktrain.api.meta import Json, Key, ObjectMeta

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes_asyncio.client import ApiClient

    from ktrain.api.meta import Resource


class Model(Protocol):
    """A model of kubernetes_asyncio, such as `V1ConfigMap`."""

    def to_dict(self, serialize: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 -- the package's own signature
        """Return its attributes by name."""


def is_model(type_: type) -> bool:
    """Whether objects of a type are models."""
    return hasattr(type_, "openapi_types") and hasattr(type_, "attribute_map")


def document(resource: Resource[Any], body: Json | Model) -> Json:
    """Return what to send: a dict as it is; a model as JSON, of the resource's version and kind if it says none."""
    if not _is_model_object(body):
        return cast("Json", body)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **_plain(body)}


def key_in(body: Json) -> Key:
    """Return the key that the metadata of a document say."""
    meta: Json = body.get("metadata") or {}
    return Key(meta.get("namespace", ""), meta.get("name", ""))


def object_meta(model: object) -> ObjectMeta:
    """Return a model's metadata as ours. The time of creation and the record of managers are left out."""
    return msgspec.convert(_plain(model), ObjectMeta, strict=False)


def decoding_hook(type_: type) -> Callable[[type, Any], Any] | None:
    """Return what makes models of decoded JSON, for a `msgspec` decoder; None for a type that needs no such help."""
    return _decode if is_model(type_) else None


def _is_model_object(value: object) -> bool:
    return not isinstance(value, dict) and is_model(type(value))


def _plain(value: Any) -> Any:  # noqa: ANN401 -- JSON
    """Return a model, and all that it holds, as JSON. What is None is left out, as the package itself does it."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, date):  # a datetime, too
        return value.isoformat()
    if not _is_model_object(value):
        return value
    fields = ((name, getattr(value, attribute)) for attribute, name in value.attribute_map.items())
    return {name: _plain(one) for name, one in fields if one is not None}


class _Text:
    """The answer as the package's deserializer reads it."""

    def __init__(self, data: str) -> None:
        self.data = data


def _decode(type_: type, value: Any) -> Any:  # noqa: ANN401 -- a model
    """Make a model of decoded JSON. A value of another shape than declared is a ValueError, as msgspec wants it."""
    try:
        return _deserializer().deserialize(cast("Any", _Text(json.dumps(value))), type_)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"it does not fit {type_.__name__}: {error}") from error


@cache
def _deserializer() -> ApiClient:
    from .generated import offline

    return offline()
