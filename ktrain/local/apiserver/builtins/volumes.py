"""PersistentVolumeClaims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.local.apiserver import causes
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend

PROTECTION: Final = "kubernetes.io/pvc-protection"
_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_IMMUTABLE: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


class ClaimStrategy(Strategy):
    """PersistentVolumeClaims. Nothing here protects claims in use: no finalizer is added that nobody would remove."""

    has_generation = False
    answers_deleted_object = True

    def default(self, obj: Json) -> None:
        """Fill in the volume mode; write the size canonically."""
        spec = obj.get("spec")
        if not isinstance(spec, dict):
            return
        spec.setdefault("volumeMode", "Filesystem")
        requests = (spec.get("resources") or {}).get("requests") or {}
        for name, amount in requests.items():
            try:
                requests[name] = quantity.canonical(amount)
            except ValueError:
                continue  # validation names the field

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Start unbound."""
        del backend
        obj["status"] = {"phase": "Pending"}

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check modes and size."""
        spec = obj.get("spec") or {}
        modes = spec.get("accessModes") or []
        found = [] if modes else [causes.required("spec.accessModes", "at least 1 access mode is required")]
        found += [causes.not_supported("spec.accessModes", mode, _MODES) for mode in modes if mode not in _MODES]
        size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
        if size is None:
            found.append(causes.required("spec.resources[storage]"))
        elif _amount(size) <= 0:
            found.append(causes.invalid("spec.resources[storage]", size, "must be greater than zero"))
        return found

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """A claim may be bound to a volume, and grow once it is bound."""
        spec, before = dict(obj.get("spec") or {}), dict(old.get("spec") or {})
        if not before.get("volumeName"):
            spec.pop("volumeName", None)
            before.pop("volumeName", None)
        elif old.get("status", {}).get("phase") == "Bound":
            spec["resources"] = before["resources"] = None
        return () if spec == before else [causes.forbidden("spec", _IMMUTABLE)]


def _amount(size: object) -> float:
    try:
        return float(quantity.parse(size if isinstance(size, str | float | int) else ""))
    except ValueError:
        return -1.0
