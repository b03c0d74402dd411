"""
PATCH: JSON, merge and strategic merge patches on an object or its status.

A patch that does not name a resourceVersion applies to the newest version, again if that changed meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, errors
from ktrain.local.apiserver.errors import StatusError, no_kind, not_found
from ktrain.local.apiserver.forms import views
from ktrain.local.apiserver.requests import write_options
from ktrain.local.apiserver.storage.store import Item, RevisionMismatch, encode
from ktrain.local.apiserver.verbs import accepting
from ktrain.local.apiserver.verbs.applying import apply_patch
from ktrain.local.apiserver.verbs.patches import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Patch,
    read_patch,
)
from ktrain.local.apiserver.verbs.update import ATTEMPTS, check_version, replace
from ktrain.local.apiserver.verbs.writing import Written

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.registry import ServedResource
    from ktrain.local.apiserver.requests import WriteOptions


_TYPE: Final = ("apiVersion", "kind")
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
    patch = read_patch(kind, call.request.body, call.resource.schema)
    for _ in range(ATTEMPTS):
        stored = backend.collection(call.resource).get(call.key)
        if stored is None:
            raise not_found(call.resource, call.name)
        old = await views.shown(backend, call.resource, stored)
        patched = patch.apply(old.obj)
        if kind == STRATEGIC_PATCH:
            # It patches the fields of a type, which is given.
            patched |= {name: old.obj[name] for name in _TYPE if isinstance(patched.get(name, ""), str | None)}
        candidate = _accept_patched(call, _writable(call, patched), old, options, patch)
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


def _accept_patched(call: Call, patched: Json, old: Item, options: WriteOptions, patch: Patch) -> Json:
    resource = call.resource
    text = patch.text or _JsonText(patched)
    if wrong := _type_error(resource, patched) or accepting.shape_error(resource, patched):
        raise errors.invalid_result(str(text), wrong)
    _check_custom_type(call, patched)
    obj, complaints = accepting.prune(call, patched)
    accepting.report_patch(call, [*patch.complaints, *complaints], options.validation, text)
    accepting.check_names(call, obj)
    # A resourceVersion in the patch is its precondition; without one the stored version is still in the result.
    check_version(call, obj["metadata"].get("resourceVersion", ""), old)
    return obj


class _JsonText:
    """A patched object as text, for those who ask."""

    def __init__(self, patched: Json) -> None:
        self._patched = patched

    def __str__(self) -> str:
        return encode({name: self._patched[name] for name in sorted(self._patched)}).decode()


def _type_error(resource: ServedResource, patched: Json) -> str:
    """Return what keeps a decoder from seeing an object of this kind; of custom kinds it sees any."""
    version, kind = patched.get("apiVersion"), patched.get("kind")
    for name, value in (("apiVersion", version), ("kind", kind)):
        if not isinstance(value, str | None):
            return f"json: cannot unmarshal a value that is no string into Go struct field .{name} of type string"
    if resource.custom:
        return "" if kind else "Object 'Kind' is missing"
    if version != resource.api_version or (kind or resource.kind) != resource.kind:
        return no_kind(str(kind), str(version))
    return ""


def _check_custom_type(call: Call, patched: Json) -> None:
    """Custom kinds are of another type only once they have been decoded."""
    resource, version, kind = call.resource, patched.get("apiVersion"), patched.get("kind")
    if not resource.custom:
        return
    if not version:
        raise errors.internal("Object 'apiVersion' is missing in 'object has no apiVersion field'")
    found = []
    if version != resource.api_version:
        found.append(causes.invalid("apiVersion", version, f"must be {resource.api_version}"))
    if kind != resource.kind:
        found.append(causes.invalid("kind", kind, f"must be {resource.kind}"))
    if found:
        raise errors.invalid_for(str(version).rpartition("/")[0], str(kind), call.name, found)
