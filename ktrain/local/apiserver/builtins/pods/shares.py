"""
What a pod asks for as a whole, as far as its containers and its limits say it (pod-level resources, KEP-2837).

A request that is not given is what the containers ask for together, or else the limit. Of huge pages, of which there is
no overcommitment, the limit is what the containers may use together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.api import quantity
from ktrain.local.apiserver.builtins.values import amounts

if TYPE_CHECKING:
    from fractions import Fraction

    from ktrain.api.meta import Json

_WHOLE = frozenset({"cpu", "memory"})


def default_shares(spec: Json) -> None:
    """Fill in what a pod that says something of itself as a whole leaves to its containers to say."""
    resources = spec["resources"]
    if not resources.get("limits") and not resources.get("requests"):
        return
    try:
        _default_limits(resources, spec)
        if resources.get("limits"):
            _default_requests(resources, spec)
    except ValueError:
        return  # validation names the field


def of_containers(spec: Json, part: amounts.Part) -> dict[str, Fraction]:
    """Return what the containers of a pod ask for or may use together."""
    return amounts.of_pod({name: spec.get(name, ()) for name in ("containers", "initContainers")}, part)


def shown(name: str, amount: Fraction, spec: Json, part: amounts.Part) -> str:
    """Write a sum of what containers say in the family of units that the first of them uses."""
    given = (
        container["resources"][part][name]
        for group in ("containers", "initContainers")
        for container in spec.get(group, ())
        if name in container.get("resources", {}).get(part, {})
    )
    return quantity.format_quantity(amount, like=next(given, ""))


def _default_limits(resources: Json, spec: Json) -> None:
    limits = {
        name: shown(name, amount, spec, "limits")
        for name, amount in of_containers(spec, "limits").items()
        if name.startswith("hugepages-") and name not in resources.get("requests", {})
    }
    if limits:
        resources["limits"] = {**limits, **resources.get("limits", {})}


def _default_requests(resources: Json, spec: Json) -> None:
    limits = {
        name: limit for name, limit in resources["limits"].items() if name in _WHOLE or name.startswith("hugepages-")
    }
    asked = {
        name: shown(name, amount, spec, "requests")
        for name, amount in of_containers(spec, "requests").items()
        if name in _WHOLE
    }
    if requests := {**limits, **asked, **resources.get("requests", {})}:
        resources["requests"] = requests
