"""
What all writes share, from an accepted object to the commit.

Ownership is tracked before mutating admission, so what admission changes belongs to nobody. Everything up to the
commit works on objects of the request; the commit fails when the stored object changed while admission was awaited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Key
from ktrain.api.patch import equal
from ktrain.api.schema.cel import CelError
from ktrain.api.schema.cel.values import parse_duration
from ktrain.local.apiserver import metadata
from ktrain.local.apiserver.admission.chain import REQUEST_LIMIT_S, AdmissionRequest
from ktrain.local.apiserver.builtins.quotas import admission as quota_admission
from ktrain.local.apiserver.errors import StatusError, already_exists, bad_request, forbidden, invalid, not_found
from ktrain.local.apiserver.fields import apply, decoding
from ktrain.local.apiserver.storage import limits
from ktrain.local.apiserver.storage.store import Item, RevisionMismatch, encode
from ktrain.local.apiserver.verbs import accepting
from ktrain.local.apiserver.verbs.patches import APPLY_PATCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.registry import ServedResource
    from ktrain.local.apiserver.requests import WriteOptions

GENERATE_TRIES: Final = 8
_MAIN: Final = frozenset({"", "scale"})
"""Writes through these change the spec, under the rules of the main URL."""
_WITHOUT_SPEC: Final = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a write: what to show, and whether the object is new."""

    item: Item
    created: bool = False


def reset_fields(resource: ServedResource, subresource: str) -> tuple[str, ...]:
    """Return the top-level fields that a write to this URL neither sets nor owns."""
    if subresource == "status":
        return ("spec",)
    return ("status",) if resource.has_status else ()


def check_namespace(backend: Backend, call: Call, name: str) -> None:
    """
    Refuse to create in a namespace that is missing or going away.

    Raises:
        StatusError: 404 or 403.
    """
    if not call.resource.namespaced:
        return
    item = backend.find("", "v1", "namespaces", Key("", call.namespace))
    if item is None:
        raise not_found(backend.registry.builtin("v1", "Namespace"), call.namespace)
    if item.obj["status"].get("phase") == "Terminating":
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {call.namespace} is being terminated",
            "field": "metadata.namespace",
        }
        detail = f"unable to create new content in namespace {call.namespace} because it is being terminated"
        raise forbidden(call.resource, name, detail, [cause])


async def commit_create(
    backend: Backend, call: Call, obj: Json, options: WriteOptions, *, has_version: bool = False
) -> Item:
    """
    Take an accepted, owned object through admission and validation into the store.

    `has_version`: the writer named a version, which what is new has not.

    Raises:
        StatusError: Refused, or the name is taken.
    """
    resource, strategy = call.resource, call.resource.strategy
    meta = obj["metadata"]
    name = meta.get("name", "")
    if resource.terminating:
        raise forbidden(resource, name, "create not allowed while custom resource definition is terminating")
    check_namespace(backend, call, name)
    obj = await _admit(backend, call, obj, None, options)
    meta = obj["metadata"]
    metadata.prepare_create(meta, now=backend.now(), random=backend.env.random, has_generation=strategy.has_generation)
    key = _choose_name(backend, call, meta)
    # Of what the server fills in by itself nobody is warned, nor of anything if the object is refused.
    warnings = strategy.warn(obj)
    strategy.prepare_create(obj, backend)
    _dedup_owners(call, obj)
    found = metadata.validate(meta, strategy)
    found = [*found, *validate_body(call, obj, None, blocked=_blocks(found)), *strategy.validate(obj)]
    found += strategy.validate_create(obj)
    if found:
        raise invalid(resource, meta.get("name", ""), found)
    obj = _settled(resource, obj)
    _warn_of_finalizers(call, obj)
    call.warnings.extend(warnings)
    if call.name:
        backend.gate.require_creation(call)
    await _admit_final(backend, call, obj, None, options)
    if has_version and not options.dry_run:
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    # A taken name is found out last: who sends something invalid is told so, whatever else is in the way.
    if (existing := backend.collection(resource).get(key)) is not None:
        raise _taken(call, key, existing)
    if options.dry_run:
        return Item(obj, 0, resource.schema)
    if resource.custom and "status" not in obj:
        # Each creation drops the status. What is read from storage gets defaults again, that of the status, too.
        obj = {**obj, **{name: value for name, value in resource.schema.default({}).items() if name == "status"}}
    try:
        return await _put(backend, call, key, obj, 0)
    except RevisionMismatch:
        raise _taken(call, key, backend.collection(resource).get(key)) from None


def _choose_name(backend: Backend, call: Call, meta: Json) -> Key:
    """Settle the name of a new object; one that is generated has to be free."""
    base = "" if meta.get("name") else meta.get("generateName", "")
    if not base:
        return Key(meta.get("namespace", ""), meta.get("name", ""))
    for _ in range(GENERATE_TRIES):
        meta["name"] = metadata.generate_name(base, backend.env.random)
        key = Key(meta.get("namespace", ""), meta["name"])
        existing = backend.collection(call.resource).get(key)
        if existing is None:
            return key
    raise _no_free_name(call, key, existing)


