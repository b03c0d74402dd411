"""What may change in a pod: what only gets narrower, as a node may have begun to run it already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ktrain.local.apiserver import causes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_DEADLINE: Final = "activeDeadlineSeconds"
_LONGEST_S: Final = 2**31 - 1
_CHECKED_APART: Final = (_DEADLINE, "schedulingGates", "tolerations")
_GROUPS: Final = ("containers", "initContainers")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS: Final = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
_REFUSAL: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_change(spec: Json, old: Json) -> list[Cause]:
    """Return what changed in a pod that may not, or not in this way."""
    for group in _GROUPS:
        if len(spec.get(group, ())) != len(old.get(group, ())):
            return [causes.forbidden(f"spec.{group}", "pod updates may not add or remove containers")]
    deadline = _deadline_refused(spec.get(_DEADLINE), old.get(_DEADLINE))
    if deadline and _DEADLINE in spec:
        return deadline
    found = [*deadline, *_validate_tolerations(spec, old), *_validate_gates(spec, old)]
    if spec == old:
        return found
    masked = _masked(spec)
    if old.get("schedulingGates"):
        found += _validate_selector(spec, old)
        found += _validate_affinity(_terms(spec), _terms(old))
        masked = _with_placement(masked, old)
    if masked != _masked(old):
        found.append(causes.forbidden("spec", _REFUSAL))
    return found


def _deadline_refused(deadline: int | None, before: int | None) -> list[Cause]:
    field = f"spec.{_DEADLINE}"
    if deadline is None:
        text = "must not update from a positive integer to nil value"
        return [] if before is None else [causes.invalid(field, None, text)]
    if not 0 <= deadline <= _LONGEST_S:
        return [causes.invalid(field, deadline, f"must be between 0 and {_LONGEST_S}, inclusive")]
    if before is not None and deadline > before:
        return [causes.invalid(field, deadline, "must be less than or equal to previous value")]
    return []


def _validate_tolerations(spec: Json, old: Json) -> Iterator[Cause]:
    now = [_timeless(toleration) for toleration in spec.get("tolerations", ())]
    if any(_timeless(toleration) not in now for toleration in old.get("tolerations", ())):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield causes.forbidden("spec.tolerations", detail)


def _timeless(toleration: Json) -> Json:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _validate_gates(spec: Json, old: Json) -> Iterator[Cause]:
    added = {gate.get("name", ""): index for index, gate in enumerate(spec.get("schedulingGates", ()))}
    for gate in old.get("schedulingGates", ()):
        added.pop(gate.get("name", ""), None)
    for name, index in added.items():
        detail = f"only deletion is allowed, but found new scheduling gate '{name}'"
        yield causes.forbidden(f"spec.schedulingGates[{index}].name", detail)


def _validate_selector(spec: Json, old: Json) -> Iterator[Cause]:
    selector = spec.get("nodeSelector", {})
    if not old.get("nodeSelector", {}).items() <= selector.items():
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield causes.invalid("spec.nodeSelector", dict(sorted(selector.items())) or None, detail)


def _terms(spec: Json) -> list[Json]:
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    terms: list[Json] = affinity.get(_REQUIRED, {}).get("nodeSelectorTerms", [])
    return terms


def _validate_affinity(terms: list[Json], old: list[Json]) -> Iterator[Cause]:
    if not old:
        return
    if len(terms) != len(old):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield causes.invalid(_TERMS, [_held(term) for term in terms] or None, detail)
        return
    for index, (term, before) in enumerate(zip(terms, old, strict=True)):
        if not _only_adds(term, before):
            detail = "only additions are allowed (no mutations or deletions)"
            yield causes.invalid(f"{_TERMS}[{index}]", _held(term), detail)


def _only_adds(term: Json, old: Json) -> bool:
    """Whether a term selects no more nodes than it did; one without conditions selects none."""
    parts = ("matchExpressions", "matchFields")
    kept = {part: old.get(part, []) for part in parts}
    if not any(kept.values()):
        return not any(term.get(part) for part in parts)
    return all(term.get(part, [])[: len(kept[part])] == kept[part] for part in parts)


def _held(term: Json) -> Json:
    """Return a term as the server holds it, which is how it shows it."""
    parts = {"MatchExpressions": term.get("matchExpressions", ()), "MatchFields": term.get("matchFields", ())}
    return {name: [_held_condition(condition) for condition in part] or None for name, part in parts.items()}


def _held_condition(condition: Json) -> Json:
    key, operator, values = condition.get("key", ""), condition.get("operator", ""), condition.get("values")
    return {"Key": key, "Operator": operator, "Values": values}


def _masked(spec: Json) -> Json:
    """Return a spec without what may change, or was checked already."""
    masked: Json = {name: value for name, value in spec.items() if name not in _CHECKED_APART}
    for group in _GROUPS:
        if group in masked:
            masked[group] = [{**container, "image": ""} for container in masked[group]]
    return masked


def _with_placement(spec: Json, old: Json) -> Json:
    """Return a gated pod's spec with the node selector and node affinity that it had before: they were checked."""
    parts: dict[str, Any] = {name: value for name, value in spec.items() if name not in {"nodeSelector", "affinity"}}
    if "nodeSelector" in old:
        parts["nodeSelector"] = old["nodeSelector"]
    affinity, before = spec.get("affinity"), old.get("affinity")
    changed = (affinity or {}).get("nodeAffinity") != (before or {}).get("nodeAffinity")
    if changed:
        own = {name: value for name, value in (affinity or {}).items() if name != "nodeAffinity"}
        kept = {name: value for name, value in (before or {}).items() if name == "nodeAffinity"}
        affinity = {**own, **kept} if own or kept or before is not None else None
    return parts if affinity is None else {**parts, "affinity": affinity}
