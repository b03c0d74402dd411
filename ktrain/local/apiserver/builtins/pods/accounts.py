"""
What a new pod gets of its service account: a token of its own, the server's CA, and the account's pull secrets.

Source of the rules: the ServiceAccount admission plugin of Kubernetes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Key
from ktrain.local.apiserver.access.account_tokens import KUBELET_LIFETIME_S
from ktrain.local.apiserver.access.accounts import ACCOUNT, ROOT_CA, ensure_account
from ktrain.local.apiserver.builtins.access.mountable import check_mountable
from ktrain.local.apiserver.errors import forbidden
from ktrain.local.apiserver.metadata import generate_name

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.errors import StatusError

_MIRROR: Final = "kubernetes.io/config.mirror"
MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_VOLUME_PREFIX: Final = "kube-api-access-"
_MODE: Final = 0o644


def admit_account(pod: Json, backend: Backend) -> None:
    """
    Give a pod that is being created what its account brings.

    Raises:
        StatusError: 403: there is no such account, or the pod uses a secret that the account does not allow.
    """
    if _MIRROR in (pod["metadata"].get("annotations") or {}):
        return
    spec = pod["spec"]
    name = spec.get("serviceAccountName") or ACCOUNT
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    if not backend.gate.admits_accounts:
        return
    account = _find(pod, name, backend)
    if problem := check_mountable(spec, account):
        raise _refused(pod, problem, backend)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [dict(secret) for secret in account["imagePullSecrets"]]
    if _mounts_token(spec, account):
        _mount(spec, backend)


def _find(pod: Json, name: str, backend: Backend) -> Json:
    namespace = pod["metadata"].get("namespace", "")
    if name == ACCOUNT:
        # A pod may come before the controller got to its namespace. Upstream waits for that; here it takes no time.
        ensure_account(backend, namespace)
    item = backend.store.collection("serviceaccounts").get(Key(namespace, name))
    if item is None:
        detail = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise _refused(pod, detail, backend)
    return item.obj


def _mounts_token(spec: Json, account: Json) -> bool:
    # The pod's own word counts before the account's.
    for one in (spec, account):
        if one.get("automountServiceAccountToken") is not None:
            return bool(one["automountServiceAccountToken"])
    return True


def _mount(spec: Json, backend: Backend) -> None:
    volumes = spec.setdefault("volumes", [])
    name = next((one["name"] for one in volumes if one.get("name", "").startswith(_VOLUME_PREFIX)), "")
    chosen = name or generate_name(_VOLUME_PREFIX, backend.env.random)
    mounted = False
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        mounts = container.setdefault("volumeMounts", [])
        if not any(mount.get("mountPath") == MOUNT_PATH for mount in mounts):
            mounts.append({"name": chosen, "readOnly": True, "mountPath": MOUNT_PATH})
            mounted = True
    if mounted and not name:
        volumes.append({"name": chosen, "projected": {"sources": _sources(), "defaultMode": _MODE}})
    elif not volumes:
        del spec["volumes"]


def _sources() -> list[Json]:
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return [
        {"serviceAccountToken": {"expirationSeconds": KUBELET_LIFETIME_S, "path": "token"}},
        {"configMap": {"name": ROOT_CA, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
    ]


def _refused(pod: Json, detail: str, backend: Backend) -> StatusError:
    return forbidden(backend.registry.builtin("v1", "Pod"), pod["metadata"].get("name", ""), detail)
