"""How evenly a pod's like are spread, and what holds back its scheduling or readiness, in the API server's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.selectors import label_key_errors
from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins.pods.validation.affinity import validate_label_keys
from ktrain.local.apiserver.builtins.pods.validation.choices import enumerated
from ktrain.local.apiserver.builtins.values.selectors import validate_selector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_NODE_POLICIES: Final = ("Honor", "Ignore")
_NOT_POSITIVE: Final = "must be greater than zero"


def validate_spreading(constraints: list[Json], field: str) -> Iterator[Cause]:
    """Yield what is wrong with constraints on the spreading over a topology."""
    kinds = [(one.get("topologyKey", ""), one.get("whenUnsatisfiable", "")) for one in constraints]
    last = {kind: index for index, kind in enumerate(kinds)}
    for index, constraint in enumerate(constraints):
        here, (key, action) = f"{field}[{index}]", kinds[index]
        if (skew := constraint.get("maxSkew", 0)) <= 0:
            yield causes.invalid(f"{here}.maxSkew", skew, _NOT_POSITIVE)
        if not key:
            yield causes.required(f"{here}.topologyKey", "can not be empty")
        if action not in _ACTIONS:
            yield causes.not_supported(f"{here}.whenUnsatisfiable", action, _ACTIONS)
        if last[kinds[index]] > index:
            yield causes.duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        yield from _validate_domains(constraint.get("minDomains"), action, f"{here}.minDomains")
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            yield from enumerated(constraint, name, _NODE_POLICIES, here)
        yield from validate_label_keys(constraint, here)
        yield from validate_selector(constraint.get("labelSelector"), f"{here}.labelSelector")


def validate_gates(spec: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with the gates before a pod's scheduling, and those before its readiness."""
    for index, gate in enumerate(spec.get("readinessGates", ())):
        here, kind = f"{field}.readinessGates[{index}].conditionType", gate.get("conditionType", "")
        yield from (causes.invalid(here, kind, text) for text in label_key_errors(kind))
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates", ())):
        here, name = f"{field}.schedulingGates[{index}]", gate.get("name", "")
        yield from (causes.invalid(here, name, text) for text in label_key_errors(name))
        if name in seen:
            yield causes.duplicate(here, name)
        seen.add(name)


def _validate_domains(least: int | None, action: str, field: str) -> Iterator[Cause]:
    if least is None:
        return
    if least <= 0:
        yield causes.invalid(field, least, _NOT_POSITIVE)
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield causes.invalid(field, least, detail)
