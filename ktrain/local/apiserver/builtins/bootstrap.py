"""What a fresh cluster has: its namespaces, their default accounts, and the system's priority classes."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Key, format_time

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend

_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def bootstrap(backend: Backend) -> None:
    """Fill in what is missing."""
    for name in _NAMESPACES:
        spec = {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        _put(backend, "v1", "Namespace", Key("", name), spec, labels={"kubernetes.io/metadata.name": name})
        _put(backend, "v1", "ServiceAccount", Key(name, "default"), {})
    for name, value in _PRIORITIES.items():
        body: Json = {"value": value, "preemptionPolicy": "PreemptLowerPriority"}
        _put(backend, "scheduling.k8s.io/v1", "PriorityClass", Key("", name), body)


def put_default_account(backend: Backend, namespace: str) -> None:
    """Give a namespace the account that its pods run as."""
    _put(backend, "v1", "ServiceAccount", Key(namespace, "default"), {})


def _put(
    backend: Backend, api_version: str, kind: str, key: Key, body: Json, *, labels: dict[str, str] | None = None
) -> None:
    resource = backend.registry.builtin(api_version, kind)
    if backend.collection(resource).get(key) is not None:
        return  # from an earlier life of the server
    metadata: Json = {"name": key.name}
    if key.namespace:
        metadata["namespace"] = key.namespace
    metadata["uid"] = str(uuid.UUID(int=backend.env.random.getrandbits(128), version=4))
    metadata["creationTimestamp"] = format_time(backend.now())
    if resource.strategy.has_generation:
        metadata["generation"] = 1
    if labels:
        metadata["labels"] = labels
    obj = {"kind": kind, "apiVersion": api_version, "metadata": metadata, **body}
    backend.store.put(resource.collection, key, obj, expected=0, schema=resource.schema)
