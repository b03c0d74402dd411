"""HorizontalPodAutoscalers (`autoscaling/v2`): stored and validated. `ktrain.local.autoscaler` acts on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.values.amounts import canonicalise
from ktrain.local.apiserver.builtins.volumes.amounts import amount
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend

_CPU_PERCENT: Final = 80
_MAX_WINDOW_S: Final = 3600
_MAX_PERIOD_S: Final = 1800
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_SOURCES: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_SCALE_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN: Final = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


class AutoscalerStrategy(Strategy):
    """HorizontalPodAutoscalers."""

    has_generation = False

    def default(self, obj: Json) -> None:
        """Fill in bounds, the usual metric, and the rules of a behaviour that is given at all."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": _CPU_PERCENT}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
        for metric in spec["metrics"]:
            for source in _SOURCES.values():
                canonicalise((metric.get(source) or {}).get("target") or {}, "value", "averageValue")
        if (behavior := spec.get("behavior")) is not None:
            behavior["scaleUp"] = {**_SCALE_UP, **behavior.get("scaleUp", {})}
            behavior["scaleDown"] = {**_SCALE_DOWN, **behavior.get("scaleDown", {})}
            for rules in behavior.values():
                canonicalise(rules, "tolerance")
        obj["status"] = {"desiredReplicas": 0, "currentMetrics": None, **obj.get("status", {})}

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Start with nothing observed; typed encoding writes these two."""
        obj["status"] = {"desiredReplicas": 0, "currentMetrics": None}

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check bounds, target, metrics and behaviour."""
        spec = obj.get("spec") or {}
        target = spec.get("scaleTargetRef") or {}
        found = [*_validate_bounds(spec), *_validate_reference(target, "spec.scaleTargetRef", grouped=True)]
        for index, metric in enumerate(spec.get("metrics") or ()):
            found += _validate_metric(metric, f"spec.metrics[{index}]")
        for name, rules in (spec.get("behavior") or {}).items():
            found += _validate_rules(rules, f"spec.behavior.{name}")
        return found

    def validate_status(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Counts are not negative."""
        status = obj.get("status") or {}
        counts = ("currentReplicas", "desiredReplicas")
        return [cause for name in counts for cause in causes.non_negative(f"status.{name}", status.get(name))]


def _validate_bounds(spec: Json) -> Iterator[Cause]:
    low, high = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    if low == 0 and not any(metric.get("type") in {"Object", "External"} for metric in spec.get("metrics", ())):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield causes.forbidden("spec.metrics", detail)
    if low < 1:
        yield causes.invalid("spec.minReplicas", low, "must be greater than or equal to 1")
    if high == 0:
        yield causes.required("spec.maxReplicas", "must be set and greater than 0")
    elif high < 0:
        yield causes.invalid("spec.maxReplicas", high, "must be greater than or equal to 1")
    if high < low:
        yield causes.invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`")


def _validate_reference(reference: Json, field: str, *, grouped: bool = False) -> Iterator[Cause]:
    for name in ("kind", "name"):
        if not (value := reference.get(name)):
            yield causes.required(f"{field}.{name}")
        else:
            for text in names.path_segment(value):
                yield causes.invalid(f"{field}.{name}", value, text)
    version = reference.get("apiVersion", "")
    if not grouped:
        return
    if version.count("/") > 1:
        yield causes.invalid(f"{field}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    elif "/" not in version and reference.get("kind") != "ReplicationController":
        yield causes.invalid(f"{field}.apiVersion", version, "apiVersion must specify API group")


def _validate_metric(metric: Json, field: str) -> Iterator[Cause]:
    kind = metric.get("type", "")
    given = [source for source in sorted(_SOURCES.values()) if source in metric]
    expected = _SOURCES.get(kind)
    if not kind:
        yield causes.required(f"{field}.type", "must specify a metric source type")
    if expected is None:
        # Twice: upstream checks it before and after it looks at the sources.
        yield from [causes.not_supported(f"{field}.type", kind, list(_SOURCES))] * 2
    elif expected not in metric:
        yield causes.required(f"{field}.{expected}", "must populate information for the given metric source")
    if len(given) > 1:
        for source in given:
            if source != expected:
                yield causes.forbidden(f"{field}.{source}", "must populate the given metric source only")
    for source in given[:1]:
        yield from _validate_source(source, metric[source], f"{field}.{source}")


def _validate_source(source: str, value: Json, field: str) -> Iterator[Cause]:
    target = value.get("target") or {}
    if source in {"resource", "containerResource"}:
        if not value.get("name"):
            yield causes.required(f"{field}.name", "must specify a resource name")
        if source == "containerResource" and not value.get("container"):
            yield causes.required(f"{field}.container", "must specify a container")
        elif source == "containerResource":
            for text in names.label(value["container"]):
                yield causes.invalid(f"{field}.container", value["container"], text)
    elif not (name := (value.get("metric") or {}).get("name")):
        yield causes.required(f"{field}.metric.name", "must specify a metric name")
    else:
        yield from (causes.invalid(f"{field}.metric.name", name, text) for text in names.path_segment(name))
    if source == "object":
        yield from _validate_reference(value.get("describedObject") or {}, f"{field}.describedObject")
    yield from _validate_target(target, f"{field}.target")
    yield from _validate_choice(source, target, f"{field}.target")


def _validate_target(target: Json, field: str) -> Iterator[Cause]:
    kind = target.get("type", "")
    if not kind:
        yield causes.required(f"{field}.type", "must specify a metric target type")
    if kind not in _TARGETS:
        yield causes.invalid(f"{field}.type", kind, "must be either Utilization, Value, or AverageValue")
    for name in ("value", "averageValue"):
        if name in target and amount(target[name]) <= 0:
            yield causes.invalid(f"{field}.{name}", target[name], "must be positive")
    if target.get("averageUtilization", 1) < 1:
        yield causes.invalid(f"{field}.averageUtilization", target["averageUtilization"], "must be greater than 0")


def _validate_choice(source: str, target: Json, field: str) -> Iterator[Cause]:
    value, average, share = (name in target for name in ("value", "averageValue", "averageUtilization"))
    if source in {"resource", "containerResource"}:
        if not average and not share:
            detail = "must set either a target raw value or a target utilization"
            yield causes.required(f"{field}.averageUtilization", detail)
        elif average and share:
            detail = "may not set both a target raw value and a target utilization"
            yield causes.forbidden(f"{field}.averageValue", detail)
    elif source == "pods":
        if not average:
            yield causes.required(f"{field}.averageValue", "must specify a positive target averageValue")
    elif not value and not average:
        per_pod = "value for metric or a per-pod target" if source == "external" else "value or averageValue"
        yield causes.required(f"{field}.averageValue", f"must set either a target {per_pod}")
    elif value and average and source == "external":
        detail = "may not set both a target value for metric and a per-pod target"
        yield causes.forbidden(f"{field}.value", detail)


def _validate_rules(rules: Json, field: str) -> Iterator[Cause]:
    window = rules.get("stabilizationWindowSeconds", 0)
    if window < 0:
        yield causes.invalid(f"{field}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
    if window > _MAX_WINDOW_S:
        detail = f"must be less than or equal to {_MAX_WINDOW_S}"
        yield causes.invalid(f"{field}.stabilizationWindowSeconds", window, detail)
    if (choice := rules.get("selectPolicy", "Max")) not in {"Max", "Min", "Disabled"}:
        yield causes.not_supported(f"{field}.selectPolicy", choice, ["Disabled", "Max", "Min"])
    if not rules.get("policies"):
        yield causes.required(f"{field}.policies", "must specify at least one Policy")
    if (tolerance := rules.get("tolerance")) is not None and amount(tolerance) < 0:
        yield causes.invalid(f"{field}.tolerance", tolerance, "must be greater than or equal to 0")
    for index, policy in enumerate(rules.get("policies") or ()):
        path = f"{field}.policies[{index}]"
        if policy.get("type") not in {"Pods", "Percent"}:
            yield causes.not_supported(f"{path}.type", policy.get("type", ""), ["Percent", "Pods"])
        for name in ("value", "periodSeconds"):
            if policy.get(name, 0) <= 0:
                yield causes.invalid(f"{path}.{name}", policy.get(name, 0), "must be greater than zero")
        if policy.get("periodSeconds", 0) > _MAX_PERIOD_S:
            detail = f"must be less than or equal to {_MAX_PERIOD_S}"
            yield causes.invalid(f"{path}.periodSeconds", policy["periodSeconds"], detail)
