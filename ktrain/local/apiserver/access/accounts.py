"""
The service account controller: in each namespace the account `default`, and the CA of this server for its pods.

Both come back when somebody deletes or changes them. The CA is published only once there is one: a server that nobody
outside this process reaches has none, and then namespaces look as if this part of the controller were off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Key
from ktrain.local.apiserver.controllers.working import Worklist
from ktrain.local.apiserver.storage.founding import found
from ktrain.local.apiserver.storage.store import RevisionMismatch

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.storage.store import Change

ACCOUNT: Final = "default"
ROOT_CA: Final = "kube-root-ca.crt"
_KEY_OF_CA: Final = "ca.crt"
_DESCRIPTION: Final = "The certificate that clients inside the cluster check this API server's by."
_NAMESPACES: Final = "namespaces"
_WATCHED: Final = {"serviceaccounts": ACCOUNT, "configmaps": ROOT_CA}


class AccountController:
    """Watches namespaces, and what it makes in them, from inside the store."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._queue: Worklist[str] = Worklist("serviceaccounts", backend.env)
        backend.store.listen(self._observe)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._queue.work(self._settle)

    def publish(self) -> None:
        """Give every namespace the server's CA, at once."""
        for key, _ in list(self._backend.store.collection(_NAMESPACES).entries()):
            self._furnish(key.name)

    def _observe(self, collection: str, change: Change) -> None:
        if collection == _NAMESPACES:
            if change.before is None:
                self._queue.add(change.key.name)
        elif _WATCHED.get(collection) == change.key.name and change.before is not None:
            self._queue.add(change.key.namespace)

    async def _settle(self, namespace: str) -> None:
        self._furnish(namespace)

    def _furnish(self, namespace: str) -> None:
        item = self._backend.store.collection(_NAMESPACES).get(Key("", namespace))
        if item is None or "deletionTimestamp" in item.obj["metadata"]:
            return
        ensure_account(self._backend, namespace)
        if self._backend.gate.authority is not None:
            self._ensure_authority(namespace, {_KEY_OF_CA: self._backend.gate.authority.decode()})

    def _ensure_authority(self, namespace: str, data: Json) -> None:
        key = Key(namespace, ROOT_CA)
        item = self._backend.store.collection("configmaps").get(key)
        if item is None:
            meta = {"annotations": {"kubernetes.io/description": _DESCRIPTION}}
            found(self._backend, "v1", "ConfigMap", key, {"metadata": meta, "data": data})
        elif item.obj.get("data") != data or item.obj.get("binaryData"):
            mended = {name: value for name, value in item.obj.items() if name != "binaryData"}
            mended |= {"metadata": dict(item.obj["metadata"]), "data": data}
            try:
                self._backend.store.put("configmaps", key, mended, expected=item.revision, schema=item.schema)
            except RevisionMismatch:
                self._queue.add(namespace)


def ensure_account(backend: Backend, namespace: str) -> None:
    """Make a namespace's account `default` unless it is there."""
    if backend.store.collection("serviceaccounts").get(Key(namespace, ACCOUNT)) is None:
        found(backend, "v1", "ServiceAccount", Key(namespace, ACCOUNT), {})
