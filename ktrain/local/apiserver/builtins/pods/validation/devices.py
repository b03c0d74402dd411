"""Block devices of containers, in the API server's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.local.apiserver import causes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause


def validate_devices(container: Json, field: str, volumes: Mapping[str, Json]) -> Iterator[Cause]:
    """Yield what is wrong with the devices of a container in a pod with these volumes."""
    mounts = {mount.get("name", ""): mount.get("mountPath", "") for mount in container.get("volumeMounts", ())}
    mount_paths = set(mounts.values())
    seen: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices", ())):
        here, name, path = f"{field}[{index}]", device.get("name", ""), device.get("devicePath", "")
        yield from _validate_name(name, f"{here}.name", volumes)
        if name in seen:
            yield causes.invalid(f"{here}.name", name, "must be unique")
        if name:
            seen.add(name)
        if not path:
            yield causes.required(f"{here}.devicePath")
        if path in paths:
            yield causes.invalid(f"{here}.devicePath", path, "must be unique")
        if ".." in path.split("/"):
            yield causes.invalid(f"{here}.devicePath", path, "can not contain backsteps ('..')")
        else:
            paths.add(path)
        if name in mounts:
            yield causes.invalid(f"{here}.name", name, "must not already exist in volumeMounts")
        if path in mount_paths:
            yield causes.invalid(f"{here}.devicePath", path, "must not already exist as a path in volumeMounts")


def _validate_name(name: str, field: str, volumes: Mapping[str, Json]) -> Iterator[Cause]:
    if not name:
        yield causes.required(field)
    if name not in volumes:
        yield causes.missing_reference(field, name)
    elif not {"persistentVolumeClaim", "ephemeral"} & volumes[name].keys():
        detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        yield causes.invalid(field, name, detail)
