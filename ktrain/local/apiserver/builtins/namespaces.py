"""Namespaces as objects; what happens when one is deleted is for `controllers/namespaces.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.errors import StatusError
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend

FINALIZER: Final = "kubernetes"
NAME_LABEL: Final = "kubernetes.io/metadata.name"
IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})


class NamespaceStrategy(Strategy):
    """Namespaces."""

    has_generation = False

    def check_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """A namespace's name is part of DNS names: one label."""
        return names.label(name, prefix=prefix)

    def default(self, obj: Json) -> None:
        """Make it selectable by name."""
        _label(obj)

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Start active, held by the controller that will empty it, and selectable by name."""
        spec = obj.setdefault("spec", {})
        finalizers = spec.get("finalizers", [])
        spec["finalizers"] = finalizers if FINALIZER in finalizers else [*finalizers, FINALIZER]
        obj["status"] = {"phase": "Active"}
        _label(obj)

    def prepare_update(self, obj: Json, old: Json, backend: Backend) -> None:
        """Leave the spec's finalizers to `/finalize`, and the label as it is."""
        obj["spec"] = old["spec"]
        _label(obj)

    def validate_create(self, obj: Json) -> Sequence[Cause]:
        """Finalizers of the content have a domain, as all have."""
        detail = "name is neither a standard finalizer name nor is it fully qualified"
        return [
            causes.invalid("spec.finalizers", name, detail)
            for name in obj["spec"]["finalizers"]
            if name != FINALIZER and "/" not in name
        ]

    def validate_status(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Only a deletion ends a namespace."""
        phase = obj.get("status", {}).get("phase", "")
        if "deletionTimestamp" in old["metadata"]:
            detail = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            return () if phase == "Terminating" else [causes.invalid("status.Phase", phase, detail)]
        detail = "may only be 'Active' if `deletionTimestamp` is empty"
        return () if phase == "Active" else [causes.invalid("status.Phase", phase, detail)]

    def may_delete(self, obj: Json) -> None:
        """Some are the cluster itself."""
        name = obj["metadata"]["name"]
        if name in IMMORTAL:
            message = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
            raise StatusError(403, "Forbidden", message, details={"name": name, "kind": "namespaces"})

    def mark_deleted(self, obj: Json) -> None:
        """Say that nothing new gets in."""
        obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}

    def holds(self, obj: Json) -> bool:
        """Its content holds a namespace, through the spec's finalizers."""
        return bool(obj.get("spec", {}).get("finalizers"))


def _label(obj: Json) -> None:
    meta = obj["metadata"]
    if name := meta.get("name"):  # without one it is about to be refused
        meta["labels"] = {**meta.get("labels", {}), NAME_LABEL: name}
