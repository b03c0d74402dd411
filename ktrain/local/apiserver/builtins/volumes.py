"""PersistentVolumeClaims, PersistentVolumes and StorageClasses. Nothing here makes or binds volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.api.meta import format_time
from ktrain.api.selectors import label_key_errors
from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins import limits
from ktrain.local.apiserver.builtins.selectors import validate_selector
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.registry import ServedResource

PROTECTION: Final = "kubernetes.io/pvc-protection"
_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_NOT_POSITIVE: Final = "must be greater than zero"
_RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
_VOLUME_MODES: Final = ("Block", "Filesystem")
_BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_VOLUME_SOURCES: Final = frozenset(
    [
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "csi",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "glusterfs",
        "hostPath",
        "iscsi",
        "local",
        "nfs",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
    ]
)
_IMMUTABLE: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


_CLASSES: Final = "storageclasses.storage.k8s.io"
_IS_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"


def _default_class(backend: Backend) -> str:
    """Return the default StorageClass, the newest if there are several; nothing if there is none."""
    classes = [item.obj["metadata"] for _, item in backend.store.collection(_CLASSES).entries()]
    defaults = [meta for meta in classes if (meta.get("annotations") or {}).get(_IS_DEFAULT) == "true"]
    # Entries come in the order of their names, and of equally old ones the first counts.
    newest = max(defaults, key=lambda meta: meta["creationTimestamp"], default=None)
    return newest["name"] if newest else ""


class ClaimStrategy(Strategy):
    """PersistentVolumeClaims. What is in use stays until no pod uses it (`controllers.claims`)."""

    has_generation = False
    answers_deleted_object = True

    def default(self, obj: Json) -> None:
        """Fill in the volume mode; write the size canonically."""
        default_claim(obj)

    def admit(self, obj: Json, old: Json | None, backend: Backend) -> None:
        """Protect it; give a claim that names no class, not even the empty one, the default class."""
        meta = obj["metadata"]
        if old is None and PROTECTION not in meta.get("finalizers", ()):
            meta["finalizers"] = [*meta.get("finalizers", ()), PROTECTION]
        spec = obj.get("spec") or {}
        annotations = obj["metadata"].get("annotations") or {}
        if old is not None or spec.get("storageClassName") is not None or _CLASS_ANNOTATION in annotations:
            return
        if name := _default_class(backend):
            obj["spec"] = {**spec, "storageClassName": name}

    def judge(self, resource: ServedResource, obj: Json, old: Json | None, backend: Backend) -> None:
        """Hold claims to the limits of their namespace."""
        if old is None or "deletionTimestamp" not in old["metadata"]:
            limits.check(resource, obj, backend)

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Start unbound."""
        del backend
        obj["status"] = {"phase": "Pending"}

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check modes and size."""
        return validate_claim_spec(obj.get("spec") or {}, "spec")

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """A claim may be bound to a volume, and grow once it is bound."""
        spec, before = dict(obj.get("spec") or {}), dict(old.get("spec") or {})
        if not before.get("volumeName"):
            spec.pop("volumeName", None)
            before.pop("volumeName", None)
        elif old.get("status", {}).get("phase") == "Bound":
            spec["resources"] = before["resources"] = None
        return () if spec == before else [causes.forbidden("spec", _IMMUTABLE)]


class VolumeStrategy(Strategy):
    """PersistentVolumes: made by hand, or by a driver that is not here. No finalizer protects them."""

    has_generation = False
    answers_deleted_object = True

    def default(self, obj: Json) -> None:
        """Fill in what becomes of the volume."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        if "hostPath" in spec:
            spec["hostPath"].setdefault("type", "")
        _canonicalise(spec.get("capacity") or {})
        obj["status"] = {"phase": "Pending", **obj.get("status", {})}

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Start unbound."""
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": format_time(backend.now())}

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check size, modes and source."""
        spec = obj.get("spec") or {}
        found = list(_validate_modes(spec, "spec"))
        capacity = spec.get("capacity") or {}
        if not capacity:
            found.append(causes.required("spec.capacity"))
        if list(capacity) != ["storage"]:
            found.append(causes.not_supported("spec.capacity", dict(sorted(capacity.items())) or None, ["storage"]))
        elif _amount(capacity["storage"]) <= 0:
            found.append(causes.invalid("spec.capacity[storage]", capacity["storage"], _NOT_POSITIVE))
        sources = [name for name in spec if name in _VOLUME_SOURCES]
        if not sources:
            found.append(causes.required("spec", "must specify a volume type"))
        found += [causes.forbidden(f"spec.{name}", "may not specify more than 1 volume type") for name in sources[1:]]
        if (policy := spec.get("persistentVolumeReclaimPolicy")) not in _RECLAIM_POLICIES:
            found.append(causes.not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES))
        if "hostPath" in spec and not spec["hostPath"].get("path"):
            found.append(causes.required("spec.hostPath.path"))
        found += _validate_volume_mode(spec, "spec")
        return found

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Where the data is stays."""
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        moved = any(spec.get(name) != before.get(name) for name in _VOLUME_SOURCES)
        detail = "spec.persistentvolumesource is immutable after creation"
        found = [causes.forbidden("spec.persistentvolumesource", detail)] if moved else []
        if spec.get("volumeMode") != before.get("volumeMode"):
            found.append(causes.invalid("spec.volumeMode", spec.get("volumeMode"), causes.IMMUTABLE))
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
        if obj.get("reclaimPolicy") not in {"Delete", "Retain"}:
            found.append(causes.not_supported("reclaimPolicy", obj.get("reclaimPolicy"), ["Delete", "Retain"]))
        if (mode := obj.get("volumeBindingMode")) not in _BINDING_MODES:
            found.append(causes.not_supported("volumeBindingMode", mode, _BINDING_MODES))
        return found

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Volumes carry all of it, so it stays."""
        return [
            causes.invalid(name, obj.get(name), causes.IMMUTABLE)
            for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
            if obj.get(name) != old.get(name)
        ]


