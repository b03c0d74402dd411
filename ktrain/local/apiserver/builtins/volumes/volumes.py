"""PersistentVolumes and StorageClasses. Nothing here makes or binds volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.meta import format_time
from ktrain.api.selectors import label_key_errors
from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.values.amounts import canonicalise
from ktrain.local.apiserver.builtins.values.node_selectors import validate_node_selector
from ktrain.local.apiserver.builtins.volumes.amounts import (
    NOT_POSITIVE,
    amount,
    class_warnings,
    validate_class,
    validate_modes,
)
from ktrain.local.apiserver.builtins.volumes.sources import SOURCES, default_source, source_warnings, validate_source
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend

PROTECTION: Final = "kubernetes.io/pv-protection"
_RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
_BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_MANY_PARAMETERS: Final = 512
_PARAMETERS_LIMIT: Final = 256 * 1024
_MOVED: Final = "spec.persistentvolumesource is immutable after creation"


class VolumeStrategy(Strategy):
    """PersistentVolumes: made by hand, or by a driver that is not here. One in use stays (`controllers.protection`)."""

    has_generation = False
    answers_deleted_object = True

    def default(self, obj: Json) -> None:
        """Fill in what becomes of the volume."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        default_source(spec)
        canonicalise(spec.get("capacity") or {})
        obj["status"] = {"phase": "Pending", **obj.get("status", {})}

    def admit(self, obj: Json, old: Json | None, backend: Backend) -> None:
        """Protect it."""
        meta = obj["metadata"]
        if old is None and PROTECTION not in meta.get("finalizers", ()):
            meta["finalizers"] = [*meta.get("finalizers", ()), PROTECTION]

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Start unbound."""
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": format_time(backend.now())}

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check size, modes, source and reach."""
        spec = obj.get("spec") or {}
        found = list(validate_modes(spec, "spec"))
        capacity = spec.get("capacity") or {}
        if not capacity:
            found.append(causes.required("spec.capacity"))
        if list(capacity) != ["storage"]:
            shown = dict(sorted(capacity.items())) if "capacity" in spec else None
            found.append(causes.not_supported("spec.capacity", shown, ["storage"]))
        elif (size := amount(capacity["storage"])) <= 0:
            found.append(causes.invalid("spec.capacity[storage]", capacity["storage"], NOT_POSITIVE))
            if size < 0:
                found.append(_no_amount("spec.capacity[storage]", size))
        found += validate_source(obj)
        if (policy := spec.get("persistentVolumeReclaimPolicy")) not in _RECLAIM_POLICIES:
            found.append(causes.not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES))
        if policy == "Recycle" and (spec.get("hostPath") or {}).get("path") == "/":
            detail = "may not be 'recycle' for a hostPath mount of '/'"
            found.append(causes.forbidden("spec.persistentVolumeReclaimPolicy", detail))
        found += validate_class(spec.get("storageClassName"), "spec.storageClassName")
        return [*found, *_validate_reach(spec), *_validate_attributes(spec)]

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Where the data is stays."""
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        found = [causes.forbidden("spec.persistentvolumesource", _MOVED)] if _where(spec) != _where(before) else []
        if (mode := spec.get("volumeMode")) != before.get("volumeMode"):
            found.append(causes.invalid("volumeMode", mode, causes.IMMUTABLE))
        reach = spec.get("nodeAffinity")
        if before.get("nodeAffinity") is not None and reach != before["nodeAffinity"]:
            detail = "field is immutable, except for updating from beta label to GA"
            found.append(causes.invalid("nodeAffinity", reach, detail))
        return found

    def warn(self, obj: Json) -> Sequence[str]:
        """Say what is deprecated."""
        spec = obj["spec"]
        found = [*class_warnings(obj), *source_warnings(spec)]
        if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
            found.append(
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the "
                "recommended approach is to use dynamic provisioning."
            )
        return found


class StorageClassStrategy(Strategy):
    """StorageClasses."""

    has_generation = False
    answers_deleted_object = True

    def default(self, obj: Json) -> None:
        """Fill in when volumes are made, and what becomes of them."""
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check the provisioner and the policies."""
        provisioner = obj.get("provisioner", "")
        found = [] if provisioner else [causes.required("provisioner")]
        if provisioner:
            found += [
                causes.invalid("provisioner", provisioner, text) for text in label_key_errors(provisioner.lower())
            ]
        if obj.get("reclaimPolicy") not in {"", "Delete", "Retain"}:
            found.append(causes.not_supported("reclaimPolicy", obj.get("reclaimPolicy"), ["Delete", "Retain"]))
        if (mode := obj.get("volumeBindingMode")) not in _BINDING_MODES:
            found.append(causes.not_supported("volumeBindingMode", mode, _BINDING_MODES))
        return [*found, *_validate_parameters(obj.get("parameters") or {}), *_validate_topologies(obj)]

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Volumes carry all of it, so it stays."""
        return [
            causes.invalid(name, obj.get(name), causes.IMMUTABLE)
            for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
            if obj.get(name) != old.get(name)
        ]


def _validate_parameters(parameters: Json) -> Iterator[Cause]:
    if len(parameters) > _MANY_PARAMETERS:
        yield causes.too_long("parameters", _MANY_PARAMETERS)
        return
    if "" in parameters:
        yield causes.invalid("parameters", "", "field can not be empty.")
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > _PARAMETERS_LIMIT:
        yield causes.too_long("parameters", _PARAMETERS_LIMIT)


def _validate_topologies(obj: Json) -> Iterator[Cause]:
    seen: list[Json] = []
    for index, term in enumerate(obj.get("allowedTopologies") or ()):
        field = f"allowedTopologies[{index}].matchLabelExpressions"
        given: Json = {}
        for number, expression in enumerate(term.get("matchLabelExpressions") or ()):
            key, values = expression.get("key", ""), expression.get("values") or []
            if not values:
                yield causes.required(f"{field}[{number}].values")
            for place, value in enumerate(values):
                if value in values[:place]:
                    yield causes.duplicate(f"{field}[{number}].values[{place}]", value)
            yield from (causes.invalid(f"{field}[{number}].key", key, text) for text in label_key_errors(key))
            if key in given:
                yield causes.duplicate(f"{field}[{number}].key", key)
            given[key] = set(values)
        # A term that asks for nothing counts as one that was there before.
        if given in [{}, *seen]:
            yield causes.duplicate(field, "")
        seen.append(given)


def _where(spec: Json) -> Json:
    """Return where the data is. Secrets that let somebody in may change."""
    found = {name: value for name, value in spec.items() if name in SOURCES}
    if "csi" in found:
        found["csi"] = {name: value for name, value in found["csi"].items() if "SecretRef" not in name}
    return found


def _validate_reach(spec: Json) -> Iterator[Cause]:
    if (affinity := spec.get("nodeAffinity")) is None:
        return
    if affinity.get("required") is None:
        yield causes.required("spec.nodeAffinity.required", "must specify required node constraints")
    else:
        yield from validate_node_selector(affinity["required"], "spec.nodeAffinity.required")


def _validate_attributes(spec: Json) -> Iterator[Cause]:
    field, name = "spec.volumeAttributesClassName", spec.get("volumeAttributesClassName")
    if name is None:
        return
    if not name:
        yield causes.required(field, "an empty string is disallowed")
    else:
        yield from (causes.invalid(field, name, text) for text in names.subdomain(name))
    if "csi" not in spec:
        yield causes.required("spec.csi", "has to be specified when using volumeAttributesClassName")


def _no_amount(field: str, size: Fraction) -> Cause:
    return causes.invalid(field, int(size), "must be a valid resource quantity")
