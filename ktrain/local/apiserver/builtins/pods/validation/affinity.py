"""On which nodes a pod may run, and beside which pods, in the API server's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.selectors import label_key_errors
from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.values.node_selectors import validate_node_selector, validate_node_term
from ktrain.local.apiserver.builtins.values.selectors import validate_labels, validate_selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_MAX_WEIGHT: Final = 100
_NO_SELECTOR: Final = "must not be specified when labelSelector is not set"


def validate_affinity(spec: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a pod's node selector and affinities."""
    yield from validate_labels(spec.get("nodeSelector"), f"{field}.nodeSelector")
    affinity, here = spec.get("affinity", {}), f"{field}.affinity"
    if "nodeAffinity" in affinity:
        yield from _validate_node_affinity(affinity["nodeAffinity"], f"{here}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind, {})
        for index, term in enumerate(terms.get(_REQUIRED, ())):
            yield from _validate_pod_term(term, f"{here}.{kind}.{_REQUIRED}[{index}]")
        for index, weighted in enumerate(terms.get(_PREFERRED, ())):
            path = f"{here}.{kind}.{_PREFERRED}[{index}]"
            yield from _validate_weight(weighted, path)
            yield from _validate_pod_term(weighted.get("podAffinityTerm", {}), f"{path}.podAffinityTerm")


def validate_label_keys(term: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with the labels that pods of a term have or have not in common with the pod itself."""
    selector, same, other = term.get("labelSelector"), term.get("matchLabelKeys", []), term.get("mismatchLabelKeys", [])
    for name, keys in (("matchLabelKeys", same), ("mismatchLabelKeys", other)):
        if keys and selector is None:
            yield causes.forbidden(f"{field}.{name}", _NO_SELECTOR)
        elif keys:
            for index, key in enumerate(keys):
                yield from _validate_key(key, f"{field}.{name}[{index}]")
    places = {key: index for index, key in enumerate(same)}
    seen = set((selector or {}).get("matchLabels", ()))
    for expression in (selector or {}).get("matchExpressions", ()):
        # Each of the keys is an expression by now: a second one is somebody's own.
        if (key := expression.get("key")) in seen and key in places:
            # Upstream leaves out the list that the index is of.
            yield causes.invalid(f"{field}[{places[key]}]", key, "exists in both matchLabelKeys and labelSelector")
        seen.add(key)
    others = set(other)
    for index, key in enumerate(same):
        if key in others:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield causes.invalid(f"{field}.matchLabelKeys[{index}]", key, detail)


def _validate_node_affinity(affinity: Json, field: str) -> Iterator[Cause]:
    if _REQUIRED in affinity:
        yield from validate_node_selector(affinity[_REQUIRED], f"{field}.{_REQUIRED}")
    for index, weighted in enumerate(affinity.get(_PREFERRED, ())):
        here = f"{field}.{_PREFERRED}[{index}]"
        yield from _validate_weight(weighted, here)
        # Of values that no label can have only a warning tells: the pod can run without.
        yield from validate_node_term(weighted.get("preference", {}), f"{here}.preference", strict=False)


def _validate_weight(weighted: Json, field: str) -> Iterator[Cause]:
    if not 0 < (weight := weighted.get("weight", 0)) <= _MAX_WEIGHT:
        yield causes.invalid(f"{field}.weight", weight, f"must be in the range 1-{_MAX_WEIGHT}")


def _validate_pod_term(term: Json, field: str) -> Iterator[Cause]:
    for name in ("labelSelector", "namespaceSelector"):
        yield from validate_selector(term.get(name), f"{field}.{name}")
    for namespace in term.get("namespaces", ()):
        # Upstream leaves the index and the plural out.
        yield from (causes.invalid(f"{field}.namespace", namespace, text) for text in names.label(namespace))
    yield from validate_label_keys(term, field)
    key = term.get("topologyKey", "")
    if not key:
        yield causes.required(f"{field}.topologyKey", "can not be empty")
    yield from _validate_key(key, f"{field}.topologyKey")


def _validate_key(key: str, field: str) -> Iterable[Cause]:
    return [causes.invalid(field, key, text) for text in label_key_errors(key)]
