"""Accounts whose pods may use only the secrets that the account names (annotation `enforce-mountable-secrets`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver.access.quoting import quote
from ktrain.local.apiserver.builtins.pods.defaults import containers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json

_ENFORCED: Final = "kubernetes.io/enforce-mountable-secrets"
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})


def check_mountable(spec: Json, account: Json) -> str:
    """Return what is wrong with the secrets that a pod uses, empty if nothing is."""
    meta = account["metadata"]
    if (meta.get("annotations") or {}).get(_ENFORCED) not in _TRUE:
        return ""
    allowed = {secret.get("name") for secret in account.get("secrets") or ()}
    for name, use in _uses(spec):
        if name not in allowed:
            reason = f"service account {meta['name']} does not reference that secret"
            return f"{use} secret.secretName={quote(name)} is not allowed because {reason}"
    pulled = {secret.get("name") for secret in account.get("imagePullSecrets") or ()}
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        name = secret.get("name", "")
        if name not in pulled:
            reason = f"service account {meta['name']} does not reference that imagePullSecret"
            return f"imagePullSecrets[{index}].name={quote(name)} is not allowed because {reason}"
    return ""


def _uses(spec: Json) -> Iterator[tuple[str, str]]:
    """Give the secrets that volumes and environments name, and how."""
    for volume in spec.get("volumes") or ():
        if volume.get("secret"):
            yield volume["secret"].get("secretName", ""), "volume with"
    for container in containers(spec):
        for variable in container.get("env") or ():
            reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if reference:
                use = f"container {container['name']} with envVar {variable['name']} referencing"
                yield reference.get("name", ""), use
        for source in container.get("envFrom") or ():
            if source.get("secretRef"):
                yield source["secretRef"].get("name", ""), f"container {container['name']} with envFrom referencing"
