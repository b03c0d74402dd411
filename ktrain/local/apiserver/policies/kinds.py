"""ValidatingAdmissionPolicies and their bindings as objects: defaults, and what makes one acceptable."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ktrain.api.schema.cel import BOOL, DYN, STRING, Type, check, object_type
from ktrain.api.selectors import label_key_errors
from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.admission.conditions import check_conditions, check_expression, variable_types
from ktrain.local.apiserver.builtins.access.admission_rules import check_choice, check_rules, check_selectors
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend

_ACTIONS: Final = ("Audit", "Deny", "Warn")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII)
_NULL: Final[Type] = ("null",)
_MAX_ANNOTATIONS: Final = 20


class PolicyStrategy(Strategy):
    """ValidatingAdmissionPolicies."""

    qualified_finalizers = False

    def default(self, obj: Json) -> None:
        """Write what is not said."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        if "matchConstraints" in spec:
            _default_match(spec["matchConstraints"])

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Say that the expressions were looked at: a controller does so upstream, a moment later."""
        obj["status"] = {"observedGeneration": 1, "typeChecking": {}}

    def prepare_update(self, obj: Json, old: Json, backend: Backend) -> None:
        """The same for what they are now."""
        changed = self.spec_changed(obj, old)
        generation = old["metadata"].get("generation", 1) + changed
        obj["status"] = {**(obj.get("status") or {}), "observedGeneration": generation, "typeChecking": {}}

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check what it matches, and that every expression can be evaluated."""
        return list(_validate_policy(obj["metadata"].get("name", ""), obj.get("spec") or {}))


