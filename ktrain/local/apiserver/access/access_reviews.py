"""The reviews of rights: whether somebody may do something, and what the one who asks may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes
from ktrain.local.apiserver.access.asked import invalid, read_question
from ktrain.local.apiserver.access.attributes import Attributes
from ktrain.local.apiserver.access.rbac import together
from ktrain.local.apiserver.errors import bad_request
from ktrain.local.apiserver.requests import User

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.access.rules import Rule
    from ktrain.local.apiserver.backend import Backend, Call

_RESOURCE: Final = "spec.resourceAttributes"
_PATH: Final = "spec.nonResourceAttributes"
_WITH_VALUES: Final = frozenset({"In", "NotIn"})
_WITHOUT_VALUES: Final = frozenset({"Exists", "DoesNotExist"})


async def review_subject(backend: Backend, call: Call) -> Json:
    """
    Say whether the user in the review may do what it asks about.

    Raises:
        StatusError: 422 for a question that is none.
    """
    return _answer_for_subject(backend, call, local=False)


async def review_local_subject(backend: Backend, call: Call) -> Json:
    """
    The same in one namespace, for those who may ask about that only.

    Raises:
        StatusError: 422.
    """
    return _answer_for_subject(backend, call, local=True)


async def review_self_access(backend: Backend, call: Call) -> Json:
    """
    Say whether the one who asks may do it.

    Raises:
        StatusError: 422.
    """
    review = read_question(backend, call)
    found = [*_check_attributes(review.get("spec") or {}), *_check_metadata(review)]
    if found:
        raise invalid(call.resource, found)
    return _answer(backend, review, call.request.user)


async def review_self_rules(backend: Backend, call: Call) -> Json:
    """
    List the rules that hold in a namespace for the one who asks.

    Raises:
        StatusError: 400 without a namespace.
    """
    review = read_question(backend, call)
    namespace = (review.get("spec") or {}).get("namespace", "")
    if not namespace:
        raise bad_request("no namespace on request")
    rules, missing = backend.gate.rules_of(call.request.user, namespace)
    status: Json = {
        "resourceRules": [_resource_rule(rule) for rule in rules if rule.resources],
        "nonResourceRules": [_path_rule(rule) for rule in rules if rule.urls],
        "incomplete": False,
    }
    if missing:
        status["evaluationError"] = together(map(str, missing))
    return {"kind": review["kind"], "apiVersion": review["apiVersion"], "metadata": {}, "spec": {}, "status": status}


def _answer_for_subject(backend: Backend, call: Call, *, local: bool) -> Json:
    review = read_question(backend, call)
    spec = review.get("spec") or {}
    found = _check_attributes(spec)
    if not spec.get("user") and not spec.get("groups"):
        found.append(causes.invalid("spec.user", "", "at least one of user or group must be specified"))
    found += _check_metadata(review)
    if local:
        found += _check_namespace(spec, call.namespace)
    if found:
        raise invalid(call.resource, found)
    extra = tuple((key, tuple(values)) for key, values in sorted((spec.get("extra") or {}).items()))
    user = User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra)
    return _answer(backend, review, user)


def _answer(backend: Backend, review: Json, user: User) -> Json:
    decision = backend.gate.decide(user, _asked(review["spec"]))
    status: Json = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return {**review, "status": status}


def _asked(spec: Json) -> Attributes:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return Attributes(verb=path.get("verb", ""), path=path.get("path", ""))
    given = spec["resourceAttributes"]
    fields = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    return Attributes(**{field: given.get(field, "") for field in fields})


def _check_attributes(spec: Json) -> list[Cause]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        shown = {"Path": path.get("path", ""), "Verb": path.get("verb", "")}
        return [causes.invalid(_PATH, shown, "cannot be specified in combination with resourceAttributes")]
    if resource is None and path is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [causes.invalid(_RESOURCE, None, detail)]
    found: list[Cause] = []
    for name in ("fieldSelector", "labelSelector"):
        if resource is not None and resource.get(name) is not None:
            found += _check_selector(resource[name], f"{_RESOURCE}.{name}")
    return found


def _check_selector(selector: Json, field: str) -> Iterator[Cause]:
    raw, requirements = selector.get("rawSelector"), selector.get("requirements") or []
    if raw and requirements:
        detail = "may not specified at the same time as requirements"
        yield causes.invalid(f"{field}.rawSelector", raw, detail)
    if not raw and not requirements:
        detail = f"when {field} is specified, requirements or rawSelector is required"
        yield causes.required(f"{field}.requirements", detail)
    for index, requirement in enumerate(requirements):
        where = f"{field}.requirements[{index}]"
        if not requirement.get("key"):
            yield causes.required(f"{where}.key", "must be specified")
        operator, values = requirement.get("operator", ""), requirement.get("values")
        if operator in _WITH_VALUES and not values:
            yield causes.required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        if operator in _WITHOUT_VALUES and values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield causes.forbidden(f"{where}.values", detail)


def _check_metadata(review: Json) -> list[Cause]:
    free = {"managedFields", "namespace"}
    if not any(value for name, value in review["metadata"].items() if name not in free):
        return []
    shown = {name: value for name, value in review["metadata"].items() if name != "namespace"}
    return [causes.invalid("metadata", shown, "must be empty")]


def _check_namespace(spec: Json, namespace: str) -> Iterator[Cause]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and resource.get("namespace", "") != namespace:
        detail = "must match metadata.namespace"
        yield causes.invalid(f"{_RESOURCE}.namespace", resource.get("namespace", ""), detail)
    if path is not None:
        shown = {"Path": path.get("path", ""), "Verb": path.get("verb", "")}
        yield causes.invalid(_PATH, shown, "disallowed on this kind of request")


def _resource_rule(rule: Rule) -> Json:
    shown: Json = {"verbs": list(rule.verbs), "apiGroups": list(rule.groups), "resources": list(rule.resources)}
    return {**shown, "resourceNames": list(rule.names)} if rule.names else shown


def _path_rule(rule: Rule) -> Json:
    return {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.urls)}
