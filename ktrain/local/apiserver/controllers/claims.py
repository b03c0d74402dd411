"""
The claim protection controller: lets go of deleted PersistentVolumeClaims that no pod uses any more.

Admission gives each claim the finalizer `kubernetes.io/pvc-protection`. A claim is in use while there is a pod that
names it and has a node, also one that has ended (KEP of storage object in use protection, `pkg/controller/volume`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Key
from ktrain.local.apiserver.builtins.volumes import PROTECTION
from ktrain.local.apiserver.controllers.working import Worklist
from ktrain.local.apiserver.storage.store import Change, RevisionMismatch
from ktrain.local.apiserver.verbs import accepting
from ktrain.local.apiserver.verbs.writing import is_finished

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend

_CLAIMS: Final = "persistentvolumeclaims"
_PODS: Final = "pods"


class ClaimProtection:
    """Watches claims and pods from inside the store."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._queue: Worklist[Key] = Worklist("claims", backend.env)
        self._deleted: set[Key] = set()
        backend.store.listen(self._observe)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._queue.work(self._settle)

    def _observe(self, collection: str, change: Change) -> None:
        if collection == _CLAIMS:
            after = change.after
            if after is not None and "deletionTimestamp" in after.obj["metadata"]:
                self._deleted.add(change.key)
                self._queue.add(change.key)
            else:
                self._deleted.discard(change.key)
        elif collection == _PODS and change.after is None and self._deleted and change.before is not None:
            for name in _claims_of(change.before.obj):
                if (key := Key(change.key.namespace, name)) in self._deleted:
                    self._queue.add(key)

    async def _settle(self, key: Key) -> None:
        resource = self._backend.registry.builtin("v1", "PersistentVolumeClaim")
        item = self._backend.collection(resource).get(key)
        if item is None or PROTECTION not in item.obj["metadata"].get("finalizers", ()) or self._is_used(key):
            return
        obj = accepting.private_copy(item.obj)
        obj["metadata"]["finalizers"].remove(PROTECTION)
        try:
            if is_finished(resource, obj):
                self._backend.store.remove(_CLAIMS, key, expected=item.revision)
            else:
                self._backend.store.put(_CLAIMS, key, obj, expected=item.revision, schema=item.schema)
        except RevisionMismatch:
            self._queue.add(key)

    def _is_used(self, key: Key) -> bool:
        entries = self._backend.store.collection(_PODS).entries(key.namespace)
        return any(item.obj["spec"].get("nodeName") and key.name in _claims_of(item.obj) for _, item in entries)


def _claims_of(pod: Json) -> Iterator[str]:
    for volume in pod["spec"].get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            yield claim["claimName"]
