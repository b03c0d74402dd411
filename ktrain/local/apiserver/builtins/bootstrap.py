"""What a fresh cluster has: namespaces with their accounts, the system's priority classes, everybody's roles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Key
from ktrain.local.apiserver.access import default_roles
from ktrain.local.apiserver.access.accounts import ensure_account
from ktrain.local.apiserver.access.rbac import GROUP
from ktrain.local.apiserver.storage.founding import found

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend

_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_RBAC: Final = f"{GROUP}/v1"


def bootstrap(backend: Backend) -> None:
    """Fill in what is missing."""
    for name in _NAMESPACES:
        labels = {"kubernetes.io/metadata.name": name}
        namespace: Json = {"metadata": {"labels": labels}, "spec": {"finalizers": ["kubernetes"]}}
        _ensure(backend, "v1", "Namespace", Key("", name), {**namespace, "status": {"phase": "Active"}})
        ensure_account(backend, name)
    for name, value in _PRIORITIES.items():
        body: Json = {"value": value, "preemptionPolicy": "PreemptLowerPriority"}
        _ensure(backend, "scheduling.k8s.io/v1", "PriorityClass", Key("", name), body)
    for kind, objects in (
        ("ClusterRole", default_roles.cluster_roles()),
        ("ClusterRoleBinding", default_roles.cluster_role_bindings()),
    ):
        for obj in objects:
            _ensure(backend, _RBAC, kind, Key("", obj["metadata"]["name"]), obj)


def _ensure(backend: Backend, api_version: str, kind: str, key: Key, body: Json) -> None:
    """Found an object, unless it is there from an earlier life of the server."""
    if backend.collection(backend.registry.builtin(api_version, kind)).get(key) is None:
        found(backend, api_version, kind, key, body)
