"""The quota controller: writes into each ResourceQuota's status how much of it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.api import quantity
from ktrain.local.apiserver.builtins.quotas.admission import COLLECTION
from ktrain.local.apiserver.builtins.quotas.usage import source_of, used
from ktrain.local.apiserver.controllers.working import Worklist
from ktrain.local.apiserver.storage.store import RevisionMismatch

if TYPE_CHECKING:
    from ktrain.api.meta import Key
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.storage.store import Change


class QuotaController:
    """Follows the store; a change in a namespace with quotas makes it count again those that it may concern."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._quotas = backend.store.collection(COLLECTION)
        self._queue: Worklist[Key] = Worklist("quotas", backend.env)
        backend.store.listen(self._observe)

    async def run(self) -> None:
        """Count until cancelled."""
        for key, _ in self._quotas.entries():
            self._queue.add(key)
        await self._queue.work(self._count)

    def _observe(self, collection: str, change: Change) -> None:
        if collection == COLLECTION and change.after is not None:
            self._queue.add(change.key)
        if not len(self._quotas) or not change.key.namespace:
            return
        for key, item in self._quotas.entries(change.key.namespace):
            if any(source_of(name) == collection for name in item.obj["spec"].get("hard") or ()):
                self._queue.add(key)

    async def _count(self, key: Key) -> None:
        item = self._quotas.get(key)
        if item is None:
            return
        hard = item.obj["spec"].get("hard") or {}
        taken = used(item.obj, self._backend)
        shown = {name: quantity.format_quantity(taken[name], like=hard[name]) for name in hard}
        status = {"hard": dict(hard), "used": shown} if hard else {}
        if item.obj.get("status") == status:
            return
        obj = {**item.obj, "metadata": dict(item.obj["metadata"]), "status": status}
        try:
            self._backend.store.put(COLLECTION, key, obj, expected=item.revision, schema=item.schema)
        except RevisionMismatch:
            self._queue.add(key)
