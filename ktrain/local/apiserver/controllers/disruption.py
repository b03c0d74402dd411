"""
The disruption controller: keeps in each PodDisruptionBudget's status how many of its pods may be evicted now.

Upstream asks the controllers of pods how many there should be. Here that is how many there are: what runs on this
server are the pods of Jobs, which have no scale to ask for upstream either.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Key, format_time
from ktrain.local.apiserver.builtins.values import percentages
from ktrain.local.apiserver.builtins.values.selectors import matches
from ktrain.local.apiserver.builtins.workloads.disruption import is_healthy, set_condition
from ktrain.local.apiserver.controllers.working import Worklist
from ktrain.local.apiserver.storage.store import Change, RevisionMismatch
from ktrain.local.apiserver.verbs import accepting

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend

_BUDGETS: Final = "poddisruptionbudgets.policy"
_PODS: Final = "pods"


class DisruptionController:
    """Watches budgets and pods from inside the store; namespaces without a budget cost one look-up for each change."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._queue: Worklist[Key] = Worklist("budgets", backend.env)
        self._budgets: defaultdict[str, set[Key]] = defaultdict(set)
        backend.store.listen(self._observe)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._queue.work(self._settle)

    def _observe(self, collection: str, change: Change) -> None:
        namespace = change.key.namespace
        if collection == _BUDGETS:
            if change.after is None:
                self._budgets[namespace].discard(change.key)
                return
            self._budgets[namespace].add(change.key)
            self._queue.add(change.key)
        elif collection == _PODS and namespace in self._budgets:
            for key in self._budgets[namespace]:
                self._queue.add(key)

    async def _settle(self, key: Key) -> None:
        collection = self._backend.store.collection(_BUDGETS)
        item = collection.get(key)
        if item is None:
            return
        obj = accepting.private_copy(item.obj)
        self._count(obj)
        if obj == item.obj:
            return
        try:
            self._backend.store.put(_BUDGETS, key, obj, expected=item.revision, schema=item.schema)
        except RevisionMismatch:
            self._queue.add(key)

    def _count(self, budget: Json) -> None:
        """Write a budget's status from the pods there are."""
        spec, status = budget.get("spec", {}), budget.setdefault("status", {})
        namespace = budget["metadata"]["namespace"]
        entries = self._backend.store.collection(_PODS).entries(namespace)
        pods = [item.obj for _, item in entries if matches(spec.get("selector"), item.obj["metadata"].get("labels"))]
        staying = {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
        going = {name: time for name, time in status.get("disruptedPods", {}).items() if name in staying}
        healthy = sum(is_healthy(pod) and pod["metadata"]["name"] in staying - going.keys() for pod in pods)
        wanted = _wanted(spec, len(pods))
        status["currentHealthy"], status["desiredHealthy"], status["expectedPods"] = healthy, wanted, len(pods)
        status["disruptionsAllowed"] = max(0, healthy - wanted) if pods else 0
        status["observedGeneration"] = budget["metadata"].get("generation", 0)
        status.pop("disruptedPods", None)
        if going:
            status["disruptedPods"] = going
        set_condition(budget, format_time(self._backend.now()))


def _wanted(spec: Json, total: int) -> int:
    """Return how many pods have to stay healthy."""
    if "maxUnavailable" in spec:
        return max(0, total - percentages.of(spec["maxUnavailable"], total))
    return percentages.of(spec.get("minAvailable", 0), total)
