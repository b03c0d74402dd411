"""CEL over a request: what expressions of webhooks and policies may name, and match conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.schema.cel import DYN, STRING, Budget, CelError, Type, check, compiled, object_type, show_type
from ktrain.api.selectors import label_key_errors
from ktrain.local.apiserver import causes
from ktrain.local.apiserver.admission.authorizer import AUTHORIZER_TYPE, Decide, authorizer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.admission.chain import AdmissionRequest

MATCH_BUDGET: Final = 500_000
"""What all conditions of one webhook or policy may cost for one request."""
MAX_CONDITIONS: Final = 64
_KIND: Final = object_type({"group": STRING, "version": STRING, "kind": STRING}, "kubernetes.GroupVersionKind")
_RESOURCE: Final = object_type(
    {"group": STRING, "version": STRING, "resource": STRING}, "kubernetes.GroupVersionResource"
)
_USER: Final = object_type(
    {
        "username": STRING,
        "uid": STRING,
        "groups": ("list", STRING),
        "extra": ("map", STRING, ("list", STRING)),
    },
    "kubernetes.UserInfo",
)
_REQUEST: Final = object_type(
    {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _USER,
        "dryRun": ("bool",),
        "options": DYN,
    },
    "kubernetes.AdmissionRequest",
)

_TEXTS: Final[Type] = ("map", STRING, STRING)
_NAMESPACE: Final = object_type(
    {
        "metadata": object_type(
            {
                **dict.fromkeys(("name", "generateName", "namespace", "uid", "resourceVersion"), STRING),
                **dict.fromkeys(("labels", "annotations"), _TEXTS),
                **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), ("timestamp",)),
                **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), ("int",)),
                "finalizers": ("list", STRING),
            },
            "kubernetes.NamespaceMetadata",
        ),
        "spec": object_type({"finalizers": ("list", STRING)}, "kubernetes.NamespaceSpec"),
        "status": object_type({"phase": STRING}, "kubernetes.NamespaceStatus"),
    },
    "kubernetes.Namespace",
)


class ConditionFailed(Exception):
    """An expression could not be evaluated; the text is the API server's."""


def variable_types(*, params: bool = False, authorizer: bool = True) -> dict[str, Type]:
    """Return the types of what expressions about requests may name."""
    types: dict[str, Type] = {"object": DYN, "oldObject": DYN, "request": _REQUEST, "namespaceObject": _NAMESPACE}
    if params:
        types["params"] = DYN
    if authorizer:
        types["authorizer"] = AUTHORIZER_TYPE
    return types


def variables_of(request: AdmissionRequest, body: Json, decide: Decide) -> Json:
    """
    Return the variables of expressions about a request.

    `body` is what a webhook would be sent: its objects are in the version that expressions are written for.
    """
    shown = {name: value for name, value in body.items() if name not in {"object", "oldObject"}}
    return {
        "object": body["object"],
        "oldObject": body["oldObject"],
        "request": shown,
        "authorizer": authorizer_of(request, decide),
    }


def conditions_hold(conditions: Iterable[Json], variables: Json) -> bool:
    """
    Whether all conditions are true. One that is false decides, also beside one that cannot be evaluated.

    Raises:
        ConditionFailed: None is false, and some could not be evaluated.
    """
    failures: list[str] = []
    budget = Budget(MATCH_BUDGET)
    for condition in conditions:
        try:
            if evaluate(condition["expression"], variables, budget) is False:
                return False
        except ConditionFailed as error:
            failures.append(str(error))
    if failures:
        raise ConditionFailed(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")
    return True


def evaluate(expression: str, variables: Json, budget: Budget) -> object:
    """
    Return the value of an expression.

    Raises:
        ConditionFailed: It has none.
    """
    try:
        return compiled(expression).evaluate(variables, budget)
    except CelError as error:
        raise ConditionFailed(f"expression '{expression}' resulted in error: {error}") from error


def check_expression(source: str, types: dict[str, Type], wanted: Sequence[Type], field: str) -> Iterator[Cause]:
    """Yield what keeps an expression from being evaluated to one of the types wanted."""
    found, problem = check(source, types)
    if problem:
        yield causes.invalid(field, source, f"compilation failed: {problem}")
    elif found not in wanted:
        names = [show_type(one).replace("null", "null_type") for one in wanted]
        listed = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
        yield causes.invalid(field, source, f"must evaluate to {listed} but got {show_type(found)}")


def check_conditions(conditions: Sequence[Json], field: str, *, params: bool = False) -> Iterator[Cause]:
    """Yield what is wrong with match conditions."""
    if len(conditions) > MAX_CONDITIONS:
        yield causes.too_many(field, len(conditions), MAX_CONDITIONS)
    types = variable_types(params=params)
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        name, expression = condition.get("name", ""), condition.get("expression", "").strip()
        at = f"{field}[{index}]"
        if expression:
            yield from check_expression(expression, types, [("bool",)], f"{at}.expression")
        else:
            yield causes.required(f"{at}.expression")
        if not name:
            yield causes.required(f"{at}.name")
            continue
        for text in label_key_errors(name):
            yield causes.invalid(f"{at}.name", name, text)
        if name in seen:
            yield causes.duplicate(f"{at}.name", name)
        seen.add(name)
