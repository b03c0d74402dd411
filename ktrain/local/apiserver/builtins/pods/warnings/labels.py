"""Labels of nodes that have newer names, and selectors that select nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.selectors import label_value_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_DEPRECATED: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_NO_SELECTOR: Final = "a null labelSelector results in matching no pod"


def warn_of_labels(spec: Json, field: str) -> Iterator[str]:
    """Yield warnings of where a pod is to run."""
    for key in spec.get("nodeSelector", ()):
        if key in _DEPRECATED:
            yield f"{field}.nodeSelector[{key}]: {_DEPRECATED[key]}"
    for index, constraint in enumerate(spec.get("topologySpreadConstraints", ())):
        here, key = f"{field}.topologySpreadConstraints[{index}]", constraint.get("topologyKey", "")
        if key in _DEPRECATED:
            yield f"{here}.topologyKey: {key} is {_DEPRECATED[key]}"
        if "labelSelector" not in constraint:
            yield f"{here}.labelSelector: {_NO_SELECTOR}"
    if affinity := spec.get("affinity"):
        yield from _warn_of_nodes(affinity.get("nodeAffinity", {}), f"{field}.affinity.nodeAffinity")
        for kind in ("podAffinity", "podAntiAffinity"):
            yield from _warn_of_pods(affinity.get(kind, {}), f"{field}.affinity.{kind}")


def _warn_of_nodes(affinity: Json, field: str) -> Iterator[str]:
    for index, term in enumerate(affinity.get(_REQUIRED, {}).get("nodeSelectorTerms", ())):
        yield from _warn_of_term(term, f"{field}.{_REQUIRED}.nodeSelectorTerms[{index}]", values=False)
    for index, weighted in enumerate(affinity.get(_PREFERRED, ())):
        here = f"{field}.{_PREFERRED}[{index}].preference"
        yield from _warn_of_term(weighted.get("preference", {}), here, values=True)


def _warn_of_term(term: Json, field: str, *, values: bool) -> Iterator[str]:
    for index, expression in enumerate(term.get("matchExpressions", ())):
        here, key = f"{field}.matchExpressions[{index}]", expression.get("key", "")
        if key in _DEPRECATED:
            yield f"{here}.key: {key} is {_DEPRECATED[key]}"
        for number, value in enumerate(expression.get("values", ()) if values else ()):
            yield from (f"{here}.values[{number}]: {value} is invalid, {text}" for text in label_value_errors(value))


def _warn_of_pods(affinity: Json, field: str) -> Iterator[str]:
    terms = [(f"{_REQUIRED}[{index}]", term) for index, term in enumerate(affinity.get(_REQUIRED, ()))]
    terms += [
        (f"{_PREFERRED}[{index}].podAffinityTerm", weighted.get("podAffinityTerm", {}))
        for index, weighted in enumerate(affinity.get(_PREFERRED, ()))
    ]
    for path, term in terms:
        if "labelSelector" not in term:
            yield f"{field}.{path}.labelSelector: {_NO_SELECTOR}"
