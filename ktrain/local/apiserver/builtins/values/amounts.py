"""Quantities in fields: written canonically; and what pods ask for, added up, as exact numbers."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from ktrain.api import quantity

if TYPE_CHECKING:
    from ktrain.api.meta import Json

Part = Literal["requests", "limits"]
Amounts = dict[str, Fraction]


def canonicalise(amounts: Json, *names: str) -> None:
    """Write quantities as typed encoding does: a list of resources, or those of these names that are there."""
    write = quantity.canonical if names else quantity.canonical_amount
    for name in names or amounts:
        if name in amounts:
            with suppress(ValueError):  # validation names the field
                amounts[name] = write(amounts[name])


def read(amounts: Json | None) -> Amounts:
    """Return quantities by their names. They have been validated, so each is one."""
    return {name: quantity.parse(amount) for name, amount in (amounts or {}).items()}


def of_pod(spec: Json, part: Part) -> Amounts:
    """
    Return what a pod asks for as a whole.

    Containers run together, after the init containers, which run one by one; an init container that is restarted
    always runs beside all that follow. What the pod says of itself as a whole counts before that of its containers.
    """
    running: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _of(container, part)
        if container.get("restartPolicy") == "Always":
            running = _sum(running, own)
            peak = _most(peak, running)
        else:
            peak = _most(peak, _sum(running, own))
    for container in spec.get("containers") or ():
        running = _sum(running, _of(container, part))
    total = {**_most(peak, running), **read((spec.get("resources") or {}).get(part))}
    overhead = read(spec.get("overhead"))
    return _sum(total, overhead if part == "requests" else {name: v for name, v in overhead.items() if name in total})


def _of(container: Json, part: Part) -> Amounts:
    return read((container.get("resources") or {}).get(part))


def _sum(a: Amounts, b: Amounts) -> Amounts:
    return {name: a.get(name, Fraction()) + b.get(name, Fraction()) for name in a.keys() | b.keys()}


def _most(a: Amounts, b: Amounts) -> Amounts:
    return {name: max(a.get(name, Fraction()), b.get(name, Fraction())) for name in a.keys() | b.keys()}
