"""One policy against one request: match conditions, variables, validations, audit annotations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ktrain.api.schema.cel import Budget, CelError, Value, compiled
from ktrain.api.schema.cel.values import LazyMap
from ktrain.local.apiserver.admission.conditions import ConditionFailed, conditions_hold, evaluate

if TYPE_CHECKING:
    from ktrain.api.meta import Json

BUDGET: Final = 2_000_000
"""What one policy may cost for one request: about a second. A fifth of upstream's, whose steps are quicker."""
_MAX_MESSAGE: Final = 5 * 1024


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that a policy has against a request. What `always` denies does so whatever the binding says to do."""

    message: str
    reason: str = ""
    always: bool = False


def validate(spec: Json, variables: Json) -> list[Refusal]:
    """
    Return what a policy has against a request.

    `variables` hold the request's, `params` and `namespaceObject`. What cannot be evaluated counts under
    `failurePolicy: Fail`, and is passed over under Ignore.
    """
    strict = spec.get("failurePolicy", "Fail") == "Fail"
    try:
        if not conditions_hold(spec.get("matchConditions") or (), variables):
            return []
    except ConditionFailed as error:
        return [Refusal(str(error))] if strict else []
    budget = Budget(BUDGET)
    scope = {**variables, "variables": _composed(spec, variables, budget)}
    found: list[Refusal] = []
    for validation in spec.get("validations") or ():
        try:
            if evaluate(validation["expression"], scope, budget) is not True:
                message = _message(validation, scope, budget)
                found.append(Refusal(message, validation.get("reason") or "Invalid"))
        except ConditionFailed as error:
            if strict:
                found.append(Refusal(str(error)))
    return [*found, *(_annotation_failures(spec, scope) if strict else ())]


def _composed(spec: Json, variables: Json, budget: Budget) -> LazyMap:
    """Return the policy's own variables, each evaluated when first read; they may read those before them."""
    composed: LazyMap

    def value(name: str, expression: str) -> Value:
        try:
            return compiled(expression).evaluate({**variables, "variables": composed}, budget)
        except CelError as error:
            raise CelError(f'composited variable "{name}" fails to evaluate: {error}') from error

    expressions = {one["name"]: one["expression"] for one in spec.get("variables") or ()}
    composed = LazyMap(lambda name: value(name, expressions[name]), expressions)
    return composed


def _message(validation: Json, scope: Json, budget: Budget) -> str:
    expression = validation.get("messageExpression", "")
    if expression:
        try:
            value = evaluate(expression, {**scope, "authorizer": None}, budget)
        except ConditionFailed:
            value = ""
        text = value.strip() if isinstance(value, str) else ""
        if text and len(text.encode()) <= _MAX_MESSAGE and "\n" not in text:
            return text
    message: str = validation.get("message", "").strip()
    return message or f"failed expression: {validation['expression'].strip()}"


def _annotation_failures(spec: Json, scope: Json) -> list[Refusal]:
    """Evaluate audit annotations. There is no audit log to write them to, but one that fails refuses."""
    budget = Budget(BUDGET)
    found = []
    for annotation in spec.get("auditAnnotations") or ():
        try:
            evaluate(annotation["valueExpression"], scope, budget)
        except ConditionFailed as error:
            found.append(Refusal(str(error), always=True))
    return found
