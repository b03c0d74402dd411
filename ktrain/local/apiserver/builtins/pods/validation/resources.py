"""What containers ask for and may use, in the API server's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.api import quantity
from ktrain.local.apiserver import causes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause


def validate_resources(resources: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with what a container asks for and may use."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    amounts = {}
    for part, listed in (("limits", limits), ("requests", requests)):
        for name, amount in listed.items():
            try:
                value = amounts[part, name] = quantity.parse(amount)
            except ValueError:
                yield causes.invalid(f"{field}.{part}[{name}]", amount, "must be a valid quantity")
                continue
            if value < 0:
                yield causes.invalid(f"{field}.{part}[{name}]", amount, "must be greater than or equal to 0")
    if any(_is_extended(name) and name not in limits for name in requests):
        yield causes.required(f"{field}.limits", "Limit must be set for non overcommitable resources")
    for name, amount in requests.items():
        if ("limits", name) in amounts and ("requests", name) in amounts:
            limit, request = amounts["limits", name], amounts["requests", name]
            if request > limit:
                detail = f"must be less than or equal to {name} limit of {limits[name]}"
                yield causes.invalid(f"{field}.requests", amount, detail)
            elif request != limit and _is_extended(name):
                yield causes.invalid(f"{field}.requests", amount, f"must be equal to {name} limit of {limits[name]}")


def _is_extended(name: str) -> bool:
    """Whether a resource is one that a node offers besides Kubernetes' own; of those there is no overcommitment."""
    return "/" in name and not name.startswith("kubernetes.io/")
