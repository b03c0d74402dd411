"""
`pods/eviction`: a deletion that disruption budgets may refuse, as `kubectl drain` asks for it.

What a budget allows is in its status, which the disruption controller keeps; an eviction takes one from it, so that two
of them do not share what only one may have. Source: https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api.meta import Key, format_time
from ktrain.local.apiserver import errors
from ktrain.local.apiserver.access.asked import read_question
from ktrain.local.apiserver.admission import subresources
from ktrain.local.apiserver.builtins.values.selectors import matches
from ktrain.local.apiserver.builtins.workloads import disruption
from ktrain.local.apiserver.errors import StatusError, bad_request
from ktrain.local.apiserver.forms import representation
from ktrain.local.apiserver.reading import listing
from ktrain.local.apiserver.registry import ServedResource
from ktrain.local.apiserver.storage.store import RevisionMismatch
from ktrain.local.apiserver.strategy import ORDINARY
from ktrain.local.apiserver.verbs import accepting
from ktrain.local.apiserver.verbs.delete import checked_options, decode_options, delete_object

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.requests import Answer
    from ktrain.local.apiserver.storage.store import Item
    from ktrain.local.apiserver.verbs.delete import DeleteOptions

EVICTION: Final = ServedResource(
    group="policy",
    version="v1",
    kind="Eviction",
    plural="evictions",
    namespaced=True,
    strategy=ORDINARY,
)
"""The kind of the body; there is no such resource."""
_UNPROTECTED: Final = frozenset({"Succeeded", "Failed", "Pending"})
_REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_RETRY_S: Final = 10


async def serve(backend: Backend, call: Call) -> Answer:
    """
    Delete a pod unless a budget refuses.

    Raises:
        StatusError: 429 with the cause DisruptionBudget; or as a deletion.
    """
    body = await subresources.mutate_posted(backend, call, read_question(backend, call, EVICTION))
    if body["metadata"].get("name", "") != call.name:
        raise bad_request("name in URL does not match name in Eviction object")
    await subresources.validate_posted(backend, call, body)
    options = checked_options(decode_options(body.get("deleteOptions") or {}))
    if call.parameters.text("dryRun"):
        options = msgspec.structs.replace(options, dry_run=("All",))
    pod = listing.get_object(backend, call)
    if not _is_unprotected(pod.obj):
        _take(backend, call, pod.obj, options)
    await _delete(backend, call, options)
    return representation.plain_answer(call, errors.success(code=201), status=201)


def _is_unprotected(pod: Json) -> bool:
    return pod.get("status", {}).get("phase") in _UNPROTECTED or "deletionTimestamp" in pod["metadata"]


def _take(backend: Backend, call: Call, pod: Json, options: DeleteOptions) -> None:
    """Take one eviction from the pod's budget, if it has one."""
    budgets = backend.registry.builtin("policy/v1", "PodDisruptionBudget")
    collection = backend.collection(budgets)
    labels = pod["metadata"].get("labels")
    found = [
        (key, item)
        for key, item in collection.entries()
        if key.namespace == call.namespace and matches(item.obj.get("spec", {}).get("selector"), labels)
    ]
    if not found:
        return
    if len(found) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise StatusError(500, "", message)
    key, item = found[0]
    if not disruption.is_healthy(pod) and _spares_unhealthy(item.obj):
        return
    _check(item.obj)
    if not options.dry_run:
        backend.store.put(budgets.collection, key, _lessened(backend, item.obj, call.name), expected=item.revision)


def _spares_unhealthy(budget: Json) -> bool:
    """Whether the budget lets pods go that are not healthy anyway."""
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget["status"]
    return bool(status["currentHealthy"] >= status["desiredHealthy"] > 0)


def _check(budget: Json) -> None:
    name, status = budget["metadata"]["name"], budget["status"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _too_many(f"The disruption budget {name} is still being processed by the server.", retry_s=_RETRY_S)
    if status["disruptionsAllowed"] > 0:
        return
    wanted, healthy = status["desiredHealthy"], status["currentHealthy"]
    if healthy <= wanted:
        raise _too_many(f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently")
    raise _too_many(f"The disruption budget {name} does not allow evicting pods currently")


def _too_many(text: str, *, retry_s: int = 0) -> StatusError:
    details: Json = {"causes": [{"reason": "DisruptionBudget", "message": text}]}
    if retry_s:
        details["retryAfterSeconds"] = retry_s
    return StatusError(429, "TooManyRequests", _REFUSED, details=details)


def _lessened(backend: Backend, budget: Json, pod: str) -> Json:
    obj = accepting.private_copy(budget)
    now = format_time(backend.now())
    status = obj["status"]
    status["disruptionsAllowed"] -= 1
    status.setdefault("disruptedPods", {})[pod] = now
    disruption.set_condition(obj, now)
    return obj


async def _delete(backend: Backend, call: Call, options: DeleteOptions) -> None:
    while True:
        item = listing.get_object(backend, call)
        if options.dry_run:
            break
        try:
            item = _marked(backend, call, item)
            break
        except RevisionMismatch:
            continue
    await delete_object(
        backend,
        call.resource,
        Key(call.namespace, call.name),
        options,
        user=call.request.user,
        warnings=call.warnings,
        admitted=True,
    )


def _marked(backend: Backend, call: Call, item: Item) -> Item:
    """Say in the pod's status why it goes."""
    pod = accepting.private_copy(item.obj)
    status = pod.setdefault("status", {})
    others = [c for c in status.get("conditions", ()) if c.get("type") != "DisruptionTarget"]
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": format_time(backend.now()),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status["conditions"] = [*others, condition]
    return backend.store.put(call.resource.collection, call.key, pod, expected=item.revision, schema=item.schema)
