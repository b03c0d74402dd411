"""Label selectors inside objects: whether they are well-formed, and what they match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.selectors import LabelSelector, SelectorError, label_key_errors, label_value_errors
from ktrain.local.apiserver import causes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_WITH_VALUES: Final = frozenset({"In", "NotIn"})
_WITHOUT_VALUES: Final = frozenset({"Exists", "DoesNotExist"})


def validate_selector(selector: Json | None, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a `metav1.LabelSelector`."""
    yield from validate_labels((selector or {}).get("matchLabels"), f"{field}.matchLabels")
    for index, expression in enumerate((selector or {}).get("matchExpressions") or ()):
        path = f"{field}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values") or []
        if operator in _WITH_VALUES and not values:
            yield causes.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in _WITHOUT_VALUES and values:
            yield causes.forbidden(
                f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
        elif operator not in _WITH_VALUES | _WITHOUT_VALUES:
            yield causes.invalid(f"{path}.operator", operator, "not a valid selector operator")
        key = expression.get("key", "")
        for text in label_key_errors(key):
            yield causes.invalid(f"{path}.key", key, text)
        for number, value in enumerate(values):
            for text in label_value_errors(value):
                yield causes.invalid(f"{path}.values[{number}]", value, text)


def validate_labels(labels: Json | None, field: str) -> Iterator[Cause]:
    """Yield what is wrong with labels."""
    for key, value in (labels or {}).items():
        for text in label_key_errors(key):
            yield causes.invalid(field, key, text)
        for text in label_value_errors(value):
            yield causes.invalid(field, value, text)


def matches(selector: Json | None, labels: Json | None) -> bool:
    """Whether a selector matches labels; a missing or malformed one matches nothing."""
    try:
        return LabelSelector.from_object(selector).matches(labels or {})
    except SelectorError:
        return False


def shown(selector: Json) -> Json:
    """Return a selector in the order in which messages print it."""
    parts = {"matchLabels": dict(sorted((selector.get("matchLabels") or {}).items()))}
    if expressions := selector.get("matchExpressions"):
        return {**parts, "matchExpressions": expressions} if parts["matchLabels"] else {"matchExpressions": expressions}
    return parts if parts["matchLabels"] else {}


def is_empty(selector: Json) -> bool:
    """Whether a selector asks for nothing, and so matches everything."""
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def text(selector: Json) -> str:
    """Return a selector in the form that goes into a query."""
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression.get("key", ""), expression.get("operator")
        listed = ",".join(sorted(expression.get("values") or ()))
        shown = {"In": f"{key} in ({listed})", "NotIn": f"{key} notin ({listed})", "DoesNotExist": f"!{key}"}
        parts.append((key, shown.get(operator, key)))
    return ",".join(part for _, part in sorted(parts))
