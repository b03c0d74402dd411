"""
What built-in admission writes into new pods: limits, accounts, priorities, runtime classes, tolerations.

It runs before webhooks, which see what it wrote, and once more after them on what they made of it; so each step leaves
alone what it wrote before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Key
from ktrain.local.apiserver.builtins.pods.accounts import admit_account
from ktrain.local.apiserver.builtins.quotas import limits
from ktrain.local.apiserver.builtins.values.amounts import read
from ktrain.local.apiserver.errors import StatusError, forbidden

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend

_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_EVICT_AFTER_S: Final = 300


def admit_pod(pod: Json, backend: Backend) -> None:
    """
    Fill in what a new pod does not say.

    Raises:
        StatusError: It names something that does not exist, or contradicts it.
    """
    pod.setdefault("spec", {})
    limits.apply_defaults(pod, backend)
    admit_account(pod, backend)
    _admit_priority(pod, backend)
    tolerate_failing_nodes(pod)
    _admit_runtime_class(pod, backend)


def _admit_priority(pod: Json, backend: Backend) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName", "")
    classes = backend.store.collection("priorityclasses.scheduling.k8s.io")
    if name:
        item = classes.get(Key("", name))
        if item is None:
            raise _forbidden(pod, backend, f"no PriorityClass with name {name} was found")
        found: Json | None = item.obj
    else:
        found = next((one.obj for _, one in classes.entries() if one.obj.get("globalDefault")), None)
    priority = found["value"] if found else 0
    if spec.get("priority", priority) != priority:
        detail = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission "
            f"controller computed {priority} from the given PriorityClass name"
        )
        raise _forbidden(pod, backend, detail)
    if found is not None:
        spec["priorityClassName"] = found["metadata"]["name"]
    spec["priority"] = priority
    preemption = (found or {}).get("preemptionPolicy", "PreemptLowerPriority")
    if spec.setdefault("preemptionPolicy", preemption) != preemption:
        detail = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {preemption} from the given PriorityClass name"
        )
        raise _forbidden(pod, backend, detail)


def _admit_runtime_class(pod: Json, backend: Backend) -> None:
    spec = pod["spec"]
    name = spec.get("runtimeClassName")
    found: Json = {}
    if name:
        item = backend.store.collection("runtimeclasses.node.k8s.io").get(Key("", name))
        if item is None:
            raise _forbidden(pod, backend, f'pod rejected: RuntimeClass "{name}" not found')
        found = item.obj
    overhead = (found.get("overhead") or {}).get("podFixed")
    if overhead is not None:
        given = pod["spec"].get("overhead")
        if given and read(given) != read(overhead):
            text = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            raise _forbidden(pod, backend, text)
        spec["overhead"] = dict(overhead)
    _schedule(pod, found.get("scheduling") or {}, backend)


def check_overhead(pod: Json, backend: Backend) -> None:
    """
    Refuse a new pod, valid otherwise, that says of itself what only its runtime class may say.

    Raises:
        StatusError: 403.
    """
    spec = pod["spec"]
    item = backend.store.collection("runtimeclasses.node.k8s.io").get(Key("", spec.get("runtimeClassName", "")))
    if spec.get("overhead") and (item is None or not item.obj.get("overhead")):
        text = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise _forbidden(pod, backend, text)


def _schedule(pod: Json, scheduling: Json, backend: Backend) -> None:
    """Put the pod where its runtime class is."""
    spec = pod["spec"]
    selector = spec.get("nodeSelector") or {}
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.get(key, value) != value:
            theirs = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            raise _forbidden(pod, backend, f"conflict: {theirs}; pod.spec.nodeSelector[{key}] = {selector[key]}")
        spec["nodeSelector"] = selector = {**selector, key: value}
    tolerations = spec.setdefault("tolerations", []) if scheduling.get("tolerations") else []
    tolerations += [dict(one) for one in scheduling.get("tolerations") or () if one not in tolerations]


def tolerate_failing_nodes(pod: Json) -> None:
    """Let the pod stay a while on a node that fails, unless it says how long itself. Its spec may be a stored one."""
    tolerations = pod["spec"].get("tolerations", [])
    tolerated = {one.get("key", "") for one in tolerations if one.get("effect", "NoExecute") == "NoExecute"}
    missing = [] if "" in tolerated else [taint for taint in _TAINTS if taint not in tolerated]
    if missing:
        added = [
            {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _EVICT_AFTER_S}
            for taint in missing
        ]
        pod["spec"] = {**pod["spec"], "tolerations": [*tolerations, *added]}


def _forbidden(pod: Json, backend: Backend, detail: str) -> StatusError:
    pods = backend.registry.builtin("v1", "Pod")
    return forbidden(pods, pod["metadata"].get("name", ""), detail)
