"""Validation of a Job's `podFailurePolicy` and `successPolicy`, in upstream's order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.schema import Cause
from ktrain.api.selectors import label_key_errors
from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins.values import indexes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json

_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")
_MAX_RULES: Final = 20
_MAX_PATTERNS: Final = 20
_MAX_EXIT_CODES: Final = 255
_MAX_INDEXES: Final = 64 * 1024


def default_failure_policy(spec: Json) -> None:
    """Fill in that a condition counts when it is true."""
    for rule in spec.get("podFailurePolicy", {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"


def validate_failure_policy(policy: Json, spec: Json) -> Iterator[Cause]:
    """Check `spec.podFailurePolicy`."""
    field = "spec.podFailurePolicy.rules"
    rules = policy.get("rules") or []
    yield from _too_many(field, rules, _MAX_RULES)
    pod = spec.get("template", {}).get("spec", {})
    containers = {c.get("name") for part in ("containers", "initContainers") for c in pod.get(part) or ()}
    for index, rule in enumerate(rules):
        yield from _validate_failure_rule(rule, f"{field}[{index}]", spec, containers)


def _validate_failure_rule(rule: Json, field: str, spec: Json, containers: set[str | None]) -> Iterator[Cause]:
    action, codes, conditions = rule.get("action"), rule.get("onExitCodes"), rule.get("onPodConditions")
    yield from _one_of(f"{field}.action", action, _ACTIONS)
    if action == "FailIndex" and "backoffLimitPerIndex" not in spec:
        yield causes.invalid(f"{field}.action", action, "requires the backoffLimitPerIndex to be set")
    if codes is not None:
        yield from _validate_exit_codes(codes, f"{field}.onExitCodes", containers)
    if conditions:
        yield from _validate_conditions(conditions, f"{field}.onPodConditions")
    if codes is not None and conditions:
        yield _refuse(field, "specifying both OnExitCodes and OnPodConditions is not supported")
    if codes is None and not conditions:
        yield _refuse(field, "specifying one of OnExitCodes and OnPodConditions is required")


def _validate_conditions(patterns: Sequence[Json], field: str) -> Iterator[Cause]:
    yield from _too_many(field, patterns, _MAX_PATTERNS)
    for index, pattern in enumerate(patterns):
        type_ = pattern.get("type", "")
        for problem in label_key_errors(type_):
            yield causes.invalid(f"{field}[{index}].type", type_, problem)
        yield from _one_of(f"{field}[{index}].status", pattern.get("status"), _STATUSES)


def _validate_exit_codes(codes: Json, field: str, containers: set[str | None]) -> Iterator[Cause]:
    operator, values = codes.get("operator"), codes.get("values") or []
    yield from _one_of(f"{field}.operator", operator, _OPERATORS)
    name = codes.get("containerName")
    if name is not None and name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        yield causes.invalid(f"{field}.containerName", name, detail)
    if not values:
        yield causes.invalid(f"{field}.values", codes.get("values"), "at least one value is required")
    yield from _too_many(f"{field}.values", values, _MAX_EXIT_CODES)
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            yield causes.invalid(f"{field}.values[{index}]", value, "must not be 0 for the In operator")
        if value in values[:index]:
            yield causes.duplicate(f"{field}.values[{index}]", value)
    if values != sorted(values):
        yield causes.invalid(f"{field}.values", values, "must be ordered")


def validate_success_policy(policy: Json, spec: Json) -> Iterator[Cause]:
    """Check `spec.successPolicy`."""
    if spec.get("completionMode") != "Indexed":
        yield causes.invalid("spec.successPolicy", policy, "requires indexed completion mode")
        return
    field = "spec.successPolicy.rules"
    rules = policy.get("rules") or []
    if not rules:
        yield causes.required(field, "at least one rules must be specified when the successPolicy is specified")
    yield from _too_many(field, rules, _MAX_RULES)
    for index, rule in enumerate(rules):
        yield from _validate_success_rule(rule, f"{field}[{index}]", spec.get("completions") or 0)


def _validate_success_rule(rule: Json, field: str, completions: int) -> Iterator[Cause]:
    listed, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if listed is None and count is None:
        yield causes.required(field, "at least one of succeededCount or succeededIndexes must be specified")
    total = 0
    if listed is not None:
        if len(listed) > _MAX_INDEXES:
            yield causes.too_long(f"{field}.succeededIndexes", _MAX_INDEXES)
        try:
            total = sum(map(len, indexes.parse(listed, below=completions)))
        except ValueError as error:
            yield causes.invalid(f"{field}.succeededIndexes", listed, f"error parsing succeededIndexes: {error}")
    if count is None:
        return
    field = f"{field}.succeededCount"
    yield from causes.non_negative(field, count)
    if count > completions:
        detail = f"must be less than or equal to {completions} (the number of specified completions)"
        yield causes.invalid(field, count, detail)
    if listed is not None and count > total:
        what = "the number of indexes in the specified succeededIndexes field"
        yield causes.invalid(field, count, f"must be less than or equal to {total} ({what})")


def _one_of(field: str, value: str | None, supported: Sequence[str]) -> Iterator[Cause]:
    if not value:
        listed = " ".join(f'"{one}"' for one in supported)
        yield causes.required(field, f"valid values: [{listed}]")
    elif value not in supported:
        yield causes.not_supported(field, value, supported)


def _too_many(field: str, items: Sequence[object], limit: int) -> Iterator[Cause]:
    if len(items) > limit:
        yield Cause(field, "FieldValueTooMany", f"Too many: {len(items)}: must have at most {limit} items")


def _refuse(field: str, detail: str) -> Cause:
    return Cause(field, "FieldValueInvalid", f"Invalid value: {detail}")
