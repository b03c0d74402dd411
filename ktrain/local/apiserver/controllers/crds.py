"""
The life of custom kinds: served from the commit that establishes their definition, gone with it.

The registry follows the stored definitions inside the commit itself, so a kind is there when the POST answers. Only
deletion takes time: the objects go first, finalizers respected, then the definition.
"""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING

import structlog

from ktrain.api.meta import Key, format_time
from ktrain.framework.parallel import run_all
from ktrain.local.apiserver.builtins.definitions.kind import CLEANUP_FINALIZER, COLLECTION, DefinitionStrategy
from ktrain.local.apiserver.controllers.working import Worklist
from ktrain.local.apiserver.errors import StatusError
from ktrain.local.apiserver.registry import Scale, ServedResource
from ktrain.local.apiserver.storage.store import Change, RevisionMismatch
from ktrain.local.apiserver.strategy import Strategy
from ktrain.local.apiserver.verbs import accepting
from ktrain.local.apiserver.verbs.delete import DeleteOptions, delete_object

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.storage.store import Item

log = structlog.get_logger(__name__)


class CustomStrategy(Strategy):
    """Custom resources: everything they have to say is in their schema."""

    unconditional_update = False
    qualified_finalizers = False


class _StatuslessStrategy(CustomStrategy):
    """Without a status subresource, status is a field like any other."""

    immutable_status = False


_WITH_STATUS = CustomStrategy()
_WITHOUT_STATUS = _StatuslessStrategy()


