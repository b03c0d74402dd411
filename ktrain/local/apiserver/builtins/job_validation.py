"""Validation of a Job's spec (`k8s.io/kubernetes/pkg/apis/batch/validation`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.schema import Cause
from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins import indexes
from ktrain.local.apiserver.builtins.pod_validation import validate_pod_spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json

_COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MODES: Final = ("Indexed", "NonIndexed")
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_REPLACEMENTS: Final = ("Failed", "TerminatingOrFailed")
_MAX_INDEXED: Final = 100_000
_MAX_MANY_INDEXES: Final = 10_000
_MAX_RULES: Final = 20
_MAX_EXIT_CODES: Final = 255
_MAX_MANAGER: Final = 63


def validate_job_spec(job: Json) -> list[Cause]:
    """Return what is wrong with a Job."""
    return [*_validate_selector(job), *_validate_spec(job)]


def validate_template_spec(spec: Json, field: str) -> list[Cause]:
    """Return what is wrong with the spec of Jobs yet to be made, which have no names, selectors and defaults."""
    found = _validate_spec({"metadata": {}, "spec": {"completionMode": "NonIndexed", **spec}})
    return [Cause(field + cause.field.removeprefix("spec"), cause.reason, cause.message) for cause in found]


def _validate_spec(job: Json) -> list[Cause]:
    spec = job.get("spec") or {}
    found: list[Cause] = []
    for name in _COUNTS:
        found += causes.non_negative(f"spec.{name}", spec.get(name))
    if spec.get("completionMode") not in _MODES:
        found.append(causes.not_supported("spec.completionMode", spec.get("completionMode"), _MODES))
    found += _validate_indexed(job) if spec.get("completionMode") == "Indexed" else _validate_not_indexed(spec)
    found += _validate_replacement(spec)
    if policy := spec.get("podFailurePolicy"):
        found += _validate_failure_policy(policy, spec)
    if policy := spec.get("successPolicy"):
        found += _validate_success_policy(policy, spec)
    if manager := spec.get("managedBy"):
        found += _validate_manager(manager)
    return [*found, *_validate_template(spec)]


def _validate_selector(job: Json) -> Iterator[Cause]:
    spec = job.get("spec") or {}
    if spec.get("manualSelector"):
        if not spec.get("selector"):
            yield causes.required("spec.selector")
        return
    uid, name = job["metadata"].get("uid"), job["metadata"].get("name", "")
    labels = spec["template"].get("metadata", {}).get("labels", {})
    expected = {"controller-uid": uid, "batch.kubernetes.io/controller-uid": uid}
    expected |= {"job-name": name, "batch.kubernetes.io/job-name": name}
    for label, value in expected.items():
        field = f"spec.template.metadata.labels[{label}]"
        if label not in labels:
            yield causes.required(field, f"must be '{value}'")
        elif labels[label] != value:
            yield causes.invalid(field, dict(sorted(labels.items())), f"must be '{value}'")
    selector = spec.get("selector", {})
    if selector != {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}:
        yield causes.invalid("spec.selector", selector, "`selector` not auto-generated")


def _validate_indexed(job: Json) -> Iterator[Cause]:
    spec = job["spec"]
    completions = spec.get("completions")
    if completions is None:
        yield causes.required("spec.completions", "when completion mode is Indexed")
        return
    yield from _validate_index_counts(spec, completions)
    name = job["metadata"].get("name", "")
    if completions > 0 and name:
        hostname = f"{name}-{completions - 1}"
        if any(names.label(hostname)):
            detail = f"will not able to create pod with invalid DNS label: {hostname}"
            yield causes.invalid("metadata.name", name, detail)


def _validate_index_counts(spec: Json, completions: int) -> Iterator[Cause]:
    parallelism, failed = spec.get("parallelism", 0), spec.get("maxFailedIndexes")
    if parallelism > _MAX_INDEXED:
        detail = f"must be less than or equal to {_MAX_INDEXED} when completion mode is Indexed"
        yield causes.invalid("spec.parallelism", parallelism, detail)
    if failed is not None:
        if failed > completions:
            yield causes.invalid("spec.maxFailedIndexes", failed, "must be less than or equal to completions")
        if failed > _MAX_INDEXED:
            yield causes.invalid("spec.maxFailedIndexes", failed, f"must be less than or equal to {_MAX_INDEXED}")
        if "backoffLimitPerIndex" not in spec:
            yield causes.required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if completions > _MAX_INDEXED and "backoffLimitPerIndex" in spec:
        if failed is None:
            detail = f"must be specified when completions is above {_MAX_INDEXED}"
            yield causes.required("spec.maxFailedIndexes", detail)
        elif failed > _MAX_MANY_INDEXES:
            yield causes.invalid("spec.maxFailedIndexes", failed, f"must be less than or equal to {_MAX_MANY_INDEXES}")
        if parallelism > _MAX_MANY_INDEXES:
            detail = f"must be less than or equal to {_MAX_MANY_INDEXES}"
            yield causes.invalid("spec.parallelism", parallelism, detail)


def _validate_not_indexed(spec: Json) -> Iterator[Cause]:
    for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
        if spec.get(name) is not None:
            yield causes.invalid(f"spec.{name}", spec[name], "requires indexed completion mode")


def _validate_replacement(spec: Json) -> Iterator[Cause]:
    policy = spec.get("podReplacementPolicy")
    supported = ("Failed",) if "podFailurePolicy" in spec else _REPLACEMENTS
    if policy is not None and policy not in supported:
        yield causes.not_supported("spec.podReplacementPolicy", policy, supported)


def _validate_failure_policy(policy: Json, spec: Json) -> Iterator[Cause]:
    rules = policy.get("rules", [])
    field = "spec.podFailurePolicy.rules"
    if len(rules) > _MAX_RULES:
        yield Cause(field, "FieldValueTooMany", f"Too many: {len(rules)}: must have at most {_MAX_RULES} items")
    pod = spec.get("template", {}).get("spec", {})
    containers = {c.get("name") for part in ("containers", "initContainers") for c in pod.get(part, ())}
    for index, rule in enumerate(rules):
        path = f"{field}[{index}]"
        action = rule.get("action")
        if not action:
            yield causes.required(f"{path}.action", f"valid values: {list(_ACTIONS)}")
        elif action not in _ACTIONS:
            yield causes.not_supported(f"{path}.action", action, _ACTIONS)
        elif action == "FailIndex" and "backoffLimitPerIndex" not in spec:
            detail = "requires the backoffLimitPerIndex to be set"
            yield causes.invalid(f"{path}.action", action, detail)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        if (codes is None) is not bool(conditions):
            detail = "specifying one of OnExitCodes and OnPodConditions is required"
            yield causes.invalid(path, rule, detail)
        if codes is not None:
            yield from _validate_exit_codes(codes, f"{path}.onExitCodes", containers)
        if conditions and len(conditions) > _MAX_RULES:
            text = f"Too many: {len(conditions)}: must have at most {_MAX_RULES} items"
            yield Cause(f"{path}.onPodConditions", "FieldValueTooMany", text)


def _validate_exit_codes(codes: Json, field: str, containers: set[str | None]) -> Iterator[Cause]:
    operator, values = codes.get("operator"), codes.get("values", [])
    if operator not in {"In", "NotIn"}:
        yield causes.not_supported(f"{field}.operator", operator, ["In", "NotIn"])
    name = codes.get("containerName")
    if name is not None and name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        yield causes.invalid(f"{field}.containerName", name, detail)
    if not values:
        yield causes.invalid(f"{field}.values", values, "at least one value is required")
    elif len(values) > _MAX_EXIT_CODES:
        yield Cause(
            f"{field}.values",
            "FieldValueTooMany",
            f"Too many: {len(values)}: must have at most {_MAX_EXIT_CODES} items",
        )
    for index, value in enumerate(values):
        if value in values[:index]:
            yield causes.duplicate(f"{field}.values[{index}]", value)
        if operator == "In" and value == 0:
            yield causes.invalid(f"{field}.values[{index}]", value, "must not be 0 for the In operator")
    if values != sorted(values):
        yield causes.invalid(f"{field}.values", values, "must be ordered")


def _validate_success_policy(policy: Json, spec: Json) -> Iterator[Cause]:
    rules = policy.get("rules", [])
    field = "spec.successPolicy.rules"
    completions = spec.get("completions") or 0
    if not rules:
        yield causes.required(field, "at least one rules must be specified when the successPolicy is specified")
    if len(rules) > _MAX_RULES:
        yield Cause(field, "FieldValueTooMany", f"Too many: {len(rules)}: must have at most {_MAX_RULES} items")
    for index, rule in enumerate(rules):
        listed, count = rule.get("succeededIndexes"), rule.get("succeededCount")
        path = f"{field}[{index}]"
        if listed is None and count is None:
            yield causes.required(path, "at least one of succeededCount or succeededIndexes must be specified")
        total = completions
        if listed is not None:
            try:
                total = indexes.count(listed, below=completions)
            except ValueError as error:
                yield causes.invalid(f"{path}.succeededIndexes", listed, f"error parsing succeededIndexes: {error}")
        if count is not None:
            yield from causes.non_negative(f"{path}.succeededCount", count)
            if count > total:
                detail = f"must be less than or equal to {total} (the number of specified completions)"
                yield causes.invalid(f"{path}.succeededCount", count, detail)


def _validate_manager(manager: str) -> Iterator[Cause]:
    domain, slash, path = manager.partition("/")
    if not slash or not path or names.subdomain(domain):
        detail = 'must be a domain-prefixed path (such as "acme.io/foo")'
        yield causes.invalid("spec.managedBy", manager, detail)
    if len(manager) > _MAX_MANAGER:
        yield causes.too_long("spec.managedBy", _MAX_MANAGER)


def _validate_template(spec: Json) -> list[Cause]:
    pod = (spec.get("template") or {}).get("spec") or {}
    field = "spec.template.spec"
    found = validate_pod_spec(pod, field)
    policy = pod.get("restartPolicy")
    if policy in {None, "Always"}:
        found.append(causes.required(f"{field}.restartPolicy", 'valid values: "OnFailure", "Never"'))
    elif "podFailurePolicy" in spec and policy != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        found.append(causes.invalid(f"{field}.restartPolicy", policy, detail))
    return found
