"""Defaults of volumes in pods and templates, filled in in place; what belongs to a closed feature gate is dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ktrain.local.apiserver.builtins.pods.images import pull_policy
from ktrain.local.apiserver.builtins.values.amounts import canonicalise
from ktrain.local.apiserver.builtins.volumes.claim_specs import default_claim

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ktrain.api.meta import Json

_MODE: Final = {"defaultMode": 0o644}
_FILLED: Final[dict[str, dict[str, Any]]] = {
    "secret": _MODE,
    "configMap": _MODE,
    "downwardAPI": _MODE,
    "projected": _MODE,
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default", "lun": 0},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs", "secretRef": None},
}
_GATED_SOURCES: Final = ("clusterTrustBundle", "podCertificate")
"""Sources of projected volumes whose feature gates are closed by default in Kubernetes 1.36."""
_TOKEN_S: Final = 3600


def default_volume(volume: Json) -> None:
    """Fill in a volume; one without a source is an empty directory."""
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    for kind, source in volume.items():
        for name, value in _FILLED.get(kind, {}).items():
            source.setdefault(name, value)
    if "projected" in volume:
        # Typed clients always send the list, null if it is empty.
        volume["projected"]["sources"] = volume["projected"].get("sources") or None
        _default_sources(volume["projected"]["sources"] or ())
    if "downwardAPI" in volume:
        _default_told(volume["downwardAPI"].get("items", ()))
    if (template := volume.get("ephemeral", {}).get("volumeClaimTemplate")) is not None:
        template.setdefault("metadata", {})
        template.setdefault("spec", {})
        default_claim(template)
    if "image" in volume:
        volume["image"].setdefault("pullPolicy", pull_policy(volume["image"].get("reference", "")))
    canonicalise(volume.get("emptyDir", {}), "sizeLimit")


def _default_sources(sources: Iterable[Json]) -> None:
    for source in sources:
        for name in _GATED_SOURCES:
            source.pop(name, None)
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_S)
        if "downwardAPI" in source:
            _default_told(source["downwardAPI"].get("items", ()))


def _default_told(items: Iterable[Json]) -> None:
    for item in items:
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")
        if "resourceFieldRef" in item:
            item["resourceFieldRef"].setdefault("divisor", "0")
            canonicalise(item["resourceFieldRef"], "divisor")
