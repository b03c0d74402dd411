"""Validation of a Job's spec, in upstream's order (`k8s.io/kubernetes/pkg/apis/batch/validation`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ktrain.api.schema import Cause
from ktrain.api.selectors import LabelSelector, SelectorError
from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.batch.policies import validate_failure_policy, validate_success_policy
from ktrain.local.apiserver.builtins.values.selectors import shown, validate_selector
from ktrain.local.apiserver.builtins.workloads.templates import validate_template

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
_REPLACEMENTS: Final = ("Failed", "TerminatingOrFailed")
_RESTARTS: Final = ("Never", "OnFailure")
_MAX_INDEXED: Final = 100_000
_MAX_MANY_INDEXES: Final = 10_000
_MAX_MANAGER: Final = 63
_HTTP_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


def validate_job(job: Json) -> list[Cause]:
    """Return what is wrong with a Job."""
    spec = job.get("spec") or {}
    return [*validate_job_spec(spec), *_validate_hostname(job)]


def validate_job_spec(spec: Json) -> list[Cause]:
    """Return what is wrong with a Job's spec."""
    return [*_validate_spec(spec), *_validate_selector(spec)]


def validate_template_spec(spec: Json, field: str) -> list[Cause]:
    """Return what is wrong with the spec of Jobs yet to be made, which have no names, selectors and defaults."""
    found = _validate_spec({"completionMode": "NonIndexed", **spec})
    return [Cause(field + cause.field.removeprefix("spec"), cause.reason, cause.message) for cause in found]


def validate_generated_selector(job: Json, *, prefixed: bool) -> Iterator[Cause]:
    """Yield what is wrong with a selector that its owner did not choose. Old jobs lack the `prefixed` labels."""
    spec, meta = job["spec"], job["metadata"]
    if spec.get("manualSelector") or not spec.get("selector"):
        return
    labels = spec["template"].get("metadata", {}).get("labels") or {}
    uid, name = meta.get("uid", ""), meta.get("name", "")
    expected = {"controller-uid": uid, "job-name": name}
    if prefixed:
        expected |= {f"batch.kubernetes.io/{label}": value for label, value in expected.items()}
    for label, value in expected.items():
        field = f"spec.template.metadata.labels[{label}]"
        if label not in labels:
            yield causes.required(field, f"must be '{value}'")
        elif labels[label] != value:
            yield causes.invalid(field, dict(sorted(labels.items())), f"must be '{value}'")
    selector = _read(spec["selector"])
    if selector is not None and not selector.matches(expected):
        yield causes.invalid("spec.selector", shown(spec["selector"]), "`selector` not auto-generated")


def _validate_spec(spec: Json) -> Iterator[Cause]:
    for name in _COUNTS:
        yield from causes.non_negative(f"spec.{name}", spec.get(name))
    if spec.get("maxFailedIndexes") is not None and "backoffLimitPerIndex" not in spec:
        yield causes.required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if (manager := spec.get("managedBy")) is not None:
        yield from _validate_manager(manager)
    mode = spec.get("completionMode")
    if mode not in _MODES:
        yield causes.not_supported("spec.completionMode", mode, ("NonIndexed", "Indexed"))
    yield from _validate_indexed(spec) if mode == "Indexed" else _validate_not_indexed(spec)
    if (policy := spec.get("podFailurePolicy")) is not None:
        yield from validate_failure_policy(policy, spec)
    if (policy := spec.get("successPolicy")) is not None:
        yield from validate_success_policy(policy, spec)
    yield from _validate_replacement(spec)
    yield from _validate_template(spec)


