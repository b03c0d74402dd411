"""PersistentVolumeClaims: what is filled in, refused, and kept when they change. Nothing here binds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Key
from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins.quotas import limits
from ktrain.local.apiserver.builtins.volumes.amounts import CLASS_ANNOTATION, amount, class_warnings
from ktrain.local.apiserver.builtins.volumes.claim_specs import CLAIM, default_claim, validate_claim_spec
from ktrain.local.apiserver.errors import forbidden
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.registry import ServedResource

PROTECTION: Final = "kubernetes.io/pvc-protection"
_IMMUTABLE: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
_CLASSES: Final = "storageclasses.storage.k8s.io"
_IS_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
_SNAPSHOT: Final = ("VolumeSnapshot", "snapshot.storage.k8s.io")


class ClaimStrategy(Strategy):
    """PersistentVolumeClaims. What is in use stays until no pod uses it (`controllers.protection`)."""

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
        if old is not None or spec.get("storageClassName") is not None or CLASS_ANNOTATION in annotations:
            return
        if name := _default_class(backend):
            obj["spec"] = {**spec, "storageClassName": name}

    def judge(self, resource: ServedResource, obj: Json, old: Json | None, backend: Backend) -> None:
        """Hold claims to the limits of their namespace."""
        if old is None or "deletionTimestamp" not in old["metadata"]:
            limits.check(resource, obj, backend)
        if old is not None and amount(_size(obj)) > amount(_size(old)) and not _may_grow(obj, backend):
            detail = (
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
                "support resize"
            )
            raise forbidden(resource, obj["metadata"]["name"], detail)

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Start unbound, with one source of data under both of its names."""
        obj["status"] = {"phase": "Pending"}
        _settle_source(obj.get("spec") or {})

    def prepare_update(self, obj: Json, old: Json, backend: Backend) -> None:
        """Settle the source of data, as when it was created."""
        if old.get("spec", {}).get("dataSource") is None:
            _settle_source(obj.get("spec") or {})

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check modes, size, selector and sources."""
        return validate_claim_spec(obj.get("spec") or {}, "spec")

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """A claim may be given a class, be bound to a volume, and grow once it is bound."""
        spec, before = dict(obj.get("spec") or {}), dict(old.get("spec") or {})
        found = []
        bound = old.get("status", {}).get("phase") == "Bound"
        if not before.get("volumeName"):
            spec.pop("volumeName", None)
            before.pop("volumeName", None)
        if before.get("storageClassName") is None:
            spec.pop("storageClassName", None)
            before.pop("storageClassName", None)
        if before.get("volumeName") and bound:
            spec["resources"], before["resources"] = _without_size(spec), _without_size(before)
            for changing in (spec, before):
                changing.pop("volumeAttributesClassName", None)
        if spec != before:
            found.append(causes.forbidden("spec", _IMMUTABLE))
        size = amount(_size(obj))
        # A growth that fails may be asked less of, as long as it is more than there is.
        if size < amount(_size(old)) and size <= amount((old["status"].get("capacity") or {}).get("storage", 0)):
            detail = "field can not be less than status.capacity"
            found.append(causes.forbidden("spec.resources.requests.storage", detail))
        return [*found, *_validate_kept(obj, old)]

    def validate_status(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Sizes are sizes."""
        found = []
        status = obj.get("status") or {}
        for part in ("capacity", "allocatedResources"):
            for name, size in (status.get(part) or {}).items():
                if amount(size) < 0:
                    value = int(amount(size))
                    detail = "must be a valid resource quantity"
                    found.append(causes.invalid(f"status.{part}[{name}]", value, detail))
        foreign = (name for name in status.get("allocatedResources") or () if name != "storage" and "/" not in name)
        return [*found, *(causes.not_supported("status.allocatedResources", name, ["storage"]) for name in foreign)]

    def warn(self, obj: Json) -> Sequence[str]:
        """Say what is deprecated, and what no disk can be."""
        return [*class_warnings(obj), *_size_warnings(obj.get("spec") or {}, "spec")]


def _default_class(backend: Backend) -> str:
    """Return the default StorageClass, the newest if there are several; nothing if there is none."""
    classes = [item.obj["metadata"] for _, item in backend.store.collection(_CLASSES).entries()]
    defaults = [meta for meta in classes if (meta.get("annotations") or {}).get(_IS_DEFAULT) == "true"]
    # Entries come in the order of their names, and of equally old ones the first counts.
    newest = max(defaults, key=lambda meta: meta["creationTimestamp"], default=None)
    return newest["name"] if newest else ""


def _may_grow(claim: Json, backend: Backend) -> bool:
    name = claim["spec"].get("storageClassName") or claim["metadata"].get("annotations", {}).get(CLASS_ANNOTATION, "")
    item = backend.store.collection(_CLASSES).get(Key("", name))
    return item is not None and bool(item.obj.get("allowVolumeExpansion"))


def _settle_source(spec: Json) -> None:
    """
    Write the source of a claim's data under both of its names.

    The older field takes claims and snapshots only; anything else in it is dropped. Sources of other namespaces are a
    feature that is off by default: a reference to one is dropped.
    """
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and not _is_known(source):
        spec.pop("dataSource")
        source = None
    if reference is not None and reference.get("namespace"):
        spec.pop("dataSourceRef")
        reference = None
    if source is None and reference is not None:
        spec["dataSource"] = dict(reference)
    elif source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)


def _is_known(source: Json) -> bool:
    kind, group = source.get("kind", ""), source.get("apiGroup") or ""
    return (kind, group) in {(CLAIM, ""), _SNAPSHOT}


def _validate_kept(obj: Json, old: Json) -> Iterator[Cause]:
    mode = (obj.get("spec") or {}).get("volumeMode")
    if mode != (old.get("spec") or {}).get("volumeMode"):
        yield causes.invalid("volumeMode", mode, causes.IMMUTABLE)
    named = (obj["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION, "")
    if named != (old["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION, ""):
        yield causes.invalid(f"metadata.annotations.{CLASS_ANNOTATION}", named, causes.IMMUTABLE)


def _size(obj: Json) -> object:
    return (((obj.get("spec") or {}).get("resources") or {}).get("requests") or {}).get("storage", 0)


def _without_size(spec: Json) -> Json:
    resources = dict(spec.get("resources") or {})
    resources["requests"] = {
        name: size for name, size in (resources.get("requests") or {}).items() if name != "storage"
    }
    return resources


def _size_warnings(spec: Json, field: str) -> Iterator[str]:
    for part in ("requests", "limits"):
        size = ((spec.get("resources") or {}).get(part) or {}).get("storage")
        if size is not None and amount(size).denominator != 1:
            path = f"{field}.resources.{part}[storage]"
            yield f'{path}: fractional byte value "{size}" is invalid, must be an integer'
