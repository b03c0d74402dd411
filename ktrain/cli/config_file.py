"""
Reads the operator's configuration file.

Decoding is strict: a field that is not known is an error that names it, because a knob that is silently ignored is
worse than none.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import yaml

from .config import (
    CertManagement,
    ClientConnection,
    ConfigError,
    Configuration,
    ControllerSection,
    Health,
    JobSets,
    LeaderElection,
    Metrics,
    MetricsAuth,
    Plugins,
    Section,
    StatusServer,
    Tls,
    Webhook,
)
from .config_checks import check

if TYPE_CHECKING:
    from ktrain.api.meta import JsonValue

MAX_BYTES: Final = 1 << 20
_SECTIONS: Final = (
    *(Configuration, Webhook, LeaderElection, MetricsAuth, Metrics, Health, ControllerSection, JobSets, CertManagement),
    *(StatusServer, ClientConnection, Tls, Plugins),
)


def load(path: str) -> Configuration:
    """
    Read the file.

    Raises:
        ConfigError: Missing, too large, not YAML, an unknown field, a wrong type or a value out of range.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_BYTES} bytes; that is no operator configuration")
        text = file.read_text()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    return parse(text, path)


def parse(text: str, source: str) -> Configuration:
    """
    Read a file's content; `source` names it in errors.

    Raises:
        ConfigError: As `load` does.
    """
    try:
        document: JsonValue = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{source}: not YAML: {error}") from error
    document = _without_nulls(document or {})
    try:
        configuration = msgspec.convert(document, Configuration)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {error}{_suggestion(str(error))}") from error
    if "webhook" in document or configuration.cert_management.enable:
        # Kubeflow's files cannot say it: its webhooks are always on.
        enable = document.get("webhook", {}).get("enable", True)
        webhook = msgspec.structs.replace(configuration.webhook, enable=enable)
        configuration = msgspec.structs.replace(configuration, webhook=webhook)
    check(configuration, source)
    return configuration


def _without_nulls(value: JsonValue) -> JsonValue:
    """Leave out what is null: in Kubernetes that is as if it were not there."""
    if not isinstance(value, dict):
        return value
    return {name: _without_nulls(one) for name, one in value.items() if one is not None}


def _suggestion(message: str) -> str:
    """Name the field of the same section that was meant, else one of another."""
    unknown = re.search(r"unknown field `([^`]+)`(?: - at `\$\.([^`]+)`)?", message)
    if unknown is None:
        return ""
    name, path = unknown.groups()
    section: type[Section] = Configuration
    for step in (path or "").split("."):
        section = next((one.type for one in msgspec.structs.fields(section) if one.encode_name == step), section)
    for sections in ((section,), _SECTIONS):
        names = [field.encode_name for one in sections for field in msgspec.structs.fields(one)]
        if close := difflib.get_close_matches(name, [one for one in names if one != name], n=1):
            return f'; did you mean "{close[0]}"?'
    return ""
