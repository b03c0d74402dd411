"""
Garbage collection by owner references: a graph kept by the store's commits, and one task that works on it.

Upstream this is a controller that watches everything. Here the graph is exact, because it changes inside each commit;
only acting on it is asynchronous, as clients expect. The task works on one object at a time and looks at its newest
state.

Source of the rules: https://kubernetes.io/docs/concepts/architecture/garbage-collection/, and the behaviour of
kube-controller-manager 1.36.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import structlog

from ktrain.api.meta import Key
from ktrain.local.apiserver.controllers.working import Worklist
from ktrain.local.apiserver.errors import StatusError
from ktrain.local.apiserver.storage.store import RevisionMismatch
from ktrain.local.apiserver.verbs import accepting
from ktrain.local.apiserver.verbs.delete import DeleteOptions, delete_object, preconditions
from ktrain.local.apiserver.verbs.writing import is_finished

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.registry import ServedResource
    from ktrain.local.apiserver.storage.store import Change, Item

log = structlog.get_logger(__name__)

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
OwnerState = Literal["solid", "waiting", "absent"]


class Node(NamedTuple):
    """One object, by where it is stored."""

    collection: str
    key: Key


class GarbageCollector:
    """Deletes what lost its owners, and finishes foreground and orphan deletions."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._dependents: dict[str, dict[Node, None]] = {}
        self._queue: Worklist[Node] = Worklist("gc", backend.env)
        self._resources: dict[str, ServedResource] = {}
        self._generation = -1
        backend.store.listen(self._observe)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._queue.work(self._settle)

    def _observe(self, collection: str, change: Change) -> None:
        node = Node(collection, change.key)
        before = change.before.obj["metadata"] if change.before else {}
        after = change.after.obj["metadata"] if change.after else {}
        owners, owned_by = _owner_uids(before), _owner_uids(after)
        if owners != owned_by:
            for uid in owners - owned_by:
                self._forget(uid, node)
            for uid in owned_by - owners:
                self._dependents.setdefault(uid, {})[node] = None
        if change.after is None:
            # Dependents lost an owner; an owner that waits for them may be able to go.
            for dependent in self._dependents.get(before["uid"], ()):
                self._queue.add(dependent)
            for reference in before.get("ownerReferences", ()):
                self._enqueue_owner(change.key, reference)
        elif (owned_by and owners != owned_by) or "deletionTimestamp" in after:
            self._queue.add(node)
            if "deletionTimestamp" in after or owners - owned_by:
                for reference in before.get("ownerReferences", ()):
                    self._enqueue_owner(change.key, reference)

    def _forget(self, uid: str, node: Node) -> None:
        dependents = self._dependents.get(uid)
        if dependents is not None:
            dependents.pop(node, None)
            if not dependents:
                del self._dependents[uid]

    def _enqueue_owner(self, key: Key, reference: Json) -> None:
        resource = self._backend.registry.by_kind(reference["apiVersion"], reference["kind"])
        if resource is not None:
            namespace = key.namespace if resource.namespaced else ""
            self._queue.add(Node(resource.collection, Key(namespace, reference["name"])))

    async def _settle(self, node: Node) -> None:
        item = self._item(node)
        resource = self._resource(node.collection)
        if item is None or resource is None:
            return
        meta = item.obj["metadata"]
        try:
            if "deletionTimestamp" not in meta:
                if meta.get("ownerReferences"):
                    await self._settle_dependent(node, resource, item)
            elif ORPHAN in meta.get("finalizers", ()):
                self._orphan(node, resource, item)
            elif FOREGROUND in meta.get("finalizers", ()):
                await self._settle_foreground(node, resource, item)
        except RevisionMismatch:
            self._queue.add(node)  # it changed meanwhile: look again
        except StatusError as error:
            log.warning("gc.refused", kind=resource.kind, object=str(node.key), reason=error.reason, why=error.message)

    async def _settle_dependent(self, node: Node, resource: ServedResource, item: Item) -> None:
        """Delete a dependent without a solid owner; drop references to owners that are not there."""
        references: list[Json] = item.obj["metadata"]["ownerReferences"]
        states = [self._owner_state(node.key, resource, reference) for reference in references]
        if "solid" in states:
            if set(states) != {"solid"}:
                kept = [r for r, state in zip(references, states, strict=True) if state == "solid"]
                self._rewrite(node, resource, item, ownerReferences=kept)
            return
        has_dependents = bool(self._dependents.get(item.obj["metadata"]["uid"]))
        if "waiting" in states and has_dependents:
            if any(self._is_waiting(dependent) for dependent in self._of(item)):
                # A circle of blocking references: nobody would be the first to go.
                self._rewrite(node, resource, item, ownerReferences=[_unblocked(r) for r in references])
            await self._delete(node, resource, "Foreground")
        else:
            await self._delete(node, resource, _own_policy(item))

    async def _settle_foreground(self, node: Node, resource: ServedResource, item: Item) -> None:
        """Have the dependents deleted; let the owner go when none is left that blocks it."""
        uid = item.obj["metadata"]["uid"]
        blocked = False
        for dependent in self._of(item):
            other = self._item(dependent)
            if other is None:
                continue
            if "deletionTimestamp" not in other.obj["metadata"]:
                self._queue.add(dependent)
            references = other.obj["metadata"].get("ownerReferences", ())
            blocked = blocked or any(r.get("uid") == uid and r.get("blockOwnerDeletion") for r in references)
        if not blocked:
            self._release(node, resource, item, FOREGROUND)

    def _orphan(self, node: Node, resource: ServedResource, item: Item) -> None:
        """Cut the dependents loose, then let the owner go."""
        uid = item.obj["metadata"]["uid"]
        for dependent in self._of(item):
            other, served = self._item(dependent), self._resource(dependent.collection)
            if other is None or served is None:
                continue
            references = other.obj["metadata"].get("ownerReferences", ())
            self._rewrite(dependent, served, other, ownerReferences=[r for r in references if r.get("uid") != uid])
        self._release(node, resource, item, ORPHAN)

    def _release(self, node: Node, resource: ServedResource, item: Item, finalizer: str) -> None:
        rest = [name for name in item.obj["metadata"]["finalizers"] if name != finalizer]
        self._rewrite(node, resource, item, finalizers=rest)

    def _rewrite(self, node: Node, resource: ServedResource, item: Item, **changes: list[Json] | list[str]) -> None:
        """Commit a change of metadata lists; an empty one is left out."""
        obj = accepting.private_copy(item.obj)
        for name, value in changes.items():
            obj["metadata"].pop(name, None)
            if value:
                obj["metadata"][name] = value
        if is_finished(resource, obj):
            self._backend.store.remove(node.collection, node.key, expected=item.revision)
        else:
            self._backend.store.put(node.collection, node.key, obj, expected=item.revision, schema=item.schema)

    async def _delete(self, node: Node, resource: ServedResource, policy: str) -> None:
        item = self._item(node)
        if item is not None:
            options = DeleteOptions(propagation_policy=policy, preconditions=preconditions(item.obj["metadata"]["uid"]))
            await delete_object(self._backend, resource, node.key, options)

    def _owner_state(self, key: Key, resource: ServedResource, reference: Json) -> OwnerState:
        """Judge an owner. One whose kind is not served counts as solid: nothing is deleted on a guess."""
        owner = self._backend.registry.by_kind(reference["apiVersion"], reference["kind"])
        if owner is None or (owner.namespaced and not resource.namespaced):
            return "solid"
        item = self._backend.collection(owner).get(Key(key.namespace if owner.namespaced else "", reference["name"]))
        if item is None or item.obj["metadata"]["uid"] != reference["uid"]:
            return "absent"
        meta = item.obj["metadata"]
        return "waiting" if "deletionTimestamp" in meta and FOREGROUND in meta.get("finalizers", ()) else "solid"

    def _is_waiting(self, node: Node) -> bool:
        item = self._item(node)
        meta = item.obj["metadata"] if item else {}
        return "deletionTimestamp" in meta and FOREGROUND in meta.get("finalizers", ())

    def _of(self, item: Item) -> Iterator[Node]:
        return iter(tuple(self._dependents.get(item.obj["metadata"]["uid"], ())))

    def _item(self, node: Node) -> Item | None:
        collection = self._backend.store.collections.get(node.collection)
        return collection.get(node.key) if collection else None

    def _resource(self, collection: str) -> ServedResource | None:
        if self._generation != self._backend.registry.generation:
            self._generation = self._backend.registry.generation
            self._resources = self._backend.registry.one_for_each_storage()
        return self._resources.get(collection)


def _owner_uids(meta: Json) -> set[str]:
    references = meta.get("ownerReferences")
    return {reference["uid"] for reference in references} if references else set()


def _own_policy(item: Item) -> str:
    finalizers = item.obj["metadata"].get("finalizers", ())
    return "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"


def _unblocked(reference: Json) -> Json:
    return {**reference, "blockOwnerDeletion": False}
