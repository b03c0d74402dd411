"""
PUT: replace an object or its status; and the last steps that PUT and PATCH share.

A PUT that names no resourceVersion overwrites the newest version, again if that changed meanwhile; one that names it
has that version as its precondition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, errors
from ktrain.local.apiserver.errors import StatusError, bad_request, not_found
from ktrain.local.apiserver.forms import views
from ktrain.local.apiserver.numbers import NumberError, parse_unsigned
from ktrain.local.apiserver.requests import write_options
from ktrain.local.apiserver.storage.store import Item, RevisionMismatch
from ktrain.local.apiserver.verbs import accepting, writing
from ktrain.local.apiserver.verbs.create import create_object
from ktrain.local.apiserver.verbs.writing import Written

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.requests import WriteOptions

ATTEMPTS: Final = 5


async def update(backend: Backend, call: Call) -> Written:
    """
    PUT: replace the object, or its status.

    Raises:
        StatusError: Refused.
    """
    resource = call.resource
    if not call.name:
        raise bad_request("name must be provided")
    options = write_options("UpdateOptions", call.request, call.parameters)
    obj = accepting.read_object(call, options.validation)
    version = obj["metadata"].get("resourceVersion", "")
    for _ in range(ATTEMPTS):
        old = backend.collection(resource).get(call.key)
        if old is None:
            if resource.strategy.create_on_update and not call.subresource:
                read_version(version or "0")
                _check_uid(call, obj, "")
                return Written(await create_object(backend, call, obj, options), created=True)
            raise not_found(resource, call.name)
        _check_uid(call, obj, old.obj["metadata"]["uid"])
        check_version(call, version, old)
        candidate = accepting.private_copy({**obj, "kind": resource.kind, "apiVersion": resource.api_version})
        shown = await views.shown(backend, call.resource, old)
        try:
            return Written(await replace(backend, call, candidate, shown, options))
        except RevisionMismatch:
            if version:
                raise errors.modified(resource, call.name) from None
    raise errors.modified(resource, call.name)


async def replace(backend: Backend, call: Call, obj: Json, old: Item, options: WriteOptions) -> Item:
    """
    Default, settle which half of the object this URL may write, track ownership, commit.

    Raises:
        StatusError: Refused.
        RevisionMismatch: The object changed meanwhile.
    """
    custom_status = call.subresource == "status" and call.resource.custom
    obj = call.resource.schema.default(obj) if custom_status else accepting.default(call.resource, obj)
    obj = restrict(call, obj, old.obj)
    obj = writing.track_update(backend, call, old.obj, obj, options)
    return await writing.commit_update(backend, call, obj, old, options)


def restrict(call: Call, obj: Json, old: Json) -> Json:
    """Keep status from the store on the main URL, and everything but status on `/status`."""
    if call.subresource == "status":
        metadata = _status_metadata(call, obj["metadata"], old["metadata"])
        restricted = {name: value for name, value in old.items() if name != "status"} | {"metadata": metadata}
        if "status" in obj:
            restricted["status"] = obj["status"]
        return restricted
    if call.subresource == "finalize":
        return {**old, "metadata": dict(old["metadata"]), "spec": obj.get("spec", {})}
    if (part := call.resource.strategy.parts.get(call.subresource)) is not None:
        restricted = part.restrict(obj, old)
        written = {name: obj["metadata"][name] for name in ("uid", "managedFields") if name in obj["metadata"]}
        return {**restricted, "metadata": {**old["metadata"], **written}}
    if call.resource.has_status:
        obj.pop("status", None)
        if "status" in old:
            obj["status"] = old["status"]
    return obj


def _status_metadata(call: Call, meta: Json, old: Json) -> Json:
    kept = call.resource.strategy.kept_by_status
    if call.resource.custom:
        kept = tuple({*meta, *old} - {"managedFields"})
    written = {name: value for name, value in meta.items() if name not in kept}
    return written | {name: old[name] for name in kept if name in old}


def check_version(call: Call, version: str, old: Item) -> None:
    """
    Hold a write to the version it names.

    Raises:
        StatusError: 409 for a stale one, 422 for none where the kind wants one, 500 for what is no number.
    """
    if not version or version == "0":
        if call.resource.strategy.unconditional_update:
            return
        missing = causes.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise errors.invalid_for_plural(call.resource, call.name, [missing])
    if read_version(version) != old.revision:
        raise errors.modified(call.resource, call.name)


def read_version(version: str) -> int:
    """
    Return a version as a number.

    Raises:
        StatusError: 500: it is none.
    """
    try:
        return parse_unsigned(version)
    except NumberError as error:
        raise StatusError(500, "", str(error)) from error


def _check_uid(call: Call, obj: Json, stored: str) -> None:
    uid = obj["metadata"].get("uid")
    if uid and uid != stored:
        registry = f"{call.resource.group}/{call.resource.plural}" if call.resource.custom else call.resource.plural
        detail = (
            f"StorageError: invalid object, Code: 4, Key: /registry/{registry}/{call.key}, ResourceVersion: 0, "
            f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {stored}"
        )
        raise errors.conflict(call.resource, call.name, detail)
