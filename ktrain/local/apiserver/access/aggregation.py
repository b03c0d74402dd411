"""ClusterRoles that gather the rules of others by label: kept filled, as upstream's aggregation controller does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Key
from ktrain.api.selectors import LabelSelector, SelectorError
from ktrain.local.apiserver.access.rbac import GROUP
from ktrain.local.apiserver.controllers.working import Worklist
from ktrain.local.apiserver.storage.store import RevisionMismatch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.storage.store import Change

_CLUSTER_ROLES: Final = f"clusterroles.{GROUP}"


class Aggregator:
    """Watches ClusterRoles from inside the store. Any change of one may concern any role that gathers."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._queue: Worklist[str] = Worklist("aggregation", backend.env)
        backend.store.listen(self._observe)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._queue.work(self._settle)

    def _observe(self, collection: str, change: Change) -> None:
        if collection != _CLUSTER_ROLES:
            return
        for key, item in self._backend.store.collection(collection).entries():
            if item.obj.get("aggregationRule"):
                self._queue.add(key.name)

    async def _settle(self, name: str) -> None:
        collection = self._backend.store.collection(_CLUSTER_ROLES)
        item = collection.get(Key("", name))
        if item is None or not item.obj.get("aggregationRule"):
            return
        rules = gathered(item.obj, [other.obj for _, other in collection.entries()])
        if rules == (item.obj.get("rules") or []):
            return
        filled = {**item.obj, "metadata": dict(item.obj["metadata"]), "rules": rules or None}
        try:
            self._backend.store.put(_CLUSTER_ROLES, Key("", name), filled, expected=item.revision, schema=item.schema)
        except RevisionMismatch:
            self._queue.add(name)


def gathered(role: Json, roles: Iterable[Json]) -> list[Json]:
    """Return the rules that a role with an aggregationRule gathers from these, given in the order of their names."""
    rules: list[Json] = []
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        try:
            selected = LabelSelector.from_object(selector)
        except SelectorError:
            continue  # stored before selectors were validated
        for other in roles:
            meta = other["metadata"]
            if meta["name"] != role["metadata"]["name"] and selected.matches(meta.get("labels") or {}):
                rules.extend(rule for rule in other.get("rules") or () if rule not in rules)
    return rules
