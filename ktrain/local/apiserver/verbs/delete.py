"""
DELETE of one object and of a collection.

An object goes at once when nothing holds it. Finalizers, a grace period (pods) or the kind itself (namespaces, CRDs)
keep it, marked with a deletionTimestamp, until the last holder lets go. The propagation policy becomes one of the
garbage collector's finalizers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from ktrain.api.meta import Key, Struct, format_time
from ktrain.local.apiserver import causes, codec, errors
from ktrain.local.apiserver.admission.chain import AdmissionRequest
from ktrain.local.apiserver.errors import PageNotFound, bad_request, invalid_options, method_not_allowed, not_found
from ktrain.local.apiserver.forms import views
from ktrain.local.apiserver.metadata import GC_FINALIZERS
from ktrain.local.apiserver.reading import listing
from ktrain.local.apiserver.requests import ADMIN, User, check_dry_run
from ktrain.local.apiserver.storage.store import Item, RevisionMismatch
from ktrain.local.apiserver.verbs import accepting

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.registry import ServedResource

_POLICIES: Final = ("Foreground", "Background", "Orphan")
_FINALIZER_OF: Final = {"Foreground": "foregroundDeletion", "Orphan": "orphan", "Background": ""}


class _Preconditions(Struct, frozen=True):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Struct, frozen=True):
    """metav1.DeleteOptions."""

    kind: str = ""
    api_version: str = ""
    grace_period_seconds: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: _Preconditions | None = None
    dry_run: tuple[str, ...] | None = None


def preconditions(uid: str) -> _Preconditions:
    """Build the precondition that the object still is the one with this UID."""
    return _Preconditions(uid=uid)


@dataclass(frozen=True, slots=True)
class Deleted:
    """The outcome: the object's last state, and whether it is gone."""

    item: Item
    gone: bool


async def delete(backend: Backend, call: Call) -> tuple[Deleted, int]:
    """
    DELETE an object; return the outcome and the HTTP status.

    Raises:
        StatusError: Refused, or there is none.
    """
    options = read_options(call)
    _warn(call, options)
    outcome = await delete_object(
        backend, call.resource, call.key, options, user=call.request.user, warnings=call.warnings
    )
    return outcome, 202 if options.orphan_dependents is False and not outcome.gone else 200


async def delete_collection(backend: Backend, call: Call) -> listing.Page:
    """
    DELETE each object of a collection that fits the selectors; return the list as it was.

    Raises:
        StatusError: Refused.
        PageNotFound: A custom resource's all-namespaces URL takes no DELETE.
    """
    resource = call.resource
    if resource.namespaced and not call.namespace:
        raise PageNotFound if resource.custom else method_not_allowed("deletecollection", resource)
    options = read_options(call)
    _warn(call, options)
    listing.check_request(call)
    page = listing.list_objects(backend, call)
    for item in page.items:
        key = Key(item.obj["metadata"].get("namespace", ""), item.obj["metadata"]["name"])
        if backend.collection(resource).get(key) is not None:
            await delete_object(backend, resource, key, options, user=call.request.user, warnings=call.warnings)
    return page


async def delete_object(
    backend: Backend,
    resource: ServedResource,
    key: Key,
    options: DeleteOptions,
    *,
    user: User = ADMIN,
    warnings: list[str] | None = None,
    admitted: bool = False,
) -> Deleted:
    """
    Delete one object; the server's own controllers call this, too. `admitted`: admission was asked already.

    Raises:
        StatusError: Refused, a precondition failed, or there is none.
    """
    warnings = [] if warnings is None else warnings
    while True:
        item = backend.collection(resource).get(key)
        if item is None:
            raise not_found(resource, key.name)
        resource.strategy.may_delete(item.obj)
        _check_preconditions(resource, key, item, options)
        shown = await views.shown(backend, resource, item)
        if not admitted:
            await backend.admission.validate(_admission_request(resource, key, shown.obj, options, user), warnings)
        marked, held = _marked(backend, resource, item, options)
        # What may stay for a while is shown as it would have stayed; other kinds are shown as they were.
        last = Item(marked, item.revision, item.schema) if held or resource.strategy.shows_deletion else item
        if options.dry_run:
            return Deleted(last, gone=not held)
        try:
            if not held:
                backend.store.remove(resource.collection, key, expected=item.revision)
                return Deleted(last, gone=True)
            return _commit(backend, resource, key, item, marked)
        except RevisionMismatch:
            continue


def read_options(call: Call) -> DeleteOptions:
    """
    Read DeleteOptions from the body or, if there is none, from the query.

    Raises:
        StatusError: 400 or 422.
    """
    return checked_options(_from_body(call) if call.request.body else _from_query(call))


def checked_options(options: DeleteOptions) -> DeleteOptions:
    """
    Check DeleteOptions, and write old ways to say something in the new one.

    Raises:
        StatusError: 422.
    """
    found = []
    policy = options.propagation_policy
    if policy is not None and options.orphan_dependents is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        found.append(causes.invalid("propagationPolicy", policy, detail))
    elif policy is not None and policy not in _POLICIES:
        found.append(causes.not_supported("propagationPolicy", policy, [*_POLICIES, "nil"]))
    found += check_dry_run(options.dry_run or ())
    if found:
        raise invalid_options("DeleteOptions", found)
    if policy is None and options.orphan_dependents is not None:
        options = msgspec.structs.replace(
            options, propagation_policy="Orphan" if options.orphan_dependents else "Background"
        )
    if (options.grace_period_seconds or 0) < 0:
        options = msgspec.structs.replace(options, grace_period_seconds=1)
    return options


