"""What a pod is called and whom it asks for names, and what it shares with its host, in the API server's words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.pods.validation.addresses import validate_address
from ktrain.local.apiserver.builtins.pods.validation.choices import enumerated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MAX_SERVERS: Final = 3
_MAX_SEARCHES: Final = 32
_MAX_SEARCH_TEXT: Final = 2048
_MAX_NAME: Final = 253
_MAX_HOSTNAME: Final = 64
_SEARCH: Final = re.compile(r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*")
_SEARCH_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SEARCH.pattern}')"
)


def validate_network(spec: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a pod's names, resolver and use of its host's namespaces."""
    yield from enumerated(spec, "dnsPolicy", _POLICIES, field)
    if "dnsConfig" in spec or spec.get("dnsPolicy") == "None":
        yield from _validate_resolver(spec, f"{field}.dnsConfig")
    for name in ("hostname", "subdomain"):
        if value := spec.get(name):
            yield from (causes.invalid(f"{field}.{name}", value, text) for text in names.label(value))
    if (override := spec.get("hostnameOverride")) is not None:
        yield from _validate_override(override, spec, f"{field}.hostnameOverride")
    for index, alias in enumerate(spec.get("hostAliases", ())):
        here = f"{field}.hostAliases[{index}]"
        yield from validate_address(alias.get("ip", ""), f"{here}.ip")
        for number, host in enumerate(alias.get("hostnames", ())):
            yield from (causes.invalid(f"{here}.hostnames[{number}]", host, text) for text in names.subdomain(host))
    if spec.get("hostUsers") is False:
        for name, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
            if spec.get(name):
                yield causes.forbidden(f"{field}.{shown}", "when `hostUsers` is false")


def _validate_resolver(spec: Json, field: str) -> Iterator[Cause]:
    config = spec.get("dnsConfig")
    servers = (config or {}).get("nameservers", [])
    if spec.get("dnsPolicy") == "None" and not servers:
        if config is None:
            yield causes.required(field, "must provide `dnsConfig` when `dnsPolicy` is None")
        else:
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield causes.required(f"{field}.nameservers", detail)
    elif config is not None:
        yield from _validate_config(config, field)


def _validate_config(config: Json, field: str) -> Iterator[Cause]:
    servers, searches = config.get("nameservers", []), config.get("searches", [])
    if len(servers) > _MAX_SERVERS:
        yield causes.invalid(f"{field}.nameservers", servers, f"must not have more than {_MAX_SERVERS} nameservers")
    for index, server in enumerate(servers):
        yield from validate_address(server, f"{field}.nameservers[{index}]")
    if len(searches) > _MAX_SEARCHES:
        yield causes.invalid(f"{field}.searches", searches, f"must not have more than {_MAX_SEARCHES} search paths")
    if len(" ".join(searches)) > _MAX_SEARCH_TEXT:
        detail = f"must not have more than {_MAX_SEARCH_TEXT} characters (including spaces) in the search list"
        yield causes.invalid(f"{field}.searches", searches, detail)
    for index, search in enumerate(searches):
        if search != ".":
            yield from _validate_search(search.removesuffix("."), f"{field}.searches[{index}]")
    for index, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            yield causes.required(f"{field}.options[{index}]", "must not be empty")


def _validate_search(search: str, field: str) -> Iterator[Cause]:
    if len(search) > _MAX_NAME:
        yield causes.invalid(field, search, f"must be no more than {_MAX_NAME} characters")
    if not _SEARCH.fullmatch(search):
        yield causes.invalid(field, search, _SEARCH_TEXT)


def _validate_override(name: str, spec: Json, field: str) -> Iterator[Cause]:
    for other in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(other):
            yield causes.forbidden(field, f"may not be specified when {other} is true")
    if len(name) > _MAX_HOSTNAME:
        yield causes.too_long(field, _MAX_HOSTNAME)
    yield from (causes.invalid(field, name, text) for text in names.subdomain(name))