class CrdController:
    """Keeps the registry in step with the stored definitions, and empties those that are being deleted."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._served: dict[str, list[ServedResource]] = {}
        self._queue: Worklist[str] = Worklist("crds", backend.env)
        backend.store.listen(self._observe)

    def install(self, document: Json) -> None:
        """
        Store a definition that is known to be valid, such as the project's own; validation would cost each start.

        One that is stored already is brought up to date.
        """
        strategy = DefinitionStrategy()
        # Only the parts that change are copied: servers started from one document share its compiled schemas.
        spec = {**document["spec"], "names": dict(document["spec"]["names"])}
        metadata = {k: v for k, v in document["metadata"].items() if k != "creationTimestamp"}
        metadata["uid"] = str(uuid.UUID(int=self._backend.env.random.getrandbits(128), version=4))
        metadata |= {"creationTimestamp": format_time(self._backend.now()), "generation": 1}
        obj = {"kind": document["kind"], "apiVersion": document["apiVersion"], "metadata": metadata, "spec": spec}
        strategy.default(obj)
        strategy.prepare_create(obj, self._backend)
        definitions = self._backend.registry.builtin("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        key, expected = Key("", metadata["name"]), 0
        stored = self._backend.store.collection(COLLECTION).get(key)
        if stored is not None:
            # From an earlier life of the server, perhaps written by another version of the program.
            if stored.obj["spec"] == obj["spec"] or _is_deleted(stored.obj):
                return
            before = stored.obj["metadata"]
            obj["metadata"] = {**before, **document["metadata"], "generation": before["generation"] + 1}
            expected = stored.revision
        self._backend.store.put(COLLECTION, key, obj, expected=expected, schema=definitions.schema)

    async def run(self) -> None:
        """Delete the objects of deleted definitions, then these. Runs until cancelled."""
        await self._queue.work(self._settle)

    def _observe(self, collection: str, change: Change) -> None:
        if collection == COLLECTION:
            self._serve(change.key.name, change.after.obj if change.after else None)
            if change.after is not None and _is_deleted(change.after.obj):
                self._queue.add(change.key.name)
            if change.after is None:
                self._backend.store.drop(change.key.name)
        elif change.after is None and collection in self._served:
            self._queue.add(collection)

    def _serve(self, name: str, obj: Json | None) -> None:
        """Replace what is served of one definition; what did not change keeps its identity, and with it its schema."""
        known = {resource.version: resource for resource in self._served.pop(name, ())}
        wanted = _resources(obj) if obj is not None else []
        now: list[ServedResource] = []
        for resource in wanted:
            before = known.pop(resource.version, None)
            if before is not None and _same(before, resource):
                now.append(before)
                continue
            self._backend.registry.add(resource)
            now.append(resource)
        for gone in known.values():
            self._backend.registry.remove(gone)
        if now:
            self._served[name] = now
            self._backend.store.collection(name)

    async def _settle(self, name: str) -> None:
        key = Key("", name)
        item = self._backend.store.collection(COLLECTION).get(key)
        if item is None or not _is_deleted(item.obj):
            return
        if CLEANUP_FINALIZER in item.obj["metadata"].get("finalizers", ()):
            await self._clean_up(key, item)

    async def _clean_up(self, key: Key, item: Item) -> None:
        collection = self._backend.store.collection(key.name)
        resources = self._served.get(key.name)
        if resources:
            # In the version that they are stored in, no webhook has to convert what goes anyway.
            stored = next((one for one in resources if one.version == one.storage_version), resources[0])
            instances = [object_key for object_key, _ in collection.entries()]
            await run_all([partial(self._delete, stored, instance) for instance in instances], limit=1)
        if len(collection):
            return  # a deletion that ends wakes us again
        obj = accepting.private_copy(item.obj)
        rest = [name for name in obj["metadata"]["finalizers"] if name != CLEANUP_FINALIZER]
        obj["metadata"]["finalizers"] = rest
        try:
            if rest:
                self._backend.store.put(COLLECTION, key, obj, expected=item.revision, schema=item.schema)
            else:
                self._backend.store.remove(COLLECTION, key, expected=item.revision)
        except RevisionMismatch:
            self._queue.add(key.name)

    async def _delete(self, resource: ServedResource, key: Key) -> None:
        try:
            await delete_object(self._backend, resource, key, DeleteOptions())
        except StatusError as error:
            log.debug("crd.instance_not_deleted", kind=resource.kind, object=str(key), reason=error.reason)


def _is_deleted(obj: Json) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def _resources(obj: Json) -> list[ServedResource]:
    """Return what a stored definition serves: nothing while it is not established."""
    conditions = {c["type"]: c["status"] for c in obj["status"].get("conditions") or ()}
    if conditions.get("Established") != "True":
        return []
    spec = obj["spec"]
    storage = next(version["name"] for version in spec["versions"] if version["storage"])
    served = [version for version in spec["versions"] if version.get("served")]
    return [_resource(obj, version, storage, served) for version in served]


def _resource(obj: Json, version: Json, storage: str, served: list[Json]) -> ServedResource:
    spec, names = obj["spec"], obj["status"]["acceptedNames"]
    subresources = version.get("subresources") or {}
    has_status = subresources.get("status") is not None
    selectable = [_path(field["jsonPath"]) for field in version.get("selectableFields", ())]
    return ServedResource(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular", ""),
        list_kind=names.get("listKind", ""),
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        namespaced=spec["scope"] == "Namespaced",
        strategy=_WITH_STATUS if has_status else _WITHOUT_STATUS,
        has_status=has_status,
        scale=_scale(subresources.get("scale")),
        custom=True,
        storage=obj["metadata"]["name"],
        storage_version=storage,
        json_schema=version["schema"]["openAPIV3Schema"],
        columns=tuple(version.get("additionalPrinterColumns", ())),
        field_labels={".".join(path): path for path in selectable},
        deprecation=_deprecation(spec, version, served),
        conversion=_converter(spec),
        terminating=_is_deleted(obj),
    )


def _converter(spec: Json) -> Json | None:
    conversion: Json = spec.get("conversion") or {}
    return conversion["webhook"] if conversion.get("strategy") == "Webhook" else None


def _scale(scale: Json | None) -> Scale | None:
    if scale is None:
        return None
    selector = scale.get("labelSelectorPath", "")
    return Scale(
        _path(scale["specReplicasPath"]), _path(scale["statusReplicasPath"]), _path(selector) if selector else ()
    )


def _path(text: str) -> tuple[str, ...]:
    return tuple(text.lstrip(".").split("."))


def _deprecation(spec: Json, version: Json, served: list[Json]) -> str:
    if not version.get("deprecated"):
        return ""
    if text := version.get("deprecationWarning"):
        return str(text)
    group, kind = spec["group"], spec["names"]["kind"]
    text = f"{group}/{version['name']} {kind} is deprecated"
    newer = [
        other["name"]
        for other in served
        if not other.get("deprecated") and _rank(other["name"]) > _rank(version["name"])
    ]
    return f"{text}; use {group}/{max(newer, key=_rank)} {kind}" if newer else text


def _rank(version: str) -> tuple[int, int, int]:
    """Order API versions: GA before beta before alpha, then by number."""
    digits = version.removeprefix("v")
    for level, word in ((1, "beta"), (0, "alpha")):
        major, found, minor = digits.partition(word)
        if found and major.isdigit():
            return level, int(major), int(minor) if minor.isdigit() else 0
    return (2, int(digits), 0) if digits.isdigit() else (-1, 0, 0)


def _same(a: ServedResource, b: ServedResource) -> bool:
    """Whether two resources differ only in identity."""
    return {**vars(a), **_CACHES} == {**vars(b), **_CACHES}


_CACHES = dict.fromkeys(("schema", "head", "collection", "names_of_list"))