class PolicyBindingStrategy(Strategy):
    """ValidatingAdmissionPolicyBindings."""

    qualified_finalizers = False

    def default(self, obj: Json) -> None:
        """Write what is not said."""
        spec = obj.setdefault("spec", {})
        if "matchResources" in spec:
            _default_match(spec["matchResources"])

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check the names, and what it says to do."""
        return list(_validate_binding(obj.get("spec") or {}))


def _default_match(match: Json) -> None:
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(field) or ():
            rule.setdefault("scope", "*")


def _validate_policy(name: str, spec: Json) -> Iterator[Cause]:
    yield from check_choice(spec, "failurePolicy", ("Fail", "Ignore"), "spec")
    has_params = spec.get("paramKind") is not None
    if has_params:
        yield from _validate_param_kind(spec["paramKind"])
    match = spec.get("matchConstraints")
    if match is None:
        yield causes.required("spec.matchConstraints")
    else:
        yield from _validate_match(match, "spec.matchConstraints")
        if not match.get("resourceRules"):
            yield causes.required("spec.matchConstraints.resourceRules")
    yield from check_conditions(spec.get("matchConditions") or (), "spec.matchConditions", params=has_params)
    composed: dict[str, Type] = {}
    types = variable_types(params=has_params)
    for index, variable in enumerate(spec.get("variables") or ()):
        yield from _validate_variable(variable, types, composed, f"spec.variables[{index}]")
    if composed:
        types["variables"] = object_type(composed, "kubernetes.variables")
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        for field in ("validations", "auditAnnotations"):
            yield causes.required(f"spec.{field}", "validations or auditAnnotations must contain at least one item")
    for index, validation in enumerate(validations):
        yield from _validate_validation(validation, types, f"spec.validations[{index}]")
    if len(annotations) > _MAX_ANNOTATIONS:
        detail = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        yield causes.invalid("spec.auditAnnotations", annotations, detail)
    for index, annotation in enumerate(annotations):
        yield from _validate_annotation(annotation, name, types, f"spec.auditAnnotations[{index}]")
        if annotation.get("key") in [one.get("key") for one in annotations[:index]]:
            yield causes.duplicate(f"spec.auditAnnotations[{index}].key", annotation.get("key", ""))


def _validate_param_kind(kind: Json) -> Iterator[Cause]:
    version = kind.get("apiVersion", "")
    if not version:
        yield causes.required("spec.paramKind.apiVersion")
    elif version.count("/") > 1:
        yield causes.invalid("spec.paramKind.apiVersion", version, f"unexpected GroupVersion string: {version}")
    if not kind.get("kind"):
        yield causes.required("spec.paramKind.kind")


def _validate_match(match: Json, field: str) -> Iterator[Cause]:
    yield from check_choice(match, "matchPolicy", ("Equivalent", "Exact"), field)
    yield from check_selectors(match, field)
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(name) or ()):
            at = f"{field}.{name}[{index}]"
            given = rule.get("resourceNames") or ()
            for position, one in enumerate(given):
                if one in given[:position]:
                    yield causes.duplicate(f"{at}.resourceNames[{position}]", one)
            yield from check_rules(rule, at)


def _validate_variable(
    variable: Json, types: dict[str, Type], composed: dict[str, Type], field: str
) -> Iterator[Cause]:
    name, expression = variable.get("name", ""), variable.get("expression", "")
    if not name.strip():
        yield causes.required(f"{field}.name", "name is not specified")
    elif not _IDENTIFIER.fullmatch(name):
        yield causes.invalid(f"{field}.name", name, "must be a valid CEL identifier")
    if not expression.strip():
        yield causes.required(f"{field}.expression", "expression is not specified")
        return
    known = {**types, "variables": object_type(dict(composed), "kubernetes.variables")}
    found, problem = check(expression, known)
    if problem:
        yield causes.invalid(f"{field}.expression", expression, f"compilation failed: {problem}")
    composed[name] = DYN if problem else found


def _validate_validation(validation: Json, types: dict[str, Type], field: str) -> Iterator[Cause]:
    expression = validation.get("expression", "")
    if expression.strip():
        yield from check_expression(expression, types, [BOOL], f"{field}.expression")
    else:
        yield causes.required(f"{field}.expression", "expression is not specified")
    message_expression, message = validation.get("messageExpression", ""), validation.get("message", "")
    if message_expression and not message_expression.strip():
        yield causes.invalid(f"{field}.messageExpression", message_expression, "must be non-empty if specified")
    elif message_expression:
        without = {name: kind for name, kind in types.items() if not name.startswith("authorizer")}
        yield from check_expression(message_expression, without, [STRING], f"{field}.messageExpression")
    if message and not message.strip():
        yield causes.invalid(f"{field}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip() or "\r" in message.strip():
        yield causes.invalid(f"{field}.message", message, "must not contain line breaks")
    if validation.get("reason") is not None:
        yield from check_choice(validation, "reason", _REASONS, field)


def _validate_annotation(annotation: Json, name: str, types: dict[str, Type], field: str) -> Iterator[Cause]:
    key, expression = annotation.get("key", ""), annotation.get("valueExpression", "").strip()
    if not name:
        yield causes.invalid(f"{field}.key", key, "requires metadata.name be non-empty")
    for text in label_key_errors(f"{name}/{key}") if name else ():
        yield causes.invalid(f"{field}.key", f"{name}/{key}", text)
    if expression:
        yield from check_expression(expression, types, [STRING, _NULL], f"{field}.valueExpression")
    else:
        yield causes.required(f"{field}.valueExpression", "valueExpression is not specified")


def _validate_binding(spec: Json) -> Iterator[Cause]:
    policy = spec.get("policyName", "")
    if not policy:
        yield causes.required("spec.policyName")
    else:
        for text in names.subdomain(policy):
            yield causes.invalid("spec.policyName", policy, text)
    if spec.get("paramRef") is not None:
        yield from _validate_reference(spec["paramRef"], "spec.paramRef")
    if spec.get("matchResources") is not None:
        yield from _validate_match(spec["matchResources"], "spec.matchResources")
    actions = spec.get("validationActions") or ()
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield causes.not_supported(f"spec.validationActions[{index}]", action, _ACTIONS)
        if action in actions[:index]:
            yield causes.duplicate(f"spec.validationActions[{index}]", action)
    if "Deny" in actions and "Warn" in actions:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        yield causes.invalid("spec.validationActions", actions, detail)
    if not actions:
        yield causes.required("spec.validationActions", "at least one validation action is required")


def _validate_reference(reference: Json, field: str) -> Iterator[Cause]:
    named, selector = reference.get("name"), reference.get("selector")
    if named and selector is not None:
        for name in ("name", "selector"):
            yield causes.forbidden(f"{field}.{name}", "name and selector are mutually exclusive")
    if not named and selector is None:
        yield causes.required(field, "one of name or selector must be specified")
    if not reference.get("parameterNotFoundAction"):
        yield causes.required(f"{field}.parameterNotFoundAction")
    else:
        yield from check_choice(reference, "parameterNotFoundAction", ("Deny", "Allow"), field)
