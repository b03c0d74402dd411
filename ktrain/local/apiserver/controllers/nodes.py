"""
The node controller: takes the taint away that admission gives a new node, once the node says that it is ready.

Upstream's node lifecycle controller does it among much else. Nothing here watches nodes that fall silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver.builtins.nodes import is_not_ready
from ktrain.local.apiserver.controllers.working import Worklist
from ktrain.local.apiserver.storage.store import Change, RevisionMismatch

if TYPE_CHECKING:
    from ktrain.api.meta import Json, Key
    from ktrain.local.apiserver.backend import Backend

_NODES: Final = "nodes"


class NodeController:
    """Watches nodes from inside the store."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._queue: Worklist[Key] = Worklist(_NODES, backend.env)
        backend.store.listen(self._observe)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._queue.work(self._settle)

    def _observe(self, collection: str, change: Change) -> None:
        if collection == _NODES and change.after is not None and _is_held_back(change.after.obj):
            self._queue.add(change.key)

    async def _settle(self, key: Key) -> None:
        item = self._backend.store.collection(_NODES).get(key)
        if item is None or not _is_held_back(item.obj):
            return
        spec = dict(item.obj["spec"])
        taints = [taint for taint in spec.pop("taints") if not is_not_ready(taint)]
        # Nothing stored is changed: what is not replaced is shared.
        obj = {
            **item.obj,
            "metadata": dict(item.obj["metadata"]),
            "spec": {**spec, "taints": taints} if taints else spec,
        }
        try:
            self._backend.store.put(_NODES, key, obj, expected=item.revision, schema=item.schema)
        except RevisionMismatch:
            self._queue.add(key)


def _is_held_back(node: Json) -> bool:
    """Whether a node is ready, and has the taint that it is not."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    return ready and any(is_not_ready(taint) for taint in node["spec"].get("taints") or ())
