"""Whether the CEL rules of a CRD's schema can be run: their texts, types and cost."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from .causes import Cause, forbidden, invalid, not_supported, required, show
from .cel import BOOL, STRING, CelError, Type, check, compiled
from .cel.cost import ABSURD, ADVICE, LIMIT, LIMIT_OF_ALL, REQUEST_BYTES
from .declared import declared_bound, declared_type, smallest
from .rules import uses_old_self

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..meta import Json

_REASONS: Final = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"]
_PATH: Final = re.compile(r"""(?:\.\w+|\['(?:[^'\\]|\\.)+'\]|\["(?:[^"\\]|\\.)+"\])+""", re.ASCII)
_STEP: Final = re.compile(r"""\.(\w+)|\['((?:[^'\\]|\\.)+)'\]|\["((?:[^"\\]|\\.)+)"\]""")


class _Place(NamedTuple):
    """Where rules stand: how many values there can be, and below which list nothing corresponds to an old value."""

    path: str
    values: int = 1
    uncorrelatable: str = ""


def rule_causes(schema: Json, path: str) -> Iterator[Cause]:
    """What is wrong with the rules of a schema and all below it."""
    found = list(_walk(schema, _Place(path), whole=True))
    yield from found
    if any(cause.message.startswith("Forbidden: contributed") for cause in found):
        text = (
            "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor "
            f"of more than {ABSURD}x {ADVICE}"
        )
        yield forbidden(path, text)


def _walk(schema: Json, place: _Place, *, whole: bool = False) -> Iterator[Cause]:
    rules = schema.get("x-kubernetes-validations") or ()
    texts = [cause for index, rule in enumerate(rules) for cause in _texts(rule, schema, _field(place, index))]
    yield from texts
    if rules and not texts:
        self_type = declared_type(schema, whole=whole or bool(schema.get("x-kubernetes-embedded-resource")))
        for index, rule in enumerate(rules):
            yield from _expressions(rule, schema, self_type or ("dyn",), place, _field(place, index))
    for name, child in sorted(schema.get("properties", {}).items()):
        yield from _walk(child, place._replace(path=f"{place.path}.properties[{name}]"))
    for keyword in ("additionalProperties", "items"):
        child = schema.get(keyword)
        if isinstance(child, dict):
            loose = keyword == "items" and schema.get("x-kubernetes-list-type") != "map"
            yield from _walk(
                child,
                _Place(
                    f"{place.path}.{keyword}",
                    min(place.values * declared_bound(schema).most, REQUEST_BYTES // smallest(child)),
                    place.uncorrelatable or (place.path if loose else ""),
                ),
            )


def _field(place: _Place, index: int) -> str:
    return f"{place.path}.x-kubernetes-validations[{index}]"


def _texts(rule: Json, schema: Json, field: str) -> Iterator[Cause]:
    source, message = rule.get("rule", "").strip(), rule.get("message", "")
    if not source:
        yield required(f"{field}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{field}.message", message, "must be non-empty if specified")
    elif _has_lines(message.strip()):
        yield invalid(f"{field}.message", message, "must not contain line breaks")
    elif _has_lines(source) and not message.strip():
        yield required(f"{field}.message", "message must be specified if rule contains line breaks")
    if rule.get("messageExpression") and not rule["messageExpression"].strip():
        yield required(f"{field}.messageExpression", "messageExpression must be non-empty if specified")
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        yield not_supported(f"{field}.reason", reason, _REASONS)
    path = rule.get("fieldPath", "")
    if path and not path.strip():
        yield invalid(f"{field}.fieldPath", path, "must be non-empty if specified")
    if _has_lines(path):
        yield invalid(f"{field}.fieldPath", path, "must not contain line breaks")
    if path and not _leads_somewhere(path, schema):
        yield invalid(f"{field}.fieldPath", path, "must be a valid path")


def _has_lines(text: str) -> bool:
    return "\n" in text or "\r" in text


def _leads_somewhere(path: str, schema: Json) -> bool:
    if not _PATH.fullmatch(path):
        return False
    node: object = schema
    for dotted, single, double in _STEP.findall(path):
        name = dotted or re.sub(r"\\(.)", r"\1", single or double)
        if not isinstance(node, dict):
            return False
        properties = node.get("properties") or {}
        node = properties[name] if name in properties else None if dotted else node.get("additionalProperties")
        if not isinstance(node, dict):
            return False
    return True


def _expressions(rule: Json, schema: Json, self_type: Type, place: _Place, field: str) -> Iterator[Cause]:
    old = ("optional", self_type) if rule.get("optionalOldSelf") else self_type
    variables = {"self": self_type, "oldSelf": old}
    found, problem = check(rule["rule"], variables)
    if problem:
        yield _refused(f"{field}.rule", rule, f"compilation failed: {problem}")
    elif found != BOOL:
        yield _refused(f"{field}.rule", rule, "cel expression must evaluate to a bool")
    else:
        yield from _check_cost(rule["rule"], schema, place, field)
        yield from _check_message(rule, variables, field)
    uses_old = uses_old_self(rule) and not problem
    if uses_old and place.uncorrelatable:
        text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelatable}"
        yield invalid(f"{field}.rule", rule["rule"], text)
    elif "optionalOldSelf" in rule and not uses_old:
        text = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{field}.optionalOldSelf", rule["optionalOldSelf"], text)


def _check_message(rule: Json, variables: dict[str, Type], field: str) -> Iterator[Cause]:
    source = rule.get("messageExpression")
    if not source:
        return
    found, problem = check(source, variables)
    if problem:
        yield _refused(f"{field}.messageExpression", rule, f"messageExpression compilation failed: {problem}")
    elif found != STRING:
        yield _refused(f"{field}.messageExpression", rule, "messageExpression must evaluate to a string")


def _check_cost(source: str, schema: Json, place: _Place, field: str) -> Iterator[Cause]:
    try:
        cost = compiled(source).worst_cost({"self": declared_bound(schema)}) * place.values
    except CelError:
        return
    if cost > ABSURD * LIMIT:
        yield forbidden(
            f"{field}.rule", f"estimated rule cost exceeds budget by factor of more than {ABSURD}x {ADVICE}"
        )
    if cost > ABSURD * LIMIT_OF_ALL:
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        yield forbidden(f"{field}.rule", text)


def _refused(field: str, rule: Json, text: str) -> Cause:
    """A rule that is refused, printed as the API server prints it: as JSON for web pages."""
    shown = show(_printed(rule)).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Cause(field, "FieldValueInvalid", f"Invalid value: {shown}: {text}")


def _printed(rule: Json) -> Json:
    """A rule as the API server prints it: Go's field names, all of them."""
    optional_old = rule.get("optionalOldSelf")
    return {
        "Rule": rule.get("rule", ""),
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": optional_old,
    }
