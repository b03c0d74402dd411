"""
What containers, and pods as a whole, ask for and may use, in the API server's words.

Kubernetes' own resources have names without a slash; of those that nodes offer besides, and of huge pages, there is no
overcommitment: what is asked for is what may be used.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.api.selectors import label_key_errors
from ktrain.local.apiserver import causes, names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from fractions import Fraction

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

    NameRule = Callable[[str, str], Iterator[Cause]]

_CONTAINER: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_POD: Final = ("cpu", "hugepages-", "memory")
_COUNTED: Final = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    }
)
_STANDARD: Final = (
    _CONTAINER
    | _COUNTED
    | {f"{part}.{name}" for part in ("limits", "requests") for name in _CONTAINER}
    | {"storage", "requests.storage"}
)
_PARTS: Final = ("limits", "requests")
_NAMED_CLAIMS: Final = 100


def validate_resources(resources: Json, field: str, claims: Collection[str]) -> Iterator[Cause]:
    """Yield what is wrong with what a container of a pod with these claims asks for and may use."""
    if resources:
        yield from _validate_amounts(resources, field, _validate_container_name)
        yield from _validate_claims(resources.get("claims", ()), f"{field}.claims", claims)


def validate_pod_resources(resources: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with what a pod as a whole asks for and may use."""
    if "claims" in resources:
        yield causes.forbidden(f"{field}.claims", "claims may not be set for Resources at pod-level")
    yield from _validate_amounts(resources, field, _validate_pod_name)


def is_huge(name: str) -> bool:
    """Whether a resource is memory in huge pages."""
    return name.startswith("hugepages-")


def _validate_amounts(resources: Json, field: str, name_rule: NameRule) -> Iterator[Cause]:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    read: dict[tuple[str, str], Fraction] = {}
    for part, listed in (("limits", limits), ("requests", requests)):
        for name, amount in listed.items():
            here = f"{field}.{part}[{name}]"
            yield from name_rule(name, here)
            try:
                value = read[part, name] = quantity.parse(amount)
            except ValueError:
                yield causes.invalid(here, amount, "must be a valid quantity")
                continue
            yield from _validate_amount(name, amount, value, here)
    for name, amount in requests.items():
        if name not in limits:
            if _is_exact(name):
                yield causes.required(f"{field}.limits", "Limit must be set for non overcommitable resources")
        elif ("limits", name) in read and ("requests", name) in read:
            difference = read["requests", name] - read["limits", name]
            if difference and _is_exact(name):
                yield causes.invalid(f"{field}.requests", amount, f"must be equal to {name} limit of {limits[name]}")
            elif difference > 0:
                detail = f"must be less than or equal to {name} limit of {limits[name]}"
                yield causes.invalid(f"{field}.requests", amount, detail)
    used = limits.keys() | requests.keys()
    if any(is_huge(name) for name in used) and not used & {"cpu", "memory"}:
        yield causes.forbidden(field, "HugePages require cpu or memory")


def _validate_amount(name: str, amount: str, value: Fraction, field: str) -> Iterator[Cause]:
    if value < 0:
        yield causes.invalid(field, amount, "must be greater than or equal to 0")
    if (name in _COUNTED or _is_extended(name)) and math.ceil(value * 1000) % 1000:
        yield causes.invalid(field, amount, "must be an integer")
    if is_huge(name) and not _fits(value, name.removeprefix("hugepages-")):
        yield causes.invalid(field, amount, f"{amount} is not positive integer multiple of {name}")


def _validate_name(name: str, field: str) -> Iterator[Cause]:
    malformed = label_key_errors(name)
    for text in malformed:
        yield causes.invalid(field, name, text)
    if not malformed and "/" not in name and name not in _STANDARD and not name.startswith(_HUGE_PREFIXES):
        yield causes.invalid(field, name, "must be a standard resource type or fully qualified")


_HUGE_PREFIXES: Final = ("hugepages-", "requests.hugepages-")


def _validate_container_name(name: str, field: str) -> Iterator[Cause]:
    if name in _CONTAINER:
        return
    yield from _validate_name(name, field)
    if "/" not in name and not is_huge(name):
        yield causes.invalid(field, name, "must be a standard resource for containers")
    elif not _is_native(name) and not _is_extended(name):
        yield causes.invalid(field, name, "doesn't follow extended resource name standard")


def _validate_pod_name(name: str, field: str) -> Iterator[Cause]:
    wrong = list(_validate_name(name, field))
    yield from wrong
    if not wrong and name not in _POD and not is_huge(name):
        yield causes.not_supported(field, name, _POD)


def _validate_claims(used: list[Json], field: str, claims: Collection[str]) -> Iterator[Cause]:
    seen: set[str] = set()
    counts: Counter[str] = Counter()
    among = set(claims)
    known = _known(among)
    for index, claim in enumerate(used):
        here, name, request = f"{field}[{index}]", claim.get("name", ""), claim.get("request", "")
        if not name:
            yield causes.required(here)
            continue
        key = f"{name}/{request}" if request else name
        if name in seen:
            yield causes.duplicate(here, name)
        else:
            if request:
                for text in names.label(request):
                    yield causes.invalid(f"{here}.request", request, text)
            if key in seen:
                yield causes.duplicate(here, key)
            elif not request:
                for _ in range(counts[name]):
                    yield causes.duplicate(here, name)
            if key not in seen:
                counts[key.partition("/")[0]] += 1
            seen.add(key)
        if name not in among:
            yield causes.missing_reference(here, name, f"must be one of the names in pod.spec.resourceClaims{known}")


def _known(claims: Collection[str]) -> str:
    """Name the claims there are; not all of very many, since every unknown one is answered with them."""
    if not claims:
        return " which is empty"
    more = ", ..." if len(claims) > _NAMED_CLAIMS else ""
    return ": " + ", ".join(sorted(claims)[:_NAMED_CLAIMS]) + more


def _fits(value: Fraction, page: str) -> bool:
    """Whether an amount is so many whole pages."""
    try:
        size = quantity.parse(page)
    except ValueError:
        return False
    return size > 0 and size.denominator == 1 and not math.ceil(abs(value)) % int(size)


def _is_exact(name: str) -> bool:
    """Whether what is asked for has to be what may be used."""
    return is_huge(name) or not _is_native(name)


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    """Whether a resource is one that nodes offer besides Kubernetes' own, and a quota can name it."""
    return not _is_native(name) and not name.startswith("requests.") and not label_key_errors(f"requests.{name}")