def _validate_manager(manager: str) -> Iterator[Cause]:
    domain, slash, path = manager.partition("/")
    if not manager:
        yield causes.required("spec.managedBy")
    elif not slash or not domain or not path:
        yield causes.invalid("spec.managedBy", manager, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        for problem in names.subdomain(domain):
            yield causes.invalid("spec.managedBy", domain, problem)
        if not _HTTP_PATH.fullmatch(path):
            detail = f"Invalid path (regex used for validation is '{_HTTP_PATH.pattern}')"
            yield causes.invalid("spec.managedBy", path, detail)
    if len(manager) > _MAX_MANAGER:
        yield causes.too_long("spec.managedBy", _MAX_MANAGER)


def _validate_indexed(spec: Json) -> Iterator[Cause]:
    completions, parallelism = spec.get("completions"), spec.get("parallelism", 0)
    failed = spec.get("maxFailedIndexes")
    if completions is None:
        yield causes.required("spec.completions", "when completion mode is Indexed")
    if parallelism > _MAX_INDEXED:
        detail = f"must be less than or equal to {_MAX_INDEXED} when completion mode is Indexed"
        yield causes.invalid("spec.parallelism", parallelism, detail)
    if completions is not None and failed is not None and failed > completions:
        yield causes.invalid("spec.maxFailedIndexes", failed, "must be less than or equal to completions")
    if failed is not None and failed > _MAX_INDEXED:
        yield causes.invalid("spec.maxFailedIndexes", failed, f"must be less than or equal to {_MAX_INDEXED}")
    if (completions or 0) > _MAX_INDEXED and "backoffLimitPerIndex" in spec:
        yield from _validate_many_indexes(parallelism, failed)


def _validate_many_indexes(parallelism: int, failed: int | None) -> Iterator[Cause]:
    limit = (
        f"must be less than or equal to {_MAX_MANY_INDEXES} when completions are above {_MAX_INDEXED} "
        "and used with backoff limit per index"
    )
    if failed is None:
        yield causes.required("spec.maxFailedIndexes", f"must be specified when completions is above {_MAX_INDEXED}")
    if parallelism > _MAX_MANY_INDEXES:
        yield causes.invalid("spec.parallelism", parallelism, limit)
    if failed is not None and failed > _MAX_MANY_INDEXES:
        yield causes.invalid("spec.maxFailedIndexes", failed, limit)


def _validate_not_indexed(spec: Json) -> Iterator[Cause]:
    for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
        if spec.get(name) is not None:
            yield causes.invalid(f"spec.{name}", spec[name], "requires indexed completion mode")


def _validate_replacement(spec: Json) -> Iterator[Cause]:
    policy = spec.get("podReplacementPolicy")
    supported = ("Failed",) if "podFailurePolicy" in spec else _REPLACEMENTS
    if policy is not None and policy not in supported:
        yield causes.not_supported("spec.podReplacementPolicy", policy, supported)


def _validate_template(spec: Json) -> Iterator[Cause]:
    pod = (spec.get("template") or {}).get("spec") or {}
    yield from validate_template(spec.get("template") or {}, "spec.template")
    field, policy = "spec.template.spec.restartPolicy", pod.get("restartPolicy")
    if policy in {None, "", "Always"}:
        yield causes.required(field, 'valid values: "OnFailure", "Never"')
    elif policy not in _RESTARTS:
        yield causes.not_supported(field, policy, ("OnFailure", "Never"))
    elif "podFailurePolicy" in spec and policy != "Never":
        yield causes.invalid(field, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _validate_selector(spec: Json) -> Iterator[Cause]:
    selector = spec.get("selector")
    if selector is None:
        yield causes.required("spec.selector")
    yield from validate_selector(selector, "spec.selector")
    labels = spec["template"].get("metadata", {}).get("labels") or {}
    read = _read(selector)
    if read is not None and not read.matches(labels):
        detail = "`selector` does not match template `labels`"
        yield causes.invalid("spec.template.metadata.labels", dict(sorted(labels.items())) or None, detail)


def _read(selector: Json | None) -> LabelSelector | None:
    try:
        return LabelSelector.from_object(selector)
    except SelectorError:
        return None


def _validate_hostname(job: Json) -> Iterator[Cause]:
    """Pods of an Indexed Job have their index in their hostname, which must be a DNS label."""
    spec, name = job["spec"], job["metadata"].get("name", "")
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and completions > 0 and name:
        hostname = f"{name}-{completions - 1}"
        if names.label(hostname):
            detail = f"will not able to create pod with invalid DNS label: {hostname}"
            yield causes.invalid("metadata.name", name, detail)
