"""LimitRanges: the kind, what it writes into new pods, what it refuses. Source: the LimitRanger admission plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.api.selectors import label_key_errors
from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins.simple import PlainStrategy
from ktrain.local.apiserver.builtins.values import amounts
from ktrain.local.apiserver.errors import forbidden

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.builtins.values.amounts import Amounts
    from ktrain.local.apiserver.registry import ServedResource

ANNOTATION: Final = "kubernetes.io/limit-ranger"
_CLAIM: Final = "PersistentVolumeClaim"
_TYPES: Final = frozenset({"Container", "Pod", _CLAIM})
_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage", "storage"})
_HUGE_PAGES: Final = "hugepages-"
_ORDER: Final = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than max value {}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)
"""What may not be more than what: the two, the field that is blamed, the value that is shown, the text."""
_AMOUNTS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


class LimitRangeStrategy(PlainStrategy):
    """LimitRanges."""

    empty: Json = {"spec": {"limits": None}}

    def default(self, obj: Json) -> None:
        """Containers without a word of their own get the maximum, and ask for what they may have."""
        spec = obj.setdefault("spec", {})
        spec["limits"] = spec.get("limits") or None
        for limit in spec["limits"] or ():
            for name in _AMOUNTS:
                if limit.get(name):
                    limit[name] = {key: quantity.canonical_amount(value) for key, value in limit[name].items()}
            if limit.get("type") != "Container":
                continue
            default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
            request = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
            for name, value in (("default", default), ("defaultRequest", request)):
                if value:
                    limit[name] = value

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check that minima, defaults and maxima are in order."""
        found: list[Cause] = []
        limits = (obj.get("spec") or {}).get("limits") or ()
        for index, limit in enumerate(limits):
            field = f"spec.limits[{index}]"
            if limit.get("type") in [other.get("type") for other in limits[:index]]:
                found.append(causes.duplicate(f"{field}.type", limit["type"]))
            found += _validate_limit(limit, field)
        return found


def _validate_limit(limit: Json, field: str) -> Iterator[Cause]:
    kind = limit.get("type", "")
    yield from _validate_type(kind, f"{field}.type")
    given = {name: limit.get(name) or {} for name in _AMOUNTS}
    for part, listed in given.items():
        for name in sorted(listed):
            yield from _validate_name(kind, name, f"{field}.{part}[{name}]")
    for name in ("default", "defaultRequest") if kind == "Pod" else ():
        if given[name]:
            yield causes.forbidden(f"{field}.{name}", "may not be specified when `type` is 'Pod'")
    if kind == _CLAIM and "storage" not in given["min"] and "storage" not in given["max"]:
        detail = "either minimum or maximum storage value is required, but neither was provided"
        yield causes.required(f"{field}.limits", detail)
    for low, high, where, shown, text in _ORDER:
        for name in sorted(given[low].keys() & given[high].keys()):
            least, most = given[low][name], given[high][name]
            if quantity.parse(least) > quantity.parse(most):
                value = given[shown][name]
                yield causes.invalid(f"{field}.{where}[{name}]", value, text.format(least, most))
    yield from _validate_ratios(given, field)


def _validate_ratios(given: Json, field: str) -> Iterator[Cause]:
    for name, ratio in sorted(given["maxLimitRequestRatio"].items()):
        path, least, most = f"{field}.maxLimitRequestRatio[{name}]", given["min"].get(name), given["max"].get(name)
        if quantity.parse(ratio) < 1:
            yield causes.invalid(path, ratio, f"ratio {ratio} is less than 1")
        if least is None or most is None or not quantity.parse(least):
            continue
        widest = quantity.parse(most) / quantity.parse(least)
        if quantity.parse(ratio) > widest:
            detail = f"ratio {ratio} is greater than max/min = {float(widest):f}"
            yield causes.invalid(path, ratio, detail)


def _validate_type(kind: str, field: str) -> Iterator[Cause]:
    problems = label_key_errors(kind)
    for text in problems:
        yield causes.invalid(field, kind, text)
    if not problems and "/" not in kind and kind not in _TYPES:
        yield causes.invalid(field, kind, "must be a standard limit type or fully qualified")


def _validate_name(kind: str, name: str, field: str) -> Iterator[Cause]:
    problems = label_key_errors(name)
    for text in problems:
        yield causes.invalid(field, name, text)
    if problems or "/" in name:
        return
    standard = name in _RESOURCES or name.startswith(_HUGE_PAGES)
    if not standard:
        yield causes.invalid(field, name, "must be a standard resource type or fully qualified")
    if kind in {"Pod", "Container"} and (not standard or name == "storage"):
        yield causes.invalid(field, name, "must be a standard resource for containers")


