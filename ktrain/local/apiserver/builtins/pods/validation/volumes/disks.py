"""Volumes that are disks and file systems of a network or a cloud."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.pods.validation.choices import enumerated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

    Validator = Callable[[Json, str], Iterator[Cause]]

_MAX_LUN: Final = 255
_LUN_TEXT: Final = "must be between 0 and 255, inclusive"
_PARTITION_TEXT: Final = "must be between 1 and 255, inclusive"
_INITIATORS: Final = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.[0-9A-Za-z.-]+:[^,;*&$|\s]+\Z", re.ASCII),
    "eui": re.compile(r"eui.[0-9A-Za-z]{16}\Z"),
    "naa": re.compile(r"naa.[0-9A-Za-z]{32}\Z"),
}
_HOST_PORT: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*")
_MAX_TENANT: Final = 64
_MAX_DRIVER: Final = 63
_RESERVED: Final = (".kubernetes.io", ".k8s.io")
_CACHING: Final = ("None", "ReadOnly", "ReadWrite")
_DISK_KINDS: Final = ("Dedicated", "Managed", "Shared")
_MANAGED_URI: Final = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB_URI: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def needing(*required: str) -> Validator:
    """Make the check of a source of which only some fields must be there."""

    def validate(source: Json, field: str) -> Iterator[Cause]:
        yield from (causes.required(f"{field}.{name}") for name in required if not source.get(name))

    return validate


def partitioned(name: str) -> Validator:
    """Make the check of a disk, named in a field, of which one partition is used."""

    def validate(disk: Json, field: str) -> Iterator[Cause]:
        yield from needing(name)(disk, field)
        if not 0 <= (partition := disk.get("partition", 0)) <= 255:
            yield causes.invalid(f"{field}.partition", partition, _PARTITION_TEXT)

    return validate


def validate_nfs(share: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with an NFS share."""
    yield from needing("server", "path")(share, field)
    if not (path := share.get("path", "")).startswith("/"):
        yield causes.invalid(f"{field}.path", path, "must be an absolute path")


def validate_iscsi(disk: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with an iSCSI disk."""
    yield from needing("targetPortal", "iqn")(disk, field)
    if iqn := disk.get("iqn"):
        yield from _validate_initiator(iqn, f"{field}.iqn")
    if not 0 <= (lun := disk.get("lun", 0)) <= _MAX_LUN:
        yield causes.invalid(f"{field}.lun", lun, _LUN_TEXT)
    if (disk.get("chapAuthDiscovery") or disk.get("chapAuthSession")) and "secretRef" not in disk:
        yield causes.required(f"{field}.secretRef")
    if (initiator := disk.get("initiatorName")) is not None:
        yield from _validate_initiator(initiator, f"{field}.initiatorname")


def _validate_initiator(name: str, field: str) -> Iterator[Cause]:
    form = _INITIATORS.get(name[:3])
    if form is None:
        yield causes.invalid(field, name, "must be valid format starting with iqn, eui, or naa")
    elif not form.match(name):
        yield causes.invalid(field, name, "must be valid format")


def validate_flocker(source: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a Flocker dataset."""
    name, uid = source.get("datasetName", ""), source.get("datasetUUID", "")
    if not name and not uid:
        yield causes.required(field, "one of datasetName and datasetUUID is required")
    if name and uid:
        detail = "datasetName and datasetUUID can not be specified simultaneously"
        yield causes.invalid(field, "resource", detail)
    if "/" in name:
        yield causes.invalid(f"{field}.datasetName", name, "must not contain '/'")


def validate_cinder(disk: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a Cinder disk."""
    yield from needing("volumeID")(disk, field)
    yield from _validate_secret(disk, field)


def _validate_secret(source: Json, field: str) -> Iterator[Cause]:
    if "secretRef" in source and not source["secretRef"].get("name"):
        yield causes.required(f"{field}.secretRef.name")


def validate_quobyte(share: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a Quobyte volume."""
    registry = share.get("registry", "")
    detail = "must be a host:port pair or multiple pairs separated by commas"
    if not registry:
        yield causes.required(f"{field}.registry", detail)
    elif len(share.get("tenant", "")) > _MAX_TENANT:
        yield causes.required(f"{field}.tenant", "must be a UUID and may not exceed a length of 64 characters")
    else:
        for pair in registry.split(","):
            if not _HOST_PORT.fullmatch(pair):
                yield causes.invalid(f"{field}.registry", registry, detail)
    yield from needing("volume")(share, field)


def validate_fc(disk: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a Fibre Channel disk."""
    targets, ids = disk.get("targetWWNs", []), disk.get("wwids", [])
    if not targets and not ids:
        yield causes.required(f"{field}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if targets and ids:
        detail = "targetWWNs and wwids can not be specified simultaneously"
        yield causes.invalid(f"{field}.targetWWNs", targets, detail)
    if targets and "lun" not in disk:
        yield causes.required(f"{field}.lun", "lun is required if targetWWNs is specified")
    elif targets and not 0 <= disk["lun"] <= _MAX_LUN:
        yield causes.invalid(f"{field}.lun", disk["lun"], _LUN_TEXT)


def validate_flex(source: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a FlexVolume, whose options have names beside Kubernetes' own."""
    yield from needing("driver")(source, field)
    for name in source.get("options", {}):
        if f".{name.partition('/')[0].lower()}".endswith(_RESERVED):
            detail = "kubernetes.io and k8s.io namespaces are reserved"
            yield causes.invalid(f"{field}.options[{name}]", name, detail)


def validate_azure_disk(disk: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with an Azure disk."""
    yield from needing("diskName", "diskURI")(disk, field)
    yield from enumerated(disk, "cachingMode", _CACHING, field)
    yield from enumerated(disk, "kind", _DISK_KINDS, field)
    kind, uri = disk.get("kind"), disk.get("diskURI", "")
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        yield causes.not_supported(f"{field}.diskURI", uri, [_MANAGED_URI])
    elif kind not in {None, "Managed"} and not uri.startswith("https://"):
        yield causes.not_supported(f"{field}.diskURI", uri, [_BLOB_URI])


def validate_storageos(source: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a StorageOS volume."""
    yield from needing("volumeName")(source, field)
    for name in ("volumeName", "volumeNamespace"):
        if value := source.get(name):
            yield from (causes.invalid(f"{field}.{name}", value, text) for text in names.label(value))
    yield from _validate_secret(source, field)


def validate_csi(source: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a volume that a CSI driver makes."""
    if driver := source.get("driver"):
        if len(driver) > _MAX_DRIVER:
            yield causes.too_long(f"{field}.driver", _MAX_DRIVER)
        yield from (causes.invalid(f"{field}.driver", driver, text) for text in names.subdomain(driver.lower()))
    else:
        yield causes.required(f"{field}.driver")
    if (secret := source.get("nodePublishSecretRef")) is None:
        return
    if name := secret.get("name"):
        # Upstream leaves out what the name is of.
        yield from (causes.invalid(f"{field}.name", name, text) for text in names.subdomain(name))
    else:
        yield causes.required(f"{field}.nodePublishSecretRef.name")