def _from_body(call: Call) -> DeleteOptions:
    body = codec.decode_object(call.request.body, call.header("content-type"), kind="DeleteOptions").obj
    if (kind := body.get("kind", "DeleteOptions")) != "DeleteOptions":
        raise bad_request(errors.no_kind(kind, body.get("apiVersion") or "meta.k8s.io/v1"))
    return decode_options(body)


def decode_options(body: Json) -> DeleteOptions:
    """
    Read DeleteOptions from their JSON form.

    Raises:
        StatusError: 400.
    """
    try:
        return msgspec.convert(body, DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(f"DeleteOptions cannot be decoded: {error}") from error


def _from_query(call: Call) -> DeleteOptions:
    parameters = call.parameters
    return DeleteOptions(
        grace_period_seconds=parameters.number("gracePeriodSeconds"),
        propagation_policy=parameters.text("propagationPolicy") if "propagationPolicy" in parameters else None,
        orphan_dependents=parameters.flag("orphanDependents") if "orphanDependents" in parameters else None,
        dry_run=tuple(value for name, value in call.request.query if name == "dryRun"),
        preconditions=_Preconditions(parameters.text("uid") or None, parameters.text("resourceVersion") or None),
    )


def _check_preconditions(resource: ServedResource, key: Key, item: Item, options: DeleteOptions) -> None:
    expected = options.preconditions
    if expected is None:
        return
    uid, version = item.obj["metadata"]["uid"], item.obj["metadata"]["resourceVersion"]
    if expected.uid is not None and expected.uid != uid:
        detail = (
            f"the UID in the precondition ({expected.uid}) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict(resource, key.name, detail, by_kind=True)
    if expected.resource_version is not None and expected.resource_version != version:
        detail = (
            f"the ResourceVersion in the precondition ({expected.resource_version}) does not match the ResourceVersion "
            f"in record ({version}). The object might have been modified"
        )
        raise errors.conflict(resource, key.name, detail, by_kind=True)


def _marked(backend: Backend, resource: ServedResource, item: Item, options: DeleteOptions) -> tuple[Json, bool]:
    """Return the object as a pending deletion leaves it, and whether something holds it."""
    obj = accepting.private_copy(item.obj)
    meta = obj["metadata"]
    strategy = resource.strategy
    finalizers = _finalizers(resource, obj, options)
    meta.pop("finalizers", None)
    if finalizers:
        meta["finalizers"] = finalizers
    grace = strategy.grace_seconds(obj, options.grace_period_seconds)
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = _end(backend, grace)
        meta["deletionGracePeriodSeconds"] = grace
        if "generation" in meta:
            meta["generation"] += 1
        strategy.mark_deleted(obj)
    elif grace < meta.get("deletionGracePeriodSeconds", 0):
        # A later deletion may only bring the end nearer.
        meta["deletionTimestamp"] = _end(backend, grace)
        meta["deletionGracePeriodSeconds"] = grace
    held = meta.get("finalizers") or meta.get("deletionGracePeriodSeconds") or strategy.holds(obj)
    return obj, bool(held)


def _end(backend: Backend, grace_s: int) -> str:
    try:
        return format_time(backend.now() + timedelta(seconds=grace_s))
    except OverflowError:
        return format_time(datetime.max.replace(tzinfo=UTC))


def _finalizers(resource: ServedResource, obj: Json, options: DeleteOptions) -> list[str]:
    finalizers: list[str] = obj["metadata"].get("finalizers", [])
    if not resource.strategy.collects:
        return [name for name in finalizers if name not in GC_FINALIZERS]
    policy = options.propagation_policy
    if policy is None:
        if GC_FINALIZERS & set(finalizers) or "deletionTimestamp" in obj["metadata"]:
            return finalizers
        policy = resource.strategy.default_propagation
    kept = [name for name in finalizers if name not in GC_FINALIZERS]
    wanted = _FINALIZER_OF[policy]
    if wanted in finalizers:
        return [name for name in finalizers if name == wanted or name not in GC_FINALIZERS]
    return [*kept, wanted] if wanted else kept


def _warn(call: Call, options: DeleteOptions) -> None:
    """Warn of a policy that nobody chose, whether there is such an object or not."""
    if options.propagation_policy is None and (warning := call.resource.strategy.deletion_warning):
        call.warnings.append(warning)


def _commit(backend: Backend, resource: ServedResource, key: Key, item: Item, marked: Json) -> Deleted:
    if marked == item.obj:
        return Deleted(item, gone=False)
    stored = backend.store.put(resource.collection, key, marked, expected=item.revision, schema=item.schema)
    return Deleted(stored, gone=False)


def _admission_request(
    resource: ServedResource, key: Key, obj: Json, options: DeleteOptions, user: User
) -> AdmissionRequest:
    return AdmissionRequest(
        operation="DELETE",
        resource=resource,
        subresource="",
        namespace=key.namespace,
        name=key.name,
        object=None,
        old_object=obj,
        user=user,
        dry_run=bool(options.dry_run),
        options=_shown(options),
    )


def _shown(options: DeleteOptions) -> Json:
    """The caller's options as admission sees them."""
    given = {name: value for name, value in msgspec.to_builtins(options).items() if value not in (None, [], {})}
    return {**given, "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
