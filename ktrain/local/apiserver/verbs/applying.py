"""PATCH with an apply document: server-side apply (KEP-555) on an object or its status; creates what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.local.apiserver import codec, errors
from ktrain.local.apiserver.errors import StatusError, bad_request, not_found
from ktrain.local.apiserver.fields import apply
from ktrain.local.apiserver.forms import views
from ktrain.local.apiserver.requests import write_options
from ktrain.local.apiserver.storage.store import Item, RevisionMismatch
from ktrain.local.apiserver.verbs import accepting, writing
from ktrain.local.apiserver.verbs.update import ATTEMPTS, check_version, read_version, restrict
from ktrain.local.apiserver.verbs.writing import Written

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.requests import WriteOptions


async def apply_patch(backend: Backend, call: Call) -> Written:
    """
    Apply the document in the body for its field manager.

    Raises:
        StatusError: Refused; a conflict names the fields and their managers.
    """
    resource = call.resource
    options = write_options("PatchOptions", call.request, call.parameters, apply=True)
    body = codec.decode_yaml(call.request.body, kind=resource.kind)
    config = body.obj
    _check_config(call, config)
    for _ in range(ATTEMPTS):
        stored = backend.collection(resource).get(call.key)
        old = await views.shown(backend, call.resource, stored) if stored else None
        _check_apply_target(call, config, old)
        merged = accepting.private_copy(_merge(backend, call, config, old, options))
        accepting.report(call, body.duplicates, options.validation)
        try:
            return await _commit_applied(backend, call, merged, old, options)
        except RevisionMismatch:
            continue
    raise errors.modified(resource, call.name)


async def _commit_applied(
    backend: Backend, call: Call, merged: Json, old: Item | None, options: WriteOptions
) -> Written:
    accepting.check_shape(call.resource, merged)
    accepting.check_names(call, merged)
    obj, _ = accepting.prune(call, merged, keep_nulls=call.resource.custom)
    obj = accepting.default(call.resource, obj)
    if old is None:
        if call.resource.has_status:
            obj.pop("status", None)
        return Written(await writing.commit_create(backend, call, obj, options), created=True)
    managed = obj["metadata"].get("managedFields", [])
    obj = restrict(call, obj, old.obj)
    obj["metadata"]["managedFields"] = managed
    return Written(await writing.commit_update(backend, call, obj, old, options))


def _merge(backend: Backend, call: Call, config: Json, old: Item | None, options: WriteOptions) -> Json:
    try:
        return apply.server_side_apply(
            old.obj if old else None,
            config,
            schema=call.resource.schema,
            manager=options.manager,
            force=options.force,
            api_version=call.resource.api_version,
            subresource=call.subresource,
            now=backend.now(),
            reset=writing.reset_fields(call.resource, call.subresource),
        )
    except apply.ApplyConflict as error:
        raise StatusError(409, "Conflict", str(error), details={"causes": error.causes}) from error
    except apply.TypedPatchError as error:
        raise StatusError(500, "", str(error)) from error


def _check_config(call: Call, config: Json) -> None:
    resource = call.resource
    version, kind = config.get("apiVersion", ""), config.get("kind", "")
    if (version, kind) != (resource.api_version, resource.kind):
        # Go prints the core group, which has no name, too.
        group_version = version if "/" in str(version) else f"/{version}"
        raise bad_request(f"invalid object type: {group_version}, Kind={kind}")
    # Other wrong types are found when the configuration is read by its schema, and said in its words.
    if config.get("metadata") is None:
        config["metadata"] = {}
    meta = config["metadata"]
    if not isinstance(meta, dict):
        return
    if meta.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    name = meta.get("name", call.name)
    if isinstance(name, str) and name != call.name:
        raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({call.name})")


def _check_apply_target(call: Call, config: Json, old: Item | None) -> None:
    meta = config["metadata"]
    if not isinstance(meta, dict):
        return
    # One that is no text is found when the configuration is read by its schema, and said in its words.
    version = meta.get("resourceVersion")
    version = version if isinstance(version, str) else ""
    if old is None:
        if call.subresource:
            raise not_found(call.resource, call.name)
        if not meta.get("name"):
            raise bad_request(
                f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
            )
        if uid := meta.get("uid"):
            detail = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise errors.conflict(call.resource, call.name, detail)
        if version:
            read_version(version)  # it must be one; whichever it is, an object that is missing is created
    elif version:
        check_version(call, version, old)
