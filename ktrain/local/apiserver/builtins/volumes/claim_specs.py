"""The spec of a claim, wherever it is written: in claims, in templates of StatefulSets, in pods' ephemeral volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.values.amounts import canonicalise
from ktrain.local.apiserver.builtins.values.selectors import validate_selector
from ktrain.local.apiserver.builtins.volumes.amounts import (
    NOT_POSITIVE,
    amount,
    validate_class,
    validate_modes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

CLAIM: Final = "PersistentVolumeClaim"


def default_claim(obj: Json) -> None:
    """Fill in the volume mode; write the size canonically. Templates of StatefulSets are claims, too."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    if (reference := spec.get("dataSourceRef")) is not None:
        reference.setdefault("apiGroup", None)
    if (source := spec.get("dataSource")) is not None:
        source.setdefault("apiGroup", None)
    for part in ("requests", "limits"):
        canonicalise((spec.get("resources") or {}).get(part) or {})
    status = obj.get("status") or {}
    for part in ("capacity", "allocatedResources"):
        canonicalise(status.get(part) or {})
    for condition in status.get("conditions") or ():
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)


def validate_claim_spec(spec: Json, field: str) -> list[Cause]:
    """Check modes, size, selector and sources."""
    found = list(validate_modes(spec, field, "at least 1 access mode is required"))
    if (selector := spec.get("selector")) is not None:
        found += validate_selector(selector, f"{field}.selector")
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        found.append(causes.required(f"{field}.resources[storage]"))
    elif amount(size) <= 0:
        found.append(causes.invalid(f"{field}.resources[storage]", size, NOT_POSITIVE))
    found += validate_class(spec.get("storageClassName"), f"{field}.storageClassName")
    for name in ("dataSource", "dataSourceRef"):
        if (source := spec.get(name)) is not None:
            found += _validate_source(source, f"{field}.{name}")
    if problem := _disagreement(spec):
        found.append(causes.invalid(field, {}, problem))
    return [*found, *validate_class(spec.get("volumeAttributesClassName"), f"{field}.volumeAttributesClassName")]


def _disagreement(spec: Json) -> str:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is None or reference is None:
        return ""
    if reference.get("namespace"):
        return "may not be specified when dataSourceRef.namespace is specified"
    return "" if source == reference else "must match dataSourceRef"


def _validate_source(source: Json, field: str) -> Iterator[Cause]:
    for name in ("name", "kind"):
        if not source.get(name):
            yield causes.required(f"{field}.{name}")
    kind, group = source.get("kind", ""), source.get("apiGroup") or ""
    if not group and kind != CLAIM:
        detail = f"must be '{CLAIM}' when referencing the default apiGroup"
        yield causes.invalid(field, kind, detail)
    for text in names.subdomain(group) if group else ():
        yield causes.invalid(f"{field}.apiGroup", group, text)
    if namespace := source.get("namespace"):
        yield from (causes.invalid(f"{field}.namespace", namespace, text) for text in names.label(namespace))
