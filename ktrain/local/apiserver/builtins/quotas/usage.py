"""What objects count for in ResourceQuotas. Source: `k8s.io/kubernetes/pkg/quota/v1/evaluator`."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver.builtins.pods.defaults import containers
from ktrain.local.apiserver.builtins.values import amounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.builtins.values.amounts import Amounts

_ONE: Final = Fraction(1)
_PLAIN: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED: Final = frozenset(
    {"configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services"}
)
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_OF_CLASS: Final = ".storageclass.storage.k8s.io/"
REQUIRED: Final = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
"""Who limits these makes every container say how much it wants."""


def usage_of(collection: str, obj: Json) -> Amounts:
    """Return what one object of a collection counts for, by the names that quotas use."""
    usage = {f"count/{collection}": _ONE}
    if collection in _COUNTED:
        usage[collection] = _ONE
    if collection == "pods":
        usage |= _of_pod(obj)
    elif collection == "persistentvolumeclaims":
        usage |= _of_claim(obj["spec"])
    elif collection == "services":
        usage |= _of_service(obj["spec"])
    return usage


def _of_pod(pod: Json) -> Amounts:
    if (pod.get("status") or {}).get("phase") in _FINISHED:
        return {}
    usage = {"pods": _ONE}
    for name, amount in amounts.of_pod(pod["spec"], "requests").items():
        usage[f"requests.{name}"] = amount
        if name in _PLAIN:
            usage[name] = amount
    usage |= {f"limits.{name}": amount for name, amount in amounts.of_pod(pod["spec"], "limits").items()}
    return usage


def _of_claim(spec: Json) -> Amounts:
    size = amounts.read((spec.get("resources") or {}).get("requests")).get("storage", Fraction())
    usage = {"requests.storage": size}
    if name := spec.get("storageClassName"):
        usage |= {f"{name}{_OF_CLASS}requests.storage": size, f"{name}{_OF_CLASS}persistentvolumeclaims": _ONE}
    return usage


def _of_service(spec: Json) -> Amounts:
    kind, ports = spec.get("type"), len(spec.get("ports") or ())
    usage: Amounts = {}
    if kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)):
        usage["services.nodeports"] = Fraction(ports)
    if kind == "LoadBalancer":
        usage["services.loadbalancers"] = _ONE
    return usage


def source_of(name: str) -> str:
    """Return the collection whose objects count for a name."""
    if name.startswith("count/"):
        return name.removeprefix("count/")
    if name == "requests.storage" or _OF_CLASS in name:
        return "persistentvolumeclaims"
    if name.startswith("services"):
        return "services"
    return name if name in _COUNTED else "pods"


def used(quota: Json, backend: Backend) -> Amounts:
    """Return how much of a quota is used now, by counting."""
    hard = quota["spec"].get("hard") or {}
    total = dict.fromkeys(hard, Fraction())
    for collection in {source_of(name) for name in hard}:
        if collection not in backend.store.collections:
            continue
        for _, item in backend.store.collection(collection).entries(quota["metadata"]["namespace"]):
            if in_scope(quota, collection, item.obj):
                for name, amount in usage_of(collection, item.obj).items():
                    if name in total:
                        total[name] += amount
    return total


def in_scope(quota: Json, collection: str, obj: Json) -> bool:
    """Whether a quota is about an object. Scopes select among pods, and nothing else has any."""
    scopes = list(_scopes(quota["spec"]))
    return not scopes or (collection == "pods" and all(_has_scope(obj, *scope) for scope in scopes))


def _scopes(spec: Json) -> Iterator[tuple[str, str, Iterable[str]]]:
    for name in spec.get("scopes") or ():
        yield name, "Exists", ()
    for one in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        yield one["scopeName"], one["operator"], one.get("values") or ()


def _has_scope(pod: Json, name: str, operator: str, values: Iterable[str]) -> bool:
    spec = pod["spec"]
    is_bounded = spec.get("activeDeadlineSeconds") is not None
    asks = any((one.get("resources") or {}).get(part) for one in containers(spec) for part in ("requests", "limits"))
    simple = {
        "Terminating": is_bounded,
        "NotTerminating": not is_bounded,
        "BestEffort": not asks,
        "NotBestEffort": asks,
        "CrossNamespacePodAffinity": _reaches_out(spec.get("affinity") or {}),
    }
    if name in simple:
        return simple[name]
    found = spec.get("priorityClassName", "")
    if operator in {"Exists", "DoesNotExist"}:
        return bool(found) is (operator == "Exists")
    return (found in values) is (operator == "In")


def _reaches_out(affinity: Json) -> bool:
    """Whether a pod's place depends on pods of other namespaces."""
    terms: list[Json] = []
    for field in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(field) or {}
        terms += part.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        preferred = part.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [one.get("podAffinityTerm") or {} for one in preferred]
    return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms)


def missing_of(pod: Json, names: Iterable[str]) -> dict[str, list[str]]:
    """Return, by name, the containers that do not say how much they want of something a quota counts."""
    if (pod["spec"].get("resources") or {}).keys() & {"requests", "limits"}:
        return {}
    found: dict[str, list[str]] = {}
    for name in sorted(REQUIRED & set(names)):
        part, _, resource = name.rpartition(".")
        for container in [*(pod["spec"].get("initContainers") or ()), *(pod["spec"].get("containers") or ())]:
            if resource not in ((container.get("resources") or {}).get(part or "requests") or {}):
                found.setdefault(name, []).append(container.get("name", ""))
    return found
