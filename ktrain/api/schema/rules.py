"""`x-kubernetes-validations`: CEL rules over a value and, in transition rules, the value that was there before."""

from __future__ import annotations

import base64
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .causes import NO_FIELD, Cause, duplicate, forbidden, required, show
from .cel import Budget, CelError, OutOfBudget, compiled, optional
from .cel.values import parse_duration, parse_timestamp
from .declared import escaped_name
from .node import MISSING, Node
from .validate import Report, item_key, items_by_key, same

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..meta import Json, JsonValue

_OLD_SELF: Final = re.compile(r"\boldSelf\b")
_SELF: Final = re.compile(r"\b(?:self|oldSelf)\b(?:\.(\w+)\b(?!\s*\())?")


def uses_old_self(rule: Json) -> bool:
    """Whether it is a transition rule: one that runs only where there was a value before."""
    return _OLD_SELF.search(rule.get("rule", "")) is not None


class _Place(NamedTuple):
    """Where a rule runs: the value, what was there before, and its path."""

    node: Node
    value: JsonValue
    old: JsonValue
    path: str
    above: tuple[JsonValue, JsonValue] = (MISSING, MISSING)
    """The nearest value above that corresponds to an old one, and that, where this one does not."""

    @property
    def is_unchanged(self) -> bool:
        """Whether the value is as it was, or part of one that is."""
        value, old = self.above if self.old is MISSING else (self.value, self.old)
        return old is not MISSING and same(value, old)


def check_rules(
    node: Node,
    value: JsonValue,
    report: Report,
    old: JsonValue = MISSING,
    path: str = "",
    above: tuple[JsonValue, JsonValue] = (MISSING, MISSING),
) -> None:
    """
    Run all rules at and below the node.

    Old values correspond through properties, map keys and list-map keys; not through sets and atomic lists. A rule that
    an unchanged value breaks yields a warning, unless it is a transition rule.
    """
    if value is None:
        return
    for rule in node.rules:
        _check_rule(rule, _Place(node, value, old, path, above), report)
    if old is not MISSING:
        above = (value, old)
    if type(value) is dict:
        before = old if type(old) is dict else {}
        for key, item in value.items():
            child = node.child(key)
            if child is not None and child.has_rules:
                below = f"{path}.{key}" if path else key
                check_rules(child, item, report, before.get(key, MISSING), below, above)
    elif type(value) is list and node.items is not None and node.items.has_rules:
        earlier = items_by_key(node, old) if type(old) is list and node.list_type == "map" else {}
        for index, item in enumerate(value):
            found = earlier.get(item_key(node, item), MISSING) if earlier else MISSING
            check_rules(node.items, item, report, found, f"{path}[{index}]", above)


def _check_rule(rule: Json, place: _Place, report: Report) -> None:
    if report.budget.left <= 0:
        if not report.exhausted:
            report.exhausted = True
            text = "validation failed due to running out of cost budget, no further validation rules will be run"
            shown = f'Invalid value: "{_type_of(place)}": {text}'
            report.causes.append(Cause(report.field(place.path) or NO_FIELD, "FieldValueInvalid", shown))
        return
    transition = uses_old_self(rule)
    if transition and place.old is MISSING and not rule.get("optionalOldSelf", False):
        return
    cause = _broken(rule, place, report)
    if cause is None:
        return
    if not transition and place.is_unchanged:
        report.warnings.append(str(cause))
    else:
        report.causes.append(cause)


def _variables(rule: Json, place: _Place) -> Json:
    node = place.node
    whole = node.embedded or not place.path
    escape = "__" in rule["rule"] or "__" in rule.get("messageExpression", "")

    read = _fields_read(rule["rule"], rule.get("messageExpression", ""))

    def view(item: JsonValue) -> JsonValue:
        # Of a whole TrainJob only the fields that the rule names have to be looked at.
        if type(item) is dict and read is not None and read <= node.properties.keys():
            item = {key: item[key] for key in read if key in item}
        item = _outline(item) if whole and type(item) is dict and "metadata" in item else item
        _check_integers(node, item, read)
        return _convert(node, item) if escape or node.has_special or node.format in _READ else item

    variables = {"self": view(place.value)}
    if not uses_old_self(rule):
        return variables
    if rule.get("optionalOldSelf", False):
        variables["oldSelf"] = optional() if place.old is MISSING else optional(view(place.old))
    else:
        variables["oldSelf"] = view(place.old)
    return variables