async def commit_update(
    backend: Backend, call: Call, obj: Json, old: Item, options: WriteOptions, *, admitted: bool = False
) -> Item:
    """
    The same for an object that is there; an update that leaves it as it was stores nothing.

    `admitted`: admission has had its say already, on a view of the object.

    Raises:
        StatusError: Refused.
        RevisionMismatch: It changed meanwhile: start over from the newest version.
    """
    resource, strategy, before = call.resource, call.resource.strategy, old.obj
    if not admitted:
        obj = await _admit(backend, call, obj, before, options)
    meta = obj["metadata"]
    metadata.prepare_update(meta, before["metadata"])
    meta["resourceVersion"] = before["metadata"]["resourceVersion"]
    if call.subresource in _MAIN:
        strategy.prepare_update(obj, before, backend)
    if call.subresource not in _WITHOUT_SPEC and strategy.has_generation and strategy.spec_changed(obj, before):
        meta["generation"] = before["metadata"].get("generation", 0) + 1
    _dedup_owners(call, obj)
    found = [
        *metadata.validate(meta, strategy),
        *metadata.validate_update(meta, before["metadata"]),
    ]
    found += _validate_change(call, obj, before)
    if found:
        raise invalid(resource, meta["name"], found)
    obj = _settled(resource, obj)
    _warn_of_finalizers(call, obj)
    if not strategy.has_generation or meta.get("generation") != before["metadata"].get("generation"):
        call.warnings.extend(strategy.warn(obj))
    if not admitted:
        await _admit_final(backend, call, obj, before, options)
    if unchanged(obj, before):
        return old
    if options.dry_run:
        return Item(obj, old.revision, resource.schema)
    key = Key(meta.get("namespace", ""), meta["name"])
    if is_finished(resource, obj):
        backend.store.remove(resource.collection, key, expected=old.revision)
        return Item(obj, old.revision, resource.schema)
    return await _put(backend, call, key, obj, old.revision)


def _settled(resource: ServedResource, obj: Json) -> Json:
    """Return a valid object as it is stored. Rules still tell a whole float from an integer; nobody does later."""
    return decoding.free(obj) if resource.custom else obj


def _blocks(found: Sequence[Cause]) -> bool:
    return any(cause.blocks_rules for cause in found)


def validate_body(call: Call, obj: Json, old: Json | None, *, blocked: bool = False) -> list[Cause]:
    """
    Check a custom object against its schema; built-in kinds are checked by their strategies.

    `blocked`: its metadata is so wrong that rules are not run.
    """
    resource = call.resource
    if not resource.custom:
        return []
    if call.subresource == "status":
        return resource.schema.validate_status(obj, old, warnings=call.warnings)
    counts = () if resource.scale is None else resource.scale.validate(obj)
    return resource.schema.validate(obj, old, warnings=call.warnings, blocked=blocked, counts=counts)


def is_finished(resource: ServedResource, obj: Json) -> bool:
    """Whether nothing holds a deleted object any longer: the write that made it so is its deletion."""
    meta = obj["metadata"]
    return (
        "deletionTimestamp" in meta
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and not resource.strategy.holds(obj)
    )


def unchanged(obj: Json, before: Json) -> bool:
    """Whether two versions are the same but for the times in managedFields."""
    # Plain comparison is quick, and exact when it finds a difference; only it takes true for 1.
    if {**obj, "metadata": None} != {**before, "metadata": None}:
        return False
    meta, old = obj["metadata"], before["metadata"]
    if {**meta, "managedFields": None} != {**old, "managedFields": None}:
        return False
    return _without_times(meta) == _without_times(old) and equal(obj | {"metadata": None}, before | {"metadata": None})


def track_create(backend: Backend, call: Call, obj: Json, options: WriteOptions) -> Json:
    """Give the whole new object to its writer's managedFields entry."""
    for name in ("managedFields", "deletionTimestamp", "deletionGracePeriodSeconds"):
        obj["metadata"].pop(name, None)
    return _track(backend, call, None, obj, options)


def track_update(backend: Backend, call: Call, old: Json, obj: Json, options: WriteOptions) -> Json:
    """Give what changed to its writer's managedFields entry."""
    return _track(backend, call, old, _share(obj, old), options)


def _share(obj: Json, old: Json) -> Json:
    """Use the stored parts where nothing changed: comparing them ends at once, and they are kept in memory once."""
    for name, value in obj.items():
        before = old.get(name)
        if value is not before and name != "metadata" and encode(value) == encode(before):
            obj[name] = before
    return obj


def _track(backend: Backend, call: Call, old: Json | None, obj: Json, options: WriteOptions) -> Json:
    return apply.track_update(
        old,
        obj,
        empty=call.resource.empty,
        schema=call.resource.schema,
        manager=options.manager,
        api_version=call.resource.api_version,
        subresource=call.subresource,
        now=backend.now(),
        reset=reset_fields(call.resource, call.subresource),
    )


