"""
A job as one gang: how many pods it has, and what they ask for together.

All replicated jobs count, initializers too, each with its pod set's count; a job's `replicas` and limits do not count,
as in Kubeflow's Trainer. Defaults of LimitRanges and the overhead of a RuntimeClass count (`pod_defaults`). What one
pod asks for follows `PodRequests` of k8s.io/component-helpers. Sums are exact.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

from ktrain.api import quantity

from .pod_defaults import PodDefaults

if TYPE_CHECKING:
    from ktrain.api.meta import Json

    from .info import Info
    from .points import Context

_POD_LEVEL: Final = ("cpu", "memory", "hugepages-")
"""What resources are called that a pod as a whole can ask for."""


class Amount(NamedTuple):
    """How much of one resource, and a text that spelled it: sums of `Gi` are written in `Gi`."""

    value: Fraction
    spelling: str


Amounts = dict[str, Amount]
"""By resource."""


def min_member(info: Info) -> int:
    """Count the pods that have to start together: of an elastic job those with which it can begin."""
    return sum(pod_set.enough for pod_set in info.pod_sets)


def min_resources(info: Info, ctx: Context) -> Json:
    """
    Return what they ask for once they have passed admission.

    Raises:
        ValueError: A quantity is none.
    """
    total: Amounts = {}
    defaults = PodDefaults.of(info.job.metadata.namespace, ctx)
    for pod_set in info.pod_sets:
        total = _plus(total, pod_requests(pod_set.pod, defaults), times=pod_set.enough)
    return {name: quantity.format_quantity(amount.value, like=amount.spelling) for name, amount in total.items()}


def pod_requests(pod: Json, defaults: PodDefaults) -> Amounts:
    """
    Return what one pod asks for: what runs together in sum, or more where an init container needs more.

    Sidecars (init containers that always restart) run beside those after them. Requests of the pod itself replace the
    containers', for cores, memory and huge pages; overhead comes on top.

    Raises:
        ValueError: A quantity is none.
    """
    total: Amounts = {}
    for container in pod.get("containers") or ():
        total = _plus(total, _amounts(defaults.container_requests(container)))
    sidecars: Amounts = {}
    highest: Amounts = {}
    for container in pod.get("initContainers") or ():
        alone = _amounts(defaults.container_requests(container))
        asked = _plus(alone, sidecars)
        if container.get("restartPolicy") == "Always":
            total = _plus(total, alone)
            sidecars = asked
        highest = _highest(highest, asked)
    whole = _amounts((pod.get("resources") or {}).get("requests"))
    own = {name: amount for name, amount in whole.items() if name.startswith(_POD_LEVEL)}
    return _plus(_highest(total, highest) | own, _amounts(defaults.overhead(pod)))


def _amounts(resources: Json | None) -> Amounts:
    return {name: Amount(quantity.parse(text), str(text)) for name, text in (resources or {}).items()}


def _plus(one: Amounts, other: Amounts, times: int = 1) -> Amounts:
    """Add; a resource of which nothing is added is named all the same."""
    found = dict(one)
    for name, (value, spelling) in other.items():
        before = one.get(name, Amount(Fraction(), spelling))
        found[name] = Amount(before.value + value * times, before.spelling)
    return found


def _highest(one: Amounts, other: Amounts) -> Amounts:
    return one | {name: max(amount, one.get(name, amount)) for name, amount in other.items()}
