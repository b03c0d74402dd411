"""Files that tell a pod about itself (the downward API)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins.pods.validation.env import validate_field_ref, validate_resource_ref
from ktrain.local.apiserver.builtins.pods.validation.volumes.paths import validate_mode, validate_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)


def validate_downward(source: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a volume of such files."""
    yield from validate_mode(source, "defaultMode", field)
    for item in source.get("items", ()):
        yield from validate_told(item, field)


def validate_told(item: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with one of the files of the source at `field`; which one, upstream does not tell."""
    path = item.get("path", "")
    if not path:
        yield causes.required(f"{field}.path")
    yield from validate_path(path, f"{field}.path")
    told, used = item.get("fieldRef"), item.get("resourceFieldRef")
    if told is not None:
        yield from validate_field_ref(told, f"{field}.fieldRef", _FIELDS)
        if used is not None:
            yield causes.invalid(field, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif used is not None:
        yield from _validate_used(used, f"{field}.resourceFieldRef")
    else:
        yield causes.required(field, "one of fieldRef and resourceFieldRef is required")
    yield from validate_mode(item, "mode", field)


def _validate_used(ref: Json, field: str) -> Iterator[Cause]:
    found = validate_resource_ref(ref, field)
    if ref.get("containerName"):
        yield from found
        return
    yield causes.required(f"{field}.containerName")
    yield from (cause for cause in found if cause.field == f"{field}.divisor")
