"""When a single container is restarted, and what becomes of it when it is resized, in the API server's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_POLICIES: Final = ("Always", "Never", "OnFailure")
_ACTIONS: Final = ("Restart", "RestartAllContainers")
_OPERATORS: Final = ("In", "NotIn")
_MAX_RULES: Final = 20
_MAX_CODES: Final = 255
_RESIZED: Final = ("cpu", "memory")
_ON_RESIZE: Final = ("NotRequired", "RestartContainer")


def validate_restarts(container: Json, field: str, *, init: bool) -> Iterator[Cause]:
    """Yield what is wrong with the restart policy of a container and the rules that go before it."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules", ())
    if policy is None and rules:
        yield causes.required(f"{field}.restartPolicy", "must specify restartPolicy when restart rules are used")
    elif policy is not None and policy not in _POLICIES:
        yield causes.not_supported(f"{field}.restartPolicy", policy, _POLICIES)
    if policy is None and init:
        return  # upstream looks at the rules of init containers only beside a policy
    if len(rules) > _MAX_RULES:
        yield causes.too_many(f"{field}.restartPolicyRules", len(rules), _MAX_RULES)
    for index, rule in enumerate(rules):
        yield from _validate_rule(rule, f"{field}.restartPolicyRules[{index}]")


def validate_resize(policies: Iterable[Json], field: str, pod_policy: str) -> Iterator[Cause]:
    """Yield what is wrong with what a container has to go through when it is resized."""
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        name, action = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            yield causes.duplicate(f"{field}[{index}]", name)
        seen.add(name)
        # Upstream leaves the index out.
        for value, supported in ((name, _RESIZED), (action, _ON_RESIZE)):
            if not value:
                yield causes.required(field)
            elif value not in supported:
                yield causes.not_supported(field, value, supported)
        if pod_policy == "Never" and action != "NotRequired":
            yield causes.invalid(field, action, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def validate_init_resize(container: Json, field: str) -> Iterator[Cause]:
    """Yield what an init container that ends may not be put through."""
    for index, policy in enumerate(container.get("resizePolicy", ())):
        if policy.get("restartPolicy") == "RestartContainer":
            detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            yield causes.invalid(f"{field}.resizePolicy[{index}].restartPolicy", "RestartContainer", detail)


def _validate_rule(rule: Json, field: str) -> Iterator[Cause]:
    if (action := rule.get("action", "")) not in _ACTIONS:
        yield causes.not_supported(f"{field}.action", action, _ACTIONS)
    codes = rule.get("exitCodes")
    if codes is None:
        yield causes.required(f"{field}.exitCodes", "must be specified")
        return
    if (operator := codes.get("operator", "")) not in _OPERATORS:
        yield causes.not_supported(f"{field}.exitCodes.operator", operator, _OPERATORS)
    if len(values := codes.get("values", ())) > _MAX_CODES:
        yield causes.too_many(f"{field}.exitCodes.values", len(values), _MAX_CODES)
