"""
What a pod asks for and what a node has to give, as whole numbers: thousandths of every unit.

Source: KEP-753 for sidecars, and `resourcehelper.PodRequests`: containers and sidecars add up; an ordinary init
container needs what it asks for beside the sidecars that started before it, and no more than the largest counts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ktrain.api import quantity

if TYPE_CHECKING:
    from .objects import Amounts, Container, Pod

Numbers = dict[str, int]


@lru_cache(maxsize=4096)
def thousandths(amount: str | float) -> int:
    """Read a quantity, rounded up. Raises ValueError: it is none."""
    number = quantity.parse(amount) * 1000
    return -(-number.numerator // number.denominator)


def numbers(amounts: Amounts) -> Numbers:
    """Read quantities by name. Raises ValueError: one is none."""
    return {name: thousandths(amount) for name, amount in amounts.items()}


def requests_of(pod: Pod) -> Numbers:
    """Return what the pod asks for, all in all; what is zero is left out."""
    total: Numbers = {}
    sidecars: Numbers = {}
    peak: Numbers = {}
    for container in pod.spec.containers:
        _add(total, _of(container))
    for container in pod.spec.init_containers:
        asked = _of(container)
        if container.restart_policy == "Always":
            _add(sidecars, asked)
            _add(total, asked)
            asked = {}
        for name in {*asked, *sidecars}:
            peak[name] = max(peak.get(name, 0), asked.get(name, 0) + sidecars.get(name, 0))
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0), amount)
    _add(total, numbers(pod.spec.overhead))
    return {name: amount for name, amount in total.items() if amount}


def _of(container: Container) -> Numbers:
    return numbers({**container.resources.limits, **container.resources.requests})


def _add(total: Numbers, more: Numbers) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
