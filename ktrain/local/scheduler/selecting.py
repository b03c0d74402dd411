"""What a pod says of nodes: selectors, affinity, tolerations; and of pods, in terms."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ktrain.api.selectors import LabelSelector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .objects import Expression, Node, NodeTerm, Pod, PodTerm, Taint, Toleration

_NOBODY = LabelSelector(nothing=True)


class Term(NamedTuple):
    """Pods, and the topology in which they count, independent of the pod that says so. `namespaces` None: all."""

    key: str
    selector: LabelSelector
    namespaces: frozenset[str] | None

    def matches(self, pod: Pod) -> bool:
        """Whether the pod is one of those that are meant."""
        meta = pod.metadata
        is_in = self.namespaces is None or meta.namespace in self.namespaces
        return is_in and self.selector.matches(meta.labels)


class Together(NamedTuple):
    """Pods that several terms mean at once, in the topology of one of them: affinity wants all its terms of one pod."""

    key: str
    terms: tuple[Term, ...]

    def matches(self, pod: Pod) -> bool:
        """Whether the pod is one of those that are meant."""
        return all(term.matches(pod) for term in self.terms)


def read_term(term: PodTerm, pod: Pod, namespaces: Mapping[str, Mapping[str, str]]) -> Term:
    """Resolve a term of a pod. `namespaces` are those there are, with their labels."""
    names: frozenset[str] | None = frozenset(term.namespaces)
    by_label = read_selector(bytes(term.namespace_selector))
    if by_label.is_everything:
        names = None
    elif not by_label.nothing:
        chosen = (name for name, labels in namespaces.items() if by_label.matches(labels))
        names = frozenset(term.namespaces).union(chosen)
    elif not names:
        names = frozenset((pod.metadata.namespace,))
    return Term(term.topology_key, read_selector(bytes(term.label_selector)), names)


@lru_cache(maxsize=4096)
def read_selector(text: bytes) -> LabelSelector:
    """Read a `metav1.LabelSelector`; null matches nothing."""
    return LabelSelector.from_object(msgspec.json.decode(text)) if text != b"null" else _NOBODY


def wants_node(pod: Pod, node: Node) -> bool:
    """Whether the node is one of those that the pod may run on by its selector and its required affinity."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    required = pod.spec.affinity.node_affinity.required
    return required is None or any(matches_term(term, node) for term in required.node_selector_terms)


def matches_term(term: NodeTerm, node: Node) -> bool:
    """Whether all conditions of a term hold of a node; a term without conditions holds of none."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.metadata.name}
    return all(_holds(e, node.metadata.labels) for e in term.match_expressions) and all(
        _holds(e, fields) for e in term.match_fields
    )


def _holds(expression: Expression, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.key)
    match expression.operator:
        case "In":
            return value in expression.values
        case "NotIn":
            return value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    try:
        number, bound = int(value or ""), int(expression.values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if expression.operator == "Gt" else number < bound


def tolerates(pod: Pod, taints: tuple[Taint, ...], *effects: str) -> bool:
    """Whether the pod puts up with all taints that have one of these effects."""
    return all(any(_tolerates(t, taint) for t in pod.spec.tolerations) for taint in taints if taint.effect in effects)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if not toleration.key:
        return toleration.operator == "Exists"
    return toleration.key == taint.key and (toleration.operator == "Exists" or toleration.value == taint.value)