async def _put(backend: Backend, call: Call, key: Key, obj: Json, expected: int) -> Item:
    resource = call.resource
    if resource.strategy.converts:
        return backend.store.put(resource.collection, key, resource.strategy.to_storage(obj), expected=expected)
    stored, schema = await backend.conversions.stored(resource, obj)
    stored = limits.fitted(resource, key, stored, is_new=not expected, is_applied=_is_apply(call))
    item = backend.store.put(resource.collection, key, stored, expected=expected, schema=schema)
    return await backend.conversions.item(resource, item)


def _is_apply(call: Call) -> bool:
    return call.request.method == "PATCH" and call.header("content-type").startswith(APPLY_PATCH)


async def _admit(backend: Backend, call: Call, obj: Json, old: Json | None, options: WriteOptions) -> Json:
    """Run mutating admission: the kind's own, then everybody's, then the kind's again on what they made of it."""
    built_in = call.subresource in _MAIN
    if built_in:
        call.resource.strategy.admit(obj, old, backend)
    admitted = await _mutate(backend, call, obj, old, options)
    if built_in and admitted is not obj:
        call.resource.strategy.admit(admitted, old, backend)
    return admitted


async def _mutate(backend: Backend, call: Call, obj: Json, old: Json | None, options: WriteOptions) -> Json:
    request = admission_request(call, obj, old, options)
    changed = await backend.admission.mutate(request, call.warnings)
    if changed is None:
        return obj
    # Nulls that admission writes are values, which a schema may refuse; those of a request went when it was read.
    pruned, _ = accepting.prune(call, accepting.private_copy(changed), keep_nulls=call.resource.custom)
    namespace = obj["metadata"].get("namespace", "")
    if namespace and pruned["metadata"].setdefault("namespace", namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    return accepting.default(call.resource, pruned)


async def _admit_final(backend: Backend, call: Call, obj: Json, old: Json | None, options: WriteOptions) -> None:
    if call.subresource in _MAIN:
        call.resource.strategy.judge(call.resource, obj, old, backend)
    await backend.admission.validate(admission_request(call, obj, old, options), call.warnings)
    if call.subresource in _MAIN:
        quota_admission.check(call.resource, obj, old, backend)


def admission_request(call: Call, obj: Json, old: Json | None, options: WriteOptions) -> AdmissionRequest:
    """Return a write as admission sees it; `old` is None if it creates."""
    return AdmissionRequest(
        operation="CREATE" if old is None else "UPDATE",
        resource=call.resource,
        subresource=call.subresource,
        namespace=call.namespace,
        name=obj["metadata"].get("name", ""),
        object=obj,
        old_object=old,
        user=call.request.user,
        dry_run=options.dry_run,
        limit_s=limit_s(call),
        options=_options(call, options, "CreateOptions" if old is None else "UpdateOptions"),
    )


def limit_s(call: Call) -> float:
    """Return how long the caller waits, as far as it says so: `timeout=30s`."""
    given = call.parameters.text("timeout")
    try:
        asked_s = parse_duration(given).total_seconds() if given else REQUEST_LIMIT_S
    except CelError:
        return REQUEST_LIMIT_S
    return min(asked_s, REQUEST_LIMIT_S) if asked_s > 0 else REQUEST_LIMIT_S


def _options(call: Call, options: WriteOptions, kind: str) -> Json:
    """The caller's options as admission sees them, as far as it gave any: a patch, too, creates or updates."""
    given: Json = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if options.dry_run:
        given["dryRun"] = ["All"]
    for name in ("fieldManager", "fieldValidation"):
        if value := call.parameters.text(name):
            given[name] = value
    return given


def _validate_change(call: Call, obj: Json, before: Json) -> list[Cause]:
    strategy = call.resource.strategy
    found = validate_body(call, obj, before)
    if call.subresource == "status":
        return [*found, *strategy.validate_status(obj, before)]
    if (part := strategy.parts.get(call.subresource)) is not None:
        return [*found, *strategy.validate(obj), *part.validate(obj, before)]
    return [*found, *strategy.validate(obj), *strategy.validate_update(obj, before)]


def _dedup_owners(call: Call, obj: Json) -> None:
    if doubled := metadata.dedup_owners(obj["metadata"]):
        call.warnings.append(doubled)


def _warn_of_finalizers(call: Call, obj: Json) -> None:
    if call.resource.custom:
        call.warnings.extend(metadata.finalizer_warnings(obj["metadata"]))


def _without_times(meta: Json) -> list[Json]:
    return [{**entry, "time": None} for entry in meta.get("managedFields", ())]


def _taken(call: Call, key: Key, existing: Item | None) -> StatusError:
    deleting = existing is not None and "deletionTimestamp" in existing.obj["metadata"]
    return already_exists(call.resource, key, deleting=deleting)


def _no_free_name(call: Call, key: Key, existing: Item | None) -> StatusError:
    error = _taken(call, key, existing)
    error.message += ", the server was not able to generate a unique name for the object"
    error.details = {**(error.details or {}), "retryAfterSeconds": 1}
    return error
