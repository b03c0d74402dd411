"""What a pod asks for as a whole: resources beside its containers', devices, and what its runtime costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.pods.shares import of_containers, shown
from ktrain.local.apiserver.builtins.pods.validation.resources import (
    is_huge,
    validate_pod_resources,
    validate_resources,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.builtins.values.amounts import Part

_CLAIM_SOURCES: Final = ("resourceClaimName", "resourceClaimTemplateName")
_ONE_SOURCE: Final = "`resourceClaimName`, `resourceClaimTemplateName`"


def validate_shares(spec: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with what a pod as a whole asks for."""
    yield from _validate_claims(spec.get("resourceClaims", ()), f"{field}.resourceClaims")
    if (resources := spec.get("resources")) is not None:
        yield from _validate_pod_level(resources, spec, f"{field}.resources")
    if overhead := spec.get("overhead"):
        yield from validate_resources({"limits": overhead}, f"{field}.overhead", ())


def _validate_claims(claims: list[Json], field: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        here, name = f"{field}[{index}]", claim.get("name", "")
        if not name:
            yield causes.required(f"{here}.name")
        elif name in seen:
            yield causes.duplicate(f"{here}.name", name)
        else:
            yield from (causes.invalid(f"{here}.name", name, text) for text in names.label(name))
        seen.add(name)
        given = [part for part in _CLAIM_SOURCES if part in claim]
        if len(given) > 1:
            detail = f"at most one of {_ONE_SOURCE.replace(',', ' or')} may be specified"
            yield causes.invalid(here, _held(claim), detail)
        if not given:
            yield causes.invalid(here, _held(claim), f"must specify one of: {_ONE_SOURCE}")
        for part in given:
            yield from (causes.invalid(f"{here}.{part}", claim[part], text) for text in names.subdomain(claim[part]))


def _held(claim: Json) -> Json:
    """Return a claim as the server holds it, which is how it shows it."""
    return {"Name": claim.get("name", ""), **{part[0].upper() + part[1:]: claim.get(part) for part in _CLAIM_SOURCES}}


def _validate_pod_level(resources: Json, spec: Json, field: str) -> Iterator[Cause]:
    if spec.get("os", {}).get("name") == "windows":
        yield causes.forbidden(field, "may not be set for a windows pod")
        return
    yield from validate_pod_resources(resources, field)
    if claimed := resources.get("claims"):
        known = [claim.get("name", "") for claim in spec.get("resourceClaims", ())]
        yield from validate_resources({"claims": claimed}, field, known)
    limits = resources.get("limits", {})
    yield from _validate_sum(resources.get("requests", {}), spec, "requests", f"{field}.requests")
    yield from _validate_sum({n: v for n, v in limits.items() if is_huge(n)}, spec, "limits", f"{field}.limits")
    for index, container in enumerate(spec.get("containers", ()) if limits else ()):
        for name, limit in container.get("resources", {}).get("limits", {}).items():
            if name in limits and quantity.parse(limit) > quantity.parse(limits[name]):
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                yield causes.invalid(f"{field}.containers[{index}][{name}].limits", limit, detail)


def _validate_sum(own: Json, spec: Json, part: Part, field: str) -> Iterator[Cause]:
    """The containers together ask for no more than the pod."""
    for name, used in of_containers(spec, part).items() if own else ():
        if name in own and used > quantity.parse(own[name]):
            total = shown(name, used, spec, part)
            detail = f"must be greater than or equal to aggregate container {part} of {total}"
            yield causes.invalid(f"{field}[{name}]", own[name], detail)
