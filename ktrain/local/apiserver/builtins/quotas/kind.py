"""ResourceQuotas as objects; admission is what keeps to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.api.selectors import label_key_errors
from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins.values.amounts import canonicalise
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend

_STANDARD: Final = frozenset(
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "persistentvolumeclaims",
        "configmaps",
        "services.nodeports",
        "services.loadbalancers",
    ]
)
_WHOLE: Final = frozenset(
    [
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ]
)
_SCOPES: Final = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)


_BARE: Final = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity")
"""Scopes that a pod has or has not: there are no values to select."""


class QuotaStrategy(Strategy):
    """ResourceQuotas."""

    has_generation = False
    answers_deleted_object = True

    def default(self, obj: Json) -> None:
        """Write amounts canonically."""
        canonicalise(obj.setdefault("spec", {}).get("hard") or {})

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Start with nothing counted."""
        obj["status"] = {}

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check names, amounts and scopes."""
        spec = obj.get("spec") or {}
        found = [cause for name, value in (spec.get("hard") or {}).items() for cause in _validate_amount(name, value)]
        found += _validate_scopes(spec)
        found += _validate_scope_selector(spec.get("scopeSelector") or {})
        return found

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """The scopes stay."""
        scopes, before = (set((o.get("spec") or {}).get("scopes") or ()) for o in (obj, old))
        detail = causes.invalid("spec.scopes", obj["spec"].get("scopes"), causes.IMMUTABLE)
        return () if scopes == before else [detail]


def _validate_amount(name: str, value: object) -> Iterator[Cause]:
    field = f"spec.hard[{name}]"
    malformed = label_key_errors(name)
    for text in malformed:
        yield causes.invalid(field, name, text)
    if malformed:
        yield causes.invalid(field, name, "must be a standard resource for quota")
    elif (
        "/" not in name
        and name not in _STANDARD
        and not name.startswith(("count.", "hugepages-", "requests.hugepages-"))
    ):
        yield causes.invalid(field, name, "must be a standard resource type or fully qualified")
        yield causes.invalid(field, name, "must be a standard resource for quota")
    try:
        amount = quantity.parse(value if isinstance(value, str | float | int) else "")
    except ValueError:
        yield causes.invalid(field, value, "must be a valid quantity")
        return
    if amount < 0:
        yield causes.invalid(field, value, "must be greater than or equal to 0")
    if amount.denominator != 1 and (name in _WHOLE or name.startswith("count/")):
        yield causes.invalid(field, value, "must be an integer")


def _validate_scopes(spec: Json) -> Iterator[Cause]:
    scopes, field = spec.get("scopes") or [], "spec.scopes"
    if not scopes:
        return
    if any(scope not in _SCOPES for scope in scopes):
        yield causes.invalid(field, scopes, "unsupported scope")
    elif any(not _covers(scope, name) for scope in scopes for name in spec.get("hard") or ()):
        yield causes.invalid(field, scopes, "unsupported scope applied to resource")
    for pair in ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"}):
        if pair <= set(scopes):
            yield causes.invalid(field, scopes, "conflicting scopes")


def _covers(scope: str, name: str) -> bool:
    """Whether a scope can select what a quota counts: pods, and for most scopes their cpu and memory."""
    if scope == "BestEffort":
        return name == "pods"
    if scope in {"Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity"}:
        return name not in _WHOLE - {"pods"} and not name.startswith("count/")
    return name in {"persistentvolumeclaims", "requests.storage"} or name.endswith("storageclass.storage.k8s.io")


def _validate_scope_selector(selector: Json) -> Iterator[Cause]:
    field = "spec.scopeSelector.matchExpressions"
    for expression in selector.get("matchExpressions") or ():
        scope, operator = expression.get("scopeName"), expression.get("operator")
        values = expression.get("values") or []
        if scope not in _SCOPES:
            yield causes.invalid(f"{field}.scopeName", scope, "unsupported scope")
        if scope in _BARE and operator != "Exists":
            listed = " or ".join(f"ResourceQuotaScope{name}" for name in _BARE)
            detail = f"must be 'Exists' when scope is any of {listed.replace(' or ', ', ', len(_BARE) - 2)}"
            yield causes.invalid(f"{field}.operator", operator, detail)
        if operator in {"In", "NotIn"} and not values:
            detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield causes.required(f"{field}.values", detail)
        elif operator in {"Exists", "DoesNotExist"} and values:
            detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield causes.invalid(f"{field}.values", values, detail)
        elif operator not in {"In", "NotIn", "Exists", "DoesNotExist"}:
            yield causes.invalid(f"{field}.operator", operator, "not a valid selector operator")
