"""The volumes of a pod: their names, and that each has one source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.pods.validation.choices import enumerated
from ktrain.local.apiserver.builtins.pods.validation.volumes import disks
from ktrain.local.apiserver.builtins.pods.validation.volumes.claims import (
    validate_claim_names,
    validate_ephemeral_volume,
)
from ktrain.local.apiserver.builtins.pods.validation.volumes.downward import validate_downward
from ktrain.local.apiserver.builtins.pods.validation.volumes.paths import HOST_TYPES, validate_items, validate_mode
from ktrain.local.apiserver.builtins.pods.validation.volumes.projected import validate_projected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MAX_PORTAL: Final = 64
_PORTAL_TEXT: Final = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is "
    "specified."
)


def validate_volumes(volumes: list[Json], field: str, pod: str | None) -> tuple[dict[str, Json], list[Cause]]:
    """
    Return the volumes that may be used, by name, and what is wrong with the others.

    `pod` is the name of the pod that they belong to, None for those of a template.
    """
    sound: dict[str, Json] = {}
    found: list[Cause] = []
    for index, volume in enumerate(volumes):
        here, name = f"{field}[{index}]", volume.get("name", "")
        wrong = list(_validate_sources(volume, here))
        if pod is not None and volume.keys() - {"name"} == {"image"}:
            wrong += disks.needing("reference")(volume["image"], f"{here}.image")
        if name:
            wrong += [causes.invalid(f"{here}.name", name, text) for text in names.label(name)]
        else:
            wrong.append(causes.required(f"{here}.name"))
        if name in sound:
            wrong.append(causes.duplicate(f"{here}.name", name))
        if wrong:
            found += wrong
        else:
            sound[name] = volume
    if pod:
        found += validate_claim_names(volumes, pod, field)
    return sound, found


def _validate_sources(volume: Json, field: str) -> Iterator[Cause]:
    given = [kind for kind in volume if kind in _SOURCES]
    if len(given) > 1:
        given = [kind for kind in _SOURCES if kind in volume]
    if not given:
        yield causes.required(field, "must specify a volume type")
        return
    first, *others = given
    yield from _SOURCES[first](volume[first], f"{field}.{_CHECKED_AS.get(first, first)}")
    for kind in others:
        yield causes.forbidden(f"{field}.{_REFUSED_AS.get(kind, kind)}", "may not specify more than 1 volume type")
    if "initiatorName" in (disk := volume.get("iscsi", {})):
        name = volume.get("name", "")
        if len(f"{name}:{disk.get('targetPortal', '')}") > _MAX_PORTAL:
            yield causes.invalid(f"{field}.name", name, _PORTAL_TEXT)


def _validate_empty_dir(source: Json, field: str) -> Iterator[Cause]:
    if "sizeLimit" in source and quantity.parse(source["sizeLimit"]) < 0:
        yield causes.forbidden(f"{field}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _validate_host_path(source: Json, field: str) -> Iterator[Cause]:
    path = source.get("path", "")
    if not path:
        yield causes.required(f"{field}.path")
        return
    if ".." in path.split("/"):
        yield causes.invalid(f"{field}.path", path, "must not contain '..'")
    yield from enumerated(source, "type", HOST_TYPES, field)


def _validate_git(source: Json, field: str) -> Iterator[Cause]:
    yield from disks.needing("repository")(source, field)
    directory = source.get("directory", "")
    for text in names.descending_path(directory):
        yield causes.invalid(f"{field}.directory", directory, text)


def _validate_secret(source: Json, field: str) -> Iterator[Cause]:
    yield from disks.needing("secretName")(source, field)
    yield from validate_mode(source, "defaultMode", field)
    yield from validate_items(source.get("items", ()), f"{field}.items")


def _validate_config_map(source: Json, field: str) -> Iterator[Cause]:
    yield from disks.needing("name")(source, field)
    yield from validate_mode(source, "defaultMode", field)
    yield from validate_items(source.get("items", ()), f"{field}.items")


def _validate_image(source: Json, field: str) -> Iterator[Cause]:
    yield from enumerated(source, "pullPolicy", _PULL_POLICIES, field)


_SOURCES: Final[dict[str, disks.Validator]] = {
    "emptyDir": _validate_empty_dir,
    "hostPath": _validate_host_path,
    "gitRepo": _validate_git,
    "gcePersistentDisk": disks.partitioned("pdName"),
    "awsElasticBlockStore": disks.partitioned("volumeID"),
    "secret": _validate_secret,
    "nfs": disks.validate_nfs,
    "iscsi": disks.validate_iscsi,
    "glusterfs": disks.needing("endpoints", "path"),
    "flocker": disks.validate_flocker,
    "persistentVolumeClaim": disks.needing("claimName"),
    "rbd": disks.needing("monitors", "image"),
    "cinder": disks.validate_cinder,
    "cephfs": disks.needing("monitors"),
    "quobyte": disks.validate_quobyte,
    "downwardAPI": validate_downward,
    "fc": disks.validate_fc,
    "flexVolume": disks.validate_flex,
    "configMap": _validate_config_map,
    "azureFile": disks.needing("secretName", "shareName"),
    "vsphereVolume": disks.needing("volumePath"),
    "photonPersistentDisk": disks.needing("pdID"),
    "portworxVolume": disks.needing("volumeID"),
    "azureDisk": disks.validate_azure_disk,
    "storageos": disks.validate_storageos,
    "projected": validate_projected,
    "scaleIO": disks.needing("gateway", "system", "volumeName"),
    "csi": disks.validate_csi,
    "ephemeral": validate_ephemeral_volume,
    "image": _validate_image,
}
"""In upstream's order: of several sources the first is checked, and the others are told of."""
_CHECKED_AS: Final = {"gcePersistentDisk": "persistentDisk"}
_REFUSED_AS: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
