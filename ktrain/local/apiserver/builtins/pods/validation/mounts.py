"""Volume mounts of containers, in the API server's words. Upstream leaves the index out of several fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIONS: Final = ("Disabled", "Enabled", "IfPossible")


def validate_mounts(container: Json, field: str, volumes: Mapping[str, Json]) -> Iterator[Cause]:
    """Yield what is wrong with the mounts of a container in a pod with these volumes."""
    devices = {device.get("name", ""): device.get("devicePath", "") for device in container.get("volumeDevices", ())}
    device_paths = set(devices.values())
    paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", ())):
        here, name, path = f"{field}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield causes.required(f"{here}.name")
        if name not in volumes:
            yield causes.missing_reference(f"{here}.name", name)
        if not path:
            yield causes.required(f"{here}.mountPath")
        if path in paths:
            yield causes.invalid(f"{here}.mountPath", path, "must be unique")
        paths.add(path)
        if name in devices:
            yield causes.invalid(f"{here}.name", name, "must not already exist in volumeDevices")
        if path in device_paths:
            yield causes.invalid(f"{here}.mountPath", path, "must not already exist as a path in volumeDevices")
        yield from _validate_inside(mount, field, here)
        if (propagation := mount.get("mountPropagation")) is not None:
            yield from _validate_propagation(propagation, container, f"{field}.mountPropagation")
        if (recursion := mount.get("recursiveReadOnly")) is not None:
            yield from _validate_recursion(recursion, mount, f"{field}.recursiveReadOnly")


def _validate_inside(mount: Json, field: str, here: str) -> Iterator[Cause]:
    for text in names.descending_path(mount.get("subPath", "")):
        yield causes.invalid(f"{field}.subPath", mount["subPath"], text)
    if expression := mount.get("subPathExpr"):
        if mount.get("subPath"):
            yield causes.invalid(f"{here}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive")
        for text in names.descending_path(expression):
            yield causes.invalid(f"{field}.subPathExpr", expression, text)


def _validate_propagation(propagation: str, container: Json, field: str) -> Iterator[Cause]:
    if propagation not in _PROPAGATIONS:
        yield causes.not_supported(field, propagation, _PROPAGATIONS)
    if propagation == "Bidirectional" and not container.get("securityContext", {}).get("privileged"):
        detail = "Bidirectional mount propagation is available only to privileged containers"
        yield causes.forbidden(field, detail)


def _validate_recursion(recursion: str, mount: Json, field: str) -> Iterator[Cause]:
    if recursion not in _RECURSIONS:
        yield causes.not_supported(field, recursion, _RECURSIONS)
    elif recursion != "Disabled":
        if not mount.get("readOnly"):
            yield causes.forbidden(field, "may only be specified when readOnly is true")
        if mount.get("mountPropagation", "None") != "None":
            yield causes.forbidden(field, "may only be specified when mountPropagation is None or not specified")