def apply_defaults(pod: Json, backend: Backend) -> None:
    """Write into a new pod's containers what the limits of its namespace say of those that say nothing."""
    for limit_range in _in_namespace(pod, backend):
        written: list[str] = []
        limits, requests = _container_defaults(limit_range)
        if not limits and not requests:
            continue
        for field, what in (("containers", "container"), ("initContainers", "init container")):
            for container in pod["spec"].get(field) or ():
                resources = container.setdefault("resources", {})
                written += _fill(resources, "requests", requests, f"request for {what} {container.get('name', '')}")
                written += _fill(resources, "limits", limits, f"limit for {what} {container.get('name', '')}")
        if written:
            annotations = pod["metadata"].setdefault("annotations", {})
            annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(written)}"


def _container_defaults(limit_range: Json) -> tuple[Json, Json]:
    limits: Json = {}
    requests: Json = {}
    for limit in (limit_range.get("spec") or {}).get("limits") or ():
        if limit.get("type") == "Container":
            limits |= limit.get("default") or {}
            requests |= limit.get("defaultRequest") or {}
    return limits, requests


def _fill(resources: Json, part: str, defaults: Json, what: str) -> list[str]:
    missing = {name: value for name, value in defaults.items() if name not in (resources.get(part) or {})}
    if not missing:
        return []
    resources[part] = {**(resources.get(part) or {}), **missing}
    return [f"{', '.join(sorted(missing))} {what}"]


def check(resource: ServedResource, obj: Json, backend: Backend) -> None:
    """
    Hold a pod or a claim to the limits of its namespace.

    Raises:
        StatusError: 403 that lists all it breaks of one LimitRange.
    """
    for limit_range in _in_namespace(obj, backend):
        broken = [text for limit in (limit_range.get("spec") or {}).get("limits") or () for text in _broken(limit, obj)]
        if broken:
            detail = broken[0] if len(broken) == 1 else f"[{', '.join(broken)}]"
            raise forbidden(resource, obj["metadata"].get("name", ""), detail)


def _in_namespace(obj: Json, backend: Backend) -> list[Json]:
    ranges = backend.store.collection("limitranges")
    return [item.obj for _, item in ranges.entries(obj["metadata"].get("namespace", ""))] if len(ranges) else []


def _broken(limit: Json, obj: Json) -> Iterator[str]:
    kind, spec = limit.get("type", ""), obj["spec"]
    if kind == _CLAIM and obj.get("kind") == _CLAIM:
        requests = (spec.get("resources") or {}).get("requests") or {}
        yield from _too_little(limit, kind, requests, {})
        yield from _too_much(limit, kind, requests, requests, of_requests=True)
    elif kind == "Container" and obj.get("kind") == "Pod":
        for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
            resources = container.get("resources") or {}
            yield from _all(limit, kind, resources.get("requests") or {}, resources.get("limits") or {})
    elif kind == "Pod" and obj.get("kind") == "Pod":
        yield from _all(limit, kind, _shown(amounts.of_pod(spec, "requests")), _shown(amounts.of_pod(spec, "limits")))


def _shown(total: Amounts) -> Json:
    return {
        name: quantity.format_quantity(value, like="Mi" if name == "memory" else "") for name, value in total.items()
    }


def _all(limit: Json, kind: str, requests: Json, limits: Json) -> Iterator[str]:
    yield from _too_little(limit, kind, requests, limits)
    yield from _too_much(limit, kind, requests, limits)
    for name, ratio in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        yield from _uneven(
            f"{name} max limit to request ratio per {kind} is {ratio}", ratio, requests.get(name), limits.get(name)
        )


def _too_little(limit: Json, kind: str, requests: Json, limits: Json) -> Iterator[str]:
    for name, least in sorted((limit.get("min") or {}).items()):
        text = f"minimum {name} usage per {kind} is {least}"
        if name not in requests:
            yield f"{text}.  No request is specified"
        elif quantity.parse(requests[name]) < quantity.parse(least):
            yield f"{text}, but request is {requests[name]}"
        elif name in limits and quantity.parse(limits[name]) < quantity.parse(least):
            yield f"{text}, but limit is {limits[name]}"


def _too_much(limit: Json, kind: str, requests: Json, limits: Json, *, of_requests: bool = False) -> Iterator[str]:
    what = "request" if of_requests else "limit"
    for name, most in sorted((limit.get("max") or {}).items()):
        text = f"maximum {name} usage per {kind} is {most}"
        if name not in limits:
            yield f"{text}.  No {what} is specified"
        elif quantity.parse(limits[name]) > quantity.parse(most):
            yield f"{text}, but {what} is {limits[name]}"
        elif name in requests and quantity.parse(requests[name]) > quantity.parse(most):
            yield f"{text}, but request is {requests[name]}"


def _uneven(text: str, ratio: str, request: str | None, limit: str | None) -> Iterator[str]:
    for value, what in ((request, "request"), (limit, "limit")):
        if value is None or not quantity.parse(value):
            yield f"{text}, but no {what} is specified or {what} is 0"
            return
    assert request is not None and limit is not None  # noqa: PT018, S101 - looked at above
    found = quantity.parse(limit) / quantity.parse(request)
    if found > quantity.parse(ratio):
        yield f"{text}, but provided ratio is {float(found):f}"
