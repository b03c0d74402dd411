"""Webhook configurations: defaults and validation of their entries. `webhooks.py` follows what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ktrain.local.apiserver import causes
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_VERSIONS: Final = ("v1", "v1beta1")
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
    if len(name.split(".")) < 3:
        detail = "should be a domain with at least three segments separated by dots"
        yield causes.invalid(f"{field}.name", name, detail)
    if not set(entry.get("admissionReviewVersions") or ()) & set(_VERSIONS):
        detail = f"must specify one of {', '.join(_VERSIONS)}"
        yield causes.required(f"{field}.admissionReviewVersions", detail)
    if entry.get("sideEffects") not in {"None", "NoneOnDryRun"}:
        yield causes.required(f"{field}.sideEffects", "must specify one of None, NoneOnDryRun")
    limit_s = entry.get("timeoutSeconds", 10)
    if not 1 <= limit_s <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield causes.invalid(f"{field}.timeoutSeconds", limit_s, detail)
    yield from _validate_client(entry.get("clientConfig") or {}, f"{field}.clientConfig")


def _validate_client(config: Json, field: str) -> Iterator[Cause]:
    url = config.get("url")
    if (url is None) is (config.get("service") is None):
        yield causes.required(field, "exactly one of url or service is required")
    elif url is not None and urlsplit(url).scheme != "https":
        detail = "'https' is the only allowed URL scheme; desired format: https://host[:port]/path"
        yield causes.invalid(f"{field}.url", url, detail)
