"""
Storage that is in use outlives its deletion: claims that pods use, and volumes that are bound to a claim.

Admission gives each claim and each volume a finalizer; these controllers take it away when nobody uses the object any
more. A claim is in use while there is a pod that names it and has a node, also one that has ended (storage object in
use protection, `pkg/controller/volume`). A volume is in use while its phase says that it is bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Key
from ktrain.local.apiserver.builtins.volumes import claims, volumes
from ktrain.local.apiserver.controllers.working import Worklist
from ktrain.local.apiserver.storage.store import Change, RevisionMismatch
from ktrain.local.apiserver.verbs import accepting
from ktrain.local.apiserver.verbs.writing import is_finished

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.storage.store import Item

_CLAIMS: Final = "persistentvolumeclaims"
_PODS: Final = "pods"


class _Protection(ABC):
    """Watches one kind from inside the store, and releases what is deleted and not used."""

    kind: str
    collection: str
    finalizer: str

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._queue: Worklist[Key] = Worklist(self.collection, backend.env)
        backend.store.listen(self._observe)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._queue.work(self._settle)

    @abstractmethod
    def _observe(self, collection: str, change: Change) -> None:
        """Note which objects may have become free."""

    @abstractmethod
    def _is_used(self, key: Key, item: Item) -> bool:
        """Whether somebody needs the object."""

    async def _settle(self, key: Key) -> None:
        resource = self._backend.registry.builtin("v1", self.kind)
        item = self._backend.collection(resource).get(key)
        if item is None or not _is_deleted(item) or self.finalizer not in item.obj["metadata"].get("finalizers", ()):
            return
        if self._is_used(key, item):
            return
        obj = accepting.private_copy(item.obj)
        obj["metadata"]["finalizers"].remove(self.finalizer)
        try:
            if is_finished(resource, obj):
                self._backend.store.remove(self.collection, key, expected=item.revision)
            else:
                self._backend.store.put(self.collection, key, obj, expected=item.revision, schema=item.schema)
        except RevisionMismatch:
            self._queue.add(key)


class ClaimProtection(_Protection):
    """Releases deleted PersistentVolumeClaims that no pod uses."""

    kind = "PersistentVolumeClaim"
    collection = _CLAIMS
    finalizer = claims.PROTECTION

    def __init__(self, backend: Backend) -> None:
        self._deleted: set[Key] = set()
        super().__init__(backend)

    def _observe(self, collection: str, change: Change) -> None:
        if collection == _CLAIMS:
            if change.after is not None and _is_deleted(change.after):
                self._deleted.add(change.key)
                self._queue.add(change.key)
            else:
                self._deleted.discard(change.key)
        elif collection == _PODS and change.after is None and self._deleted and change.before is not None:
            for name in _claims_of(change.before.obj):
                if (key := Key(change.key.namespace, name)) in self._deleted:
                    self._queue.add(key)

    def _is_used(self, key: Key, item: Item) -> bool:
        entries = self._backend.store.collection(_PODS).entries(key.namespace)
        return any(pod.obj["spec"].get("nodeName") and key.name in _claims_of(pod.obj) for _, pod in entries)


class VolumeProtection(_Protection):
    """Releases deleted PersistentVolumes that are bound to no claim."""

    kind = "PersistentVolume"
    collection = "persistentvolumes"
    finalizer = volumes.PROTECTION

    def _observe(self, collection: str, change: Change) -> None:
        if collection == self.collection and change.after is not None and _is_deleted(change.after):
            self._queue.add(change.key)

    def _is_used(self, key: Key, item: Item) -> bool:
        return bool(item.obj["status"].get("phase") == "Bound")


def _is_deleted(item: Item) -> bool:
    return "deletionTimestamp" in item.obj["metadata"]


def _claims_of(pod: Json) -> Iterator[str]:
    for volume in pod["spec"].get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            yield claim["claimName"]
