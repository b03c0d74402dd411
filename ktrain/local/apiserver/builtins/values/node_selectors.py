"""Node selectors (`v1.NodeSelector`): on which nodes a pod may run, and from which a volume can be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.selectors import label_key_errors, label_value_errors
from ktrain.local.apiserver import causes, names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_BAD_OPERATOR: Final = "not a valid selector operator"


def validate_node_selector(selector: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a node selector."""
    terms, field = selector.get("nodeSelectorTerms") or [], f"{field}.nodeSelectorTerms"
    if not terms:
        yield causes.required(field, "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from validate_node_term(term, f"{field}[{index}]")


def validate_node_term(term: Json, field: str, *, strict: bool = True) -> Iterator[Cause]:
    """Yield what is wrong with a term; only a strict one minds values that no label can have."""
    for number, expression in enumerate(term.get("matchExpressions") or ()):
        yield from _validate_label(expression, f"{field}.matchExpressions[{number}]", strict=strict)
    for number, expression in enumerate(term.get("matchFields") or ()):
        yield from _validate_name(expression, f"{field}.matchFields[{number}]")


def _validate_label(expression: Json, field: str, *, strict: bool) -> Iterator[Cause]:
    operator, values = expression.get("operator", ""), expression.get("values") or []
    match operator:
        case "In" | "NotIn" if not values:
            yield causes.required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist" if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield causes.forbidden(f"{field}.values", detail)
        case "Gt" | "Lt" if len(values) != 1:
            yield causes.required(f"{field}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt":
            pass
        case _:
            yield causes.invalid(f"{field}.operator", operator, _BAD_OPERATOR)
    key = expression.get("key", "")
    for text in label_key_errors(key):
        yield causes.invalid(f"{field}.key", key, text)
    for index, value in enumerate(values if strict else ()):
        for text in label_value_errors(value):
            yield causes.invalid(f"{field}.values[{index}]", value, text)


def _validate_name(expression: Json, field: str) -> Iterator[Cause]:
    operator, values, key = expression.get("operator", ""), expression.get("values") or [], expression.get("key", "")
    if operator not in {"In", "NotIn"}:
        yield causes.invalid(f"{field}.operator", operator, _BAD_OPERATOR)
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield causes.required(f"{field}.values", detail)
    if key != "metadata.name":
        yield causes.invalid(f"{field}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        for text in names.subdomain(value):
            yield causes.invalid(f"{field}.values[{index}]", value, text)
