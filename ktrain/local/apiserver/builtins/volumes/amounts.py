"""What volumes and claims share: sizes, access modes, and the annotation that once named their class."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.local.apiserver import causes, names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
NOT_POSITIVE: Final = "must be greater than zero"
_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES: Final = ("Block", "Filesystem")


def validate_modes(spec: Json, field: str, missing: str = "") -> Iterator[Cause]:
    """Yield what is wrong with how a volume is accessed: as files or as a device, and by how many."""
    modes = spec.get("accessModes") or []
    if not modes:
        yield causes.required(f"{field}.accessModes", missing)
    for mode in modes:
        if mode not in _MODES:
            yield causes.not_supported(f"{field}.accessModes", mode, _MODES)
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        detail = "may not use ReadWriteOncePod with other access modes"
        yield causes.forbidden(f"{field}.accessModes", detail)
    if (mode := spec.get("volumeMode")) is not None and mode not in _VOLUME_MODES:
        yield causes.not_supported(f"{field}.volumeMode", mode, _VOLUME_MODES)


def validate_class(name: str | None, field: str) -> Iterator[Cause]:
    """Yield what is wrong with the name of a class; the empty one is no class at all."""
    if name:
        yield from (causes.invalid(field, name, text) for text in names.subdomain(name))


def amount(size: object) -> Fraction:
    """Return a quantity as a number, which may be larger than floats go; -1 for what is none."""
    try:
        return quantity.parse(size if isinstance(size, str | float | int) else "")
    except ValueError:
        return Fraction(-1)


def class_warnings(obj: Json) -> Iterator[str]:
    """Yield the warning of a class that is named in the old way."""
    if CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {}):
        yield (
            f'metadata.annotations[{CLASS_ANNOTATION}]: deprecated since v1.8; use "storageClassName" attribute instead'
        )
