"""
PATCH: JSON, merge and strategic merge patches on an object or its status.

A patch that does not name a resourceVersion applies to the newest version, again if that changed meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, errors
from ktrain.local.apiserver.errors import StatusError, not_found
from ktrain.local.apiserver.forms import views
from ktrain.local.apiserver.requests import write_options
from ktrain.local.apiserver.storage.store import Item, RevisionMismatch
from ktrain.local.apiserver.verbs import accepting
from ktrain.local.apiserver.verbs.applying import apply_patch
from ktrain.local.apiserver.verbs.patches import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, read_patch
from ktrain.local.apiserver.verbs.update import ATTEMPTS, replace
from ktrain.local.apiserver.verbs.writing import Written

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.requests import WriteOptions


_OF_STATUS: Final = frozenset({"apiVersion", "kind", "metadata", "status"})


async def patch(backend: Backend, call: Call) -> Written:
    """
    PATCH, by Content-Type.

    Raises:
        StatusError: Refused.
    """
    kind = check_patch_type(call)
    if kind == APPLY_PATCH:
        return await apply_patch(backend, call)
    options = write_options("PatchOptions", call.request, call.parameters)
    apply = read_patch(kind, call.request.body, call.resource.schema)
    for _ in range(ATTEMPTS):
        stored = backend.collection(call.resource).get(call.key)
        if stored is None:
            raise not_found(call.resource, call.name)
        old = await views.shown(backend, call.resource, stored)
        candidate = _accept_patched(call, _writable(call, apply(old.obj)), old, options)
        try:
            return Written(await replace(backend, call, candidate, old, options))
        except RevisionMismatch:
            continue
    raise errors.modified(call.resource, call.name)


def accepted_patches(call: Call) -> list[str]:
    """Return the Content-Types of patches that this resource takes."""
    accepted = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    return accepted if call.resource.custom else [*accepted[:2], STRATEGIC_PATCH, APPLY_PATCH]


def check_patch_type(call: Call) -> str:
    """
    Return the Content-Type of a patch.

    Raises:
        StatusError: 415: the resource takes none of this type.
    """
    kind = call.header("content-type").partition(";")[0]
    accepted = accepted_patches(call)
    if kind in accepted:
        return kind
    if not call.resource.custom:
        # For built-in kinds somebody else refuses first.
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    raise errors.unsupported_media_type(", ".join(accepted))


def _writable(call: Call, patched: Json) -> Json:
    """Copy what this URL may write out of a patched object, which shares the rest with the stored one."""
    if call.subresource == "status":
        patched = {name: value for name, value in patched.items() if name in _OF_STATUS}
    return accepting.private_copy(patched)


def _accept_patched(call: Call, patched: Json, old: Item, options: WriteOptions) -> Json:
    resource = call.resource
    if patched.get("apiVersion") != resource.api_version:
        wrong = [causes.invalid("apiVersion", patched.get("apiVersion"), f"must be {resource.api_version}")]
        raise errors.invalid(resource, call.name, wrong)
    accepting.check_type(resource, patched)
    accepting.check_shape(resource, patched)
    obj, complaints = accepting.prune(call, patched)
    accepting.report_patch(call, complaints, options.validation, patched)
    accepting.check_names(call, obj)
    # A resourceVersion in the patch is its precondition; without one the stored version is still in the result.
    version = obj["metadata"].get("resourceVersion", "")
    if version and version != old.obj["metadata"]["resourceVersion"]:
        raise errors.modified(resource, call.name)
    return obj
