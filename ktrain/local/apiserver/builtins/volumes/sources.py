"""Where a PersistentVolume's data is: what each kind of source requires, fills in and warns of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.pods.validation.volumes import disks
from ktrain.local.apiserver.builtins.pods.validation.volumes.paths import HOST_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_REQUIRED: Final[dict[str, tuple[str, ...]]] = {  # for some, what `_FURTHER` has asks for it
    "awsElasticBlockStore": ("volumeID",),
    "azureDisk": (),
    "azureFile": ("secretName", "shareName"),
    "cephfs": ("monitors",),
    "cinder": ("volumeID",),
    "csi": ("driver", "volumeHandle"),
    "fc": (),
    "flexVolume": ("driver",),
    "flocker": (),
    "gcePersistentDisk": ("pdName",),
    "glusterfs": ("endpoints", "path"),
    "hostPath": ("path",),
    "iscsi": ("targetPortal", "iqn"),
    "local": ("path",),
    "nfs": (),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "quobyte": (),
    "rbd": ("monitors", "image"),
    "scaleIO": ("gateway", "system", "volumeName"),
    "storageos": ("volumeName",),
    "vsphereVolume": ("volumePath",),
}
SOURCES: Final = frozenset(_REQUIRED)
_SHOWN: Final = {"gcePersistentDisk": "persistentDisk"}
"""What upstream's messages call a source, where that is not its name."""
_MOUNTABLE: Final = frozenset(
    {
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "csi",
        "gcePersistentDisk",
        "glusterfs",
        "iscsi",
        "nfs",
        "quobyte",
        "rbd",
        "storageos",
        "vsphereVolume",
    }
)
_MOUNT_OPTIONS: Final = "volume.beta.kubernetes.io/mount-options"
_GONE: Final = {
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
}
_SECRETS: Final = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
    "nodeStageSecretRef",
)
_IQN: Final = re.compile(r"iqn\.\d{4}-\d\d\.([\w.-]+)(:[^,;*&$|\s]+)|eui\.\w{16}|naa\.\w{32}")
_DRIVER_LIMIT: Final = 63
_LUN_TEXT: Final = "must be between 0 and 255, inclusive"


def default_source(spec: Json) -> None:
    """Fill in what typed encoding always writes."""
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")
    if "azureFile" in spec:
        spec["azureFile"].setdefault("secretNamespace", None)


def validate_source(volume: Json) -> Iterator[Cause]:
    """Yield what is wrong with where the data is; there is exactly one such place."""
    spec = volume["spec"]
    sources = [name for name in spec if name in SOURCES]
    if not sources:
        yield causes.required("spec", "must specify a volume type")
    for name in sources[1:]:
        yield causes.forbidden(f"spec.{name}", "may not specify more than 1 volume type")
    for name in sources[:1]:
        source, field = spec[name], f"spec.{_SHOWN.get(name, name)}"
        for required in _REQUIRED[name]:
            if not source.get(required):
                yield causes.required(f"{field}.{required}")
        if name in _FURTHER:
            yield from _FURTHER[name](source, field)
    if _MOUNT_OPTIONS in (volume["metadata"].get("annotations") or {}) and not _MOUNTABLE & set(sources):
        detail = "may not specify mount options for this volume type"
        yield causes.forbidden(f"metadata.annotations.{_MOUNT_OPTIONS}", detail)
    if "local" in sources and "nodeAffinity" not in spec:
        yield causes.required("spec.nodeAffinity", "Local volume requires node affinity")


def source_warnings(spec: Json) -> Iterator[str]:
    """Yield which sources no kubelet mounts any more."""
    for name in sorted(_GONE.keys() & spec.keys()):
        yield f"spec.{name}: {_GONE[name]}"


def _validate_host_path(source: Json, field: str) -> Iterator[Cause]:
    yield from _validate_no_way_back(source, field)
    if (kind := source.get("type") or "") not in HOST_TYPES:
        yield causes.not_supported(f"{field}.type", kind, HOST_TYPES)


def _validate_no_way_back(source: Json, field: str) -> Iterator[Cause]:
    if ".." in (path := source.get("path", "")).split("/"):
        yield causes.invalid(f"{field}.path", path, "must not contain '..'")


def _validate_iscsi(source: Json, field: str) -> Iterator[Cause]:
    if (iqn := source.get("iqn")) and not _IQN.fullmatch(iqn):
        yield causes.invalid(f"{field}.iqn", iqn, "must be valid format")
    if not 0 <= (lun := source.get("lun", 0)) <= 255:
        yield causes.invalid(f"{field}.lun", lun, _LUN_TEXT)


def _validate_csi(source: Json, field: str) -> Iterator[Cause]:
    driver = source.get("driver", "")
    if len(driver) > _DRIVER_LIMIT:
        yield causes.too_long(f"{field}.driver", _DRIVER_LIMIT)
    for text in names.subdomain(driver.lower()) if driver else ():
        yield causes.invalid(f"{field}.driver", driver, text)
    for name in _SECRETS:
        if (secret := source.get(name)) is not None:
            for part in ("name", "namespace"):
                if not secret.get(part):
                    yield causes.required(f"{field}.{name}.{part}")


_FURTHER: Final[dict[str, Callable[[Json, str], Iterator[Cause]]]] = {
    "azureDisk": disks.validate_azure_disk,
    "csi": _validate_csi,
    "fc": disks.validate_fc,
    "flocker": disks.validate_flocker,
    "hostPath": _validate_host_path,
    "iscsi": _validate_iscsi,
    "local": _validate_no_way_back,
    "nfs": disks.validate_nfs,
    "quobyte": disks.validate_quobyte,
}
