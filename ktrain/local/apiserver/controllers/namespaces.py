"""The namespace controller: the orderly end of deleted namespaces."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import structlog

from ktrain.api.meta import Key
from ktrain.framework.parallel import run_all
from ktrain.local.apiserver.builtins.namespaces import FINALIZER
from ktrain.local.apiserver.controllers.working import Worklist
from ktrain.local.apiserver.errors import StatusError
from ktrain.local.apiserver.storage.store import Change, RevisionMismatch
from ktrain.local.apiserver.verbs import accepting
from ktrain.local.apiserver.verbs.delete import DeleteOptions, delete_object

if TYPE_CHECKING:
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.registry import ServedResource
    from ktrain.local.apiserver.storage.store import Item

log = structlog.get_logger(__name__)

_NAMESPACES = "namespaces"


class NamespaceController:
    """
    Watches namespaces from inside the store.

    A deleted namespace is emptied (background policy, finalizers respected), then let go. Deletions that wait for
    somebody else's finalizer wake it again when they end.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._queue: Worklist[str] = Worklist("namespaces", backend.env)
        self._ending: set[str] = set()
        backend.store.listen(self._observe)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._queue.work(self._settle)

    def _observe(self, collection: str, change: Change) -> None:
        if collection == _NAMESPACES:
            name = change.key.name
            if change.after is None:
                self._ending.discard(name)
                return
            if "deletionTimestamp" in change.after.obj["metadata"]:
                self._ending.add(name)
            else:
                return
        elif change.after is None and change.key.namespace in self._ending:
            name = change.key.namespace
        else:
            return
        self._queue.add(name)

    async def _settle(self, name: str) -> None:
        item = self._backend.store.collection(_NAMESPACES).get(Key("", name))
        if item is None or "deletionTimestamp" not in item.obj["metadata"]:
            return
        if await self._empty(name):
            self._finish(name)

    async def _empty(self, namespace: str) -> bool:
        """Delete what is in a namespace; return whether nothing is left."""
        alive = [
            (one, key) for one, key, item in self._content(namespace) if "deletionTimestamp" not in item.obj["metadata"]
        ]
        await run_all([partial(self._delete, resource, key) for resource, key in alive], limit=1)
        return not self._content(namespace)

    def _content(self, namespace: str) -> list[tuple[ServedResource, Key, Item]]:
        return [
            (resource, key, item)
            for resource in self._backend.registry.one_for_each_storage().values()
            if resource.namespaced
            for key, item in self._backend.collection(resource).entries(namespace)
        ]

    async def _delete(self, resource: ServedResource, key: Key) -> None:
        try:
            await delete_object(self._backend, resource, key, DeleteOptions(propagation_policy="Background"))
        except StatusError as error:
            log.debug("namespace.object_not_deleted", object=str(key), kind=resource.kind, reason=error.reason)

    def _finish(self, name: str) -> None:
        collection = self._backend.store.collection(_NAMESPACES)
        key = Key("", name)
        item = collection.get(key)
        if item is None:
            return
        obj = accepting.private_copy(item.obj)
        rest = [finalizer for finalizer in obj["spec"].get("finalizers", ()) if finalizer != FINALIZER]
        obj["spec"] = {"finalizers": rest} if rest else {}
        try:
            if rest or obj["metadata"].get("finalizers"):
                if obj != item.obj:
                    self._backend.store.put(_NAMESPACES, key, obj, expected=item.revision, schema=item.schema)
            else:
                self._backend.store.remove(_NAMESPACES, key, expected=item.revision)
        except RevisionMismatch:
            self._queue.add(name)
