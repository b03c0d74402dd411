"""Labels of a new pod that become part of its own selectors, by `matchLabelKeys` and `mismatchLabelKeys` (KEP-3633)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json

_OPERATORS: Final = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def merge_label_keys(pod: Json) -> None:
    """Select by what the pod is labelled with, besides what its affinities and spreading constraints select."""
    labels = pod["metadata"].get("labels", {})
    for term in _terms(pod["spec"]):
        if "labelSelector" not in term:
            continue  # it matches nothing, whatever else is asked
        added = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for name, operator in _OPERATORS.items()
            for key in term.get(name, ())
            if key in labels
        ]
        if added:
            selector = term["labelSelector"]
            selector["matchExpressions"] = [*selector.get("matchExpressions", ()), *added]


def _terms(spec: Json) -> Iterator[Json]:
    yield from spec.get("topologySpreadConstraints", ())
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = spec.get("affinity", {}).get(kind, {})
        yield from affinity.get(_REQUIRED, ())
        yield from (weighted.get("podAffinityTerm", {}) for weighted in affinity.get(_PREFERRED, ()))
