"""The scale subresource: a view of two counts and a selector, and a way to set one of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ktrain.api.schema import builtin
from ktrain.local.apiserver import causes, codec, errors, metadata
from ktrain.local.apiserver.builtins.values.selectors import text
from ktrain.local.apiserver.errors import bad_request, invalid, invalid_for
from ktrain.local.apiserver.forms import views
from ktrain.local.apiserver.reading import listing
from ktrain.local.apiserver.requests import WriteOptions, write_options
from ktrain.local.apiserver.storage.store import RevisionMismatch, encode
from ktrain.local.apiserver.verbs import accepting, writing
from ktrain.local.apiserver.verbs.patches import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, read_patch
from ktrain.local.apiserver.verbs.patching import check_patch_type
from ktrain.local.apiserver.verbs.update import ATTEMPTS, check_version

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.registry import Scale
    from ktrain.local.apiserver.storage.store import Item

_META = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_SCALE_GROUP = "autoscaling"
_UNSET = -(2**31)
"""What a patch sees where an object does not say how many there should be."""


async def get(backend: Backend, call: Call, paths: Scale) -> Json:
    """
    Return the Scale of an object.

    Raises:
        StatusError: 404; 500, as upstream, if the object does not say how many there should be.
    """
    item = await views.shown(backend, call.resource, listing.get_object(backend, call))
    if call.resource.custom and not _has_replicas(call, paths, item):
        raise errors.internal(f'the spec replicas field "{_text(paths.spec_replicas)}" does not exist')
    return _view(call, paths, item)


async def write(backend: Backend, call: Call, paths: Scale) -> Json:
    """
    PUT or PATCH a Scale: sets the object's replicas, which then belong to the writer.

    Raises:
        StatusError: Refused.
    """
    is_put = call.request.method == "PUT"
    options = write_options("UpdateOptions" if is_put else "PatchOptions", call.request, call.parameters)
    if not is_put:
        check_patch_type(call)
    for _ in range(ATTEMPTS):
        stored = listing.get_object(backend, call)
        old = await views.shown(backend, call.resource, stored)
        before = _view(call, paths, old)
        desired = _desired(call, before, old, paths, is_put=is_put)
        desired = await _admit(backend, call, before, desired, options)
        try:
            return _view(call, paths, await _set_replicas(backend, call, paths.spec_replicas, old, desired, options))
        except RevisionMismatch:
            continue
    raise errors.modified(call.resource, call.name)


async def _admit(backend: Backend, call: Call, before: Json, desired: int, options: WriteOptions) -> int:
    """
    Show admission the Scale, not the object behind it; return the replicas it leaves.

    Raises:
        StatusError: Refused.
    """
    wanted = {**before, "spec": {"replicas": desired}}
    request = writing.admission_request(call, wanted, before, options)
    request = replace(request, view=(before["apiVersion"], before["kind"]))
    wanted = await backend.admission.mutate(request, call.warnings) or wanted
    await backend.admission.validate(replace(request, object=wanted), call.warnings)
    return _replicas(call, wanted)


async def _set_replicas(
    backend: Backend, call: Call, path: tuple[str, ...], old: Item, replicas: int, options: WriteOptions
) -> Item:
    obj = accepting.private_copy(old.obj)
    node = obj
    for name in path[:-1]:
        node = node.setdefault(name, {})
    node[path[-1]] = replicas
    obj = writing.track_update(backend, call, old.obj, obj, options)
    return await writing.commit_update(backend, call, obj, old, options, admitted=True)


def _desired(call: Call, current: Json, old: Item, paths: Scale, *, is_put: bool) -> int:
    if call.resource.custom and not _has_replicas(call, paths, old):
        current = current | {"spec": {"replicas": _UNSET}}
    desired = _read_put(call) if is_put else _read_patch(call, current)
    version = (desired.get("metadata") or {}).get("resourceVersion", "")
    if version:
        check_version(call, version, old)
    return _replicas(call, desired)


def _replicas(call: Call, desired: Json) -> int:
    spec = desired.get("spec") or {}
    if not isinstance(spec, dict):
        raise bad_request("Scale.spec must be an object")
    replicas = spec.get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request("Scale.spec.replicas must be an integer")
    _check_replicas(call, replicas)
    return replicas


def _check_replicas(call: Call, replicas: int) -> None:
    if 0 <= replicas <= causes.MAX_REPLICAS:
        return
    if not call.resource.custom:
        raise invalid_for(_SCALE_GROUP, "Scale", call.name, causes.non_negative("spec.replicas", replicas))
    path = _text(call.resource.scale.spec_replicas if call.resource.scale else ())
    if replicas == _UNSET:
        raise bad_request(f'the spec replicas field "{path}" cannot be empty')
    raise invalid(call.resource, call.name, causes.replicas(path, replicas))


def _read_put(call: Call) -> Json:
    body = codec.decode_object(call.request.body, call.header("content-type"), kind="Scale").obj
    if body.get("kind", "Scale") != "Scale":
        raise bad_request(f"the object in the body is a {body['kind']}, not a Scale")
    if wrong := _shape_error(body):
        raise bad_request(f'Scale in version "v1" cannot be handled as a Scale: {wrong}')
    return body


def _read_patch(call: Call, current: Json) -> Json:
    kind = check_patch_type(call)
    if kind == APPLY_PATCH:
        # Upstream takes it, and then fails over it.
        raise errors.unsupported_media_type(", ".join((JSON_PATCH, MERGE_PATCH)))
    schema = builtin(f"{_SCALE_GROUP}/v1", "Scale")
    patch = read_patch(kind, call.request.body, schema or call.resource.schema)
    patched = patch.apply(current)
    if wrong := _shape_error(patched):
        raise errors.invalid_result(patch.text or encode(patched).decode(), wrong)
    return patched


def _shape_error(patched: Json) -> str:
    """Return what keeps a decoder from seeing a Scale in an object."""
    if not isinstance(patched.get("spec"), dict | None):
        return "json: cannot unmarshal a value that is no object into Go struct field Scale.spec of type v1.ScaleSpec"
    meta = patched.get("metadata")
    return metadata.shape_error(dict(meta) if isinstance(meta, dict) else {} if meta is None else meta)


def _view(call: Call, paths: Scale, item: Item) -> Json:
    obj = views.present(call.resource, item)
    status: Json = {"replicas": _at(obj, paths.status_replicas) or 0}
    if paths.selector and (selector := _at(obj, paths.selector)):
        status["selector"] = text(selector) if isinstance(selector, dict) else selector
    replicas = _at(obj, paths.spec_replicas)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: obj["metadata"][name] for name in _META if name in obj["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _has_replicas(call: Call, paths: Scale, item: Item) -> bool:
    return _at(views.present(call.resource, item), paths.spec_replicas) is not None


def _text(path: tuple[str, ...]) -> str:
    return "." + ".".join(path)


def _at(obj: Json, path: tuple[str, ...]) -> object:
    value: object = obj
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