def default_claim(obj: Json) -> None:
    """Fill in the volume mode; write the size canonically. Templates of StatefulSets are claims, too."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    spec.setdefault("volumeMode", "Filesystem")
    for source in ("dataSource", "dataSourceRef"):
        if source in spec:
            # Typed clients always send it.
            spec[source].setdefault("apiGroup", None)
    for part in ("requests", "limits"):
        _canonicalise((spec.get("resources") or {}).get(part) or {})


def validate_claim_spec(spec: Json, field: str) -> list[Cause]:
    """Return what is wrong with the spec of a claim, or of a template of claims."""
    found = list(_validate_modes(spec, field, "at least 1 access mode is required"))
    found += _validate_volume_mode(spec, field)
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        found.append(causes.required(f"{field}.resources[storage]"))
    elif _amount(size) <= 0:
        found.append(causes.invalid(f"{field}.resources[storage]", size, _NOT_POSITIVE))
    found += validate_selector(spec.get("selector"), f"{field}.selector")
    for name in ("storageClassName", "volumeAttributesClassName"):
        if value := spec.get(name):
            found += [causes.invalid(f"{field}.{name}", value, text) for text in names.subdomain(value)]
    for name in ("dataSource", "dataSourceRef"):
        if name in spec:
            found += _validate_data_source(spec[name], f"{field}.{name}")
    if "dataSource" in spec and "dataSourceRef" in spec:
        found += _validate_agreement(spec["dataSource"], spec["dataSourceRef"], field)
    return found


def _validate_agreement(source: Json, reference: Json, field: str) -> Iterator[Cause]:
    if reference.get("namespace"):
        yield causes.invalid(field, {}, "may not be specified when dataSourceRef.namespace is specified")
    elif any(source.get(name) != reference.get(name) for name in ("apiGroup", "kind", "name")):
        yield causes.invalid(field, {}, "must match dataSourceRef")


def _validate_data_source(source: Json, field: str) -> Iterator[Cause]:
    for name in ("name", "kind"):
        if not source.get(name):
            yield causes.required(f"{field}.{name}")
    kind, group = source.get("kind", ""), source.get("apiGroup")
    if not group and kind != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        yield causes.invalid(field, kind, detail)
    if group:
        yield from (causes.invalid(f"{field}.apiGroup", group, text) for text in names.subdomain(group))
    if namespace := source.get("namespace"):
        yield from (causes.invalid(f"{field}.namespace", namespace, text) for text in names.label(namespace))


def _validate_volume_mode(spec: Json, field: str) -> Iterator[Cause]:
    if (mode := spec.get("volumeMode")) is not None and mode not in _VOLUME_MODES:
        yield causes.not_supported(f"{field}.volumeMode", mode, _VOLUME_MODES)


def _validate_modes(spec: Json, field: str, missing: str = "") -> Iterator[Cause]:
    modes = spec.get("accessModes") or []
    if not modes:
        yield causes.required(f"{field}.accessModes", missing)
    for mode in modes:
        if mode not in _MODES:
            yield causes.not_supported(f"{field}.accessModes", mode, _MODES)
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        detail = "may not use ReadWriteOncePod with other access modes"
        yield causes.forbidden(f"{field}.accessModes", detail)


def _canonicalise(amounts: Json) -> None:
    for name, value in amounts.items():
        try:
            amounts[name] = quantity.canonical(value)
        except ValueError:
            continue  # validation names the field


def _amount(size: object) -> float:
    try:
        return float(quantity.parse(size if isinstance(size, str | float | int) else ""))
    except ValueError:
        return -1.0