def _type_of(place: _Place) -> str:
    return place.node.type if place.node.type not in {"int-or-string", "quantity"} else ""


def _check_integers(node: Node, value: JsonValue, read: frozenset[str] | None) -> None:
    """
    Refuse what is an integer to the schema and none to CEL: `2.0`.

    Raises:
        CelError: The value is one, or a field of it that the rule reads.
    """
    fields = [(node, value)]
    if type(value) is dict and read:
        fields = [(node.properties[name], value[name]) for name in read if name in value and name in node.properties]
    if any(type(one) is float and of.type == "integer" for of, one in fields):
        raise CelError("invalid data, expected int, got float64")


@lru_cache(maxsize=2048)
def _fields_read(*sources: str) -> frozenset[str] | None:
    """The fields that expressions read of self and oldSelf; None if they use one of them as a whole."""
    names = [match[1] for source in sources for match in _SELF.finditer(source)]
    return None if None in names else frozenset(names)


def _outline(obj: Json) -> Json:
    """A whole object as rules see it: of metadata only name and generateName."""
    metadata = obj["metadata"] if type(obj["metadata"]) is dict else {}
    return {**obj, "metadata": {key: metadata[key] for key in ("name", "generateName") if key in metadata}}


def _convert(node: Node | None, value: JsonValue) -> JsonValue:
    """
    The value as expressions see it.

    Property names are spelled as CEL identifiers (keys of maps stay), null properties are absent, times are times.
    """
    if type(value) is dict:
        if node is None or not node.properties:
            below = node.additional if node else None
            return {key: _convert(below, item) for key, item in value.items()}
        return {
            escaped_name(key): _convert(node.child(key), item)
            for key, item in value.items()
            if item is not None or key not in node.properties
        }
    if type(value) is list:
        below = node.items if node else None
        return [_convert(below, item) for item in value]
    if type(value) is str and node is not None and node.format in _READ:
        return _READ[node.format](value)
    return value


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


_READ: Final[dict[str, Callable[[str], Any]]] = {
    "byte": _bytes,
    "date": lambda text: parse_timestamp(f"{text}T00:00:00Z"),
    "date-time": parse_timestamp,
    "duration": parse_duration,
}


def _broken(rule: Json, place: _Place, report: Report) -> Cause | None:
    """The cause, if the rule does not hold."""
    field = report.field(place.path)
    named = (rule.get("message") or rule["rule"]).strip()
    # The type is the schema's, whatever the value has.
    shown = f'Invalid value: "{_type_of(place)}": '
    try:
        variables = _variables(rule, place)
        if compiled(rule["rule"]).evaluate(variables, report.budget) is True:
            return None
    except OutOfBudget as error:
        report.budget.left = 0
        text = f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {named}"
        return Cause(field or NO_FIELD, "FieldValueInvalid", shown + text)
    except CelError as error:
        text = f"{error} evaluating rule: {named}"
        if str(error) == "no such overload":
            why = "call arguments did not match a supported operator, function or macro signature for rule"
            text = f"'{error}': {why}: {named}"
        return Cause(field or NO_FIELD, "FieldValueInvalid", shown + text)
    field += rule.get("fieldPath", "")
    return _cause(rule, field.removeprefix(".") or NO_FIELD, place.value, _message(rule, variables, report.budget))


def _message(rule: Json, variables: Json, budget: Budget) -> str:
    expression = rule.get("messageExpression")
    if expression:
        try:
            text = compiled(expression).evaluate(variables, budget)
        except CelError:
            text = ""
        if isinstance(text, str) and text.strip() and "\n" not in text:
            return text
    message: str = rule.get("message") or f"failed rule: {rule['rule'].strip()}"
    return message


def _cause(rule: Json, field: str, value: JsonValue, message: str) -> Cause:
    reason = rule.get("reason", "FieldValueInvalid")
    if reason == "FieldValueForbidden":
        return forbidden(field, message)
    if reason == "FieldValueRequired":
        return required(field, message)
    if reason == "FieldValueDuplicate":
        whole = isinstance(value, dict | list)
        return Cause(field, reason, "Duplicate value") if whole else duplicate(field, value)
    # Whole objects and lists are not printed: they can be as large as the object itself.
    shown = "" if isinstance(value, dict | list) else f"{show(value)}: "
    return Cause(field, reason, f"Invalid value: {shown}{message}")
