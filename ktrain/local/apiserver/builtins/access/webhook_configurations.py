"""Webhook configurations: defaults and validation of their entries. `webhooks.py` follows what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.admission.conditions import check_conditions
from ktrain.local.apiserver.builtins.access.admission_rules import (
    check_choice,
    check_client,
    check_review_versions,
    check_rules,
    check_selectors,
)
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_HARMLESS: Final = ("None", "NoneOnDryRun")
_DEFAULTS: Final = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}


class WebhookConfigurationStrategy(Strategy):
    """ValidatingWebhookConfigurations; only changed by who knows the version."""

    unconditional_update = False
    qualified_finalizers = False

    def default(self, obj: Json) -> None:
        """Write what is not said."""
        for entry in obj.get("webhooks") or ():
            for name, value in _DEFAULTS.items():
                entry.setdefault(name, value)
            for rule in entry.get("rules") or ():
                rule.setdefault("scope", "*")
            if service := (entry.get("clientConfig") or {}).get("service"):
                service.setdefault("port", 443)

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check each entry by itself."""
        found: list[Cause] = []
        for index, entry in enumerate(obj.get("webhooks") or ()):
            found += _validate_entry(entry, f"webhooks[{index}]")
            name = entry.get("name")
            if name and name in [other.get("name") for other in obj["webhooks"][:index]]:
                found.append(causes.duplicate(f"webhooks[{index}].name", name))
        return found


class MutatingConfigurationStrategy(WebhookConfigurationStrategy):
    """MutatingWebhookConfigurations."""

    def default(self, obj: Json) -> None:
        """Write what is not said."""
        super().default(obj)
        for entry in obj.get("webhooks") or ():
            entry.setdefault("reinvocationPolicy", "Never")


def _validate_entry(entry: Json, field: str) -> Iterator[Cause]:
    name = entry.get("name", "")
    if not name:
        yield causes.required(f"{field}.name")
    for text in names.subdomain(name) if name else ():
        yield causes.invalid(f"{field}.name", name, text)
    if name and len(name.split(".")) < 3:
        detail = "should be a domain with at least three segments separated by dots"
        yield causes.invalid(f"{field}.name", name, detail)
    for index, rule in enumerate(entry.get("rules") or ()):
        yield from check_rules(rule, f"{field}.rules[{index}]")
    yield from check_choice(entry, "failurePolicy", ("Fail", "Ignore"), field)
    yield from check_choice(entry, "matchPolicy", ("Equivalent", "Exact"), field)
    if "reinvocationPolicy" in entry:
        yield from check_choice(entry, "reinvocationPolicy", ("IfNeeded", "Never"), field)
    if entry.get("sideEffects") is None:
        yield causes.required(f"{field}.sideEffects", f"must specify one of {', '.join(_HARMLESS)}")
    else:
        yield from check_choice(entry, "sideEffects", _HARMLESS, field)
    limit_s = entry.get("timeoutSeconds", 10)
    if not 1 <= limit_s <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield causes.invalid(f"{field}.timeoutSeconds", limit_s, detail)
    yield from check_selectors(entry, field)
    yield from check_client(entry.get("clientConfig") or {}, f"{field}.clientConfig")
    yield from check_conditions(entry.get("matchConditions") or (), f"{field}.matchConditions")
    offered = entry.get("admissionReviewVersions") or ()
    yield from check_review_versions(offered, f"{field}.admissionReviewVersions")
