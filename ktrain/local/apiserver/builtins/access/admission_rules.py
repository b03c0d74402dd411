"""What configurations of webhooks, policies and conversions have in common: rules, selectors, where a webhook is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ktrain.api.selectors import LabelSelector, SelectorError
from ktrain.local.apiserver import causes, names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_FORM: Final = "; desired format: https://host[/path]"
_MAX_PORT: Final = 65535
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")


def check_choice(obj: Json, name: str, choices: Sequence[str], field: str) -> Iterator[Cause]:
    """Yield what is wrong with a field that must be there and be one of these."""
    if obj.get(name) is None:
        yield causes.required(f"{field}.{name}")
    elif obj[name] not in choices:
        yield causes.not_supported(f"{field}.{name}", obj[name], choices)


def check_selectors(obj: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with the selectors of namespaces and of objects."""
    for name in ("namespaceSelector", "objectSelector"):
        try:
            LabelSelector.from_object(obj.get(name) or {})
        except SelectorError as error:
            yield causes.invalid(f"{field}.{name}", obj[name], str(error))


def check_rules(rule: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with one rule: operations, groups, versions, resources, scope."""
    operations = rule.get("operations") or ()
    if not operations:
        yield causes.required(f"{field}.operations")
    if len(operations) > 1 and "*" in operations:
        yield causes.invalid(f"{field}.operations", operations, "if '*' is present, must not specify other operations")
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield causes.not_supported(f"{field}.operations[{index}]", operation, _OPERATIONS)
    for name, what in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(name) or ()
        if not values:
            yield causes.required(f"{field}.{name}")
        if len(values) > 1 and "*" in values:
            yield causes.invalid(f"{field}.{name}", values, f"if '*' is present, must not specify other {what}")
        for index, value in enumerate(values):
            if not value and name == "apiVersions":
                yield causes.required(f"{field}.{name}[{index}]")
    yield from _check_resources(rule.get("resources") or (), f"{field}.resources")
    if rule.get("scope") is not None:
        yield from check_choice(rule, "scope", _SCOPES, field)


def _check_resources(resources: Sequence[str], field: str) -> Iterator[Cause]:
    if not resources:
        yield causes.required(field)
    for index, resource in enumerate(resources):
        plural, slash, subresource = resource.partition("/")
        earlier = resources[:index]
        if not resource:
            yield causes.required(f"{field}[{index}]")
        elif slash and f"{plural}/*" in earlier:
            detail = f"if '{plural}/*' is present, must not specify {resource}"
            yield causes.invalid(f"{field}[{index}]", resource, detail)
        elif slash and f"*/{subresource}" in earlier:
            detail = f"if '*/{subresource}' is present, must not specify {resource}"
            yield causes.invalid(f"{field}[{index}]", resource, detail)
    if len(resources) > 1 and "*/*" in resources:
        yield causes.invalid(field, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and any(one and one != "*" and "/" not in one for one in resources):
        detail = "if '*' is present, must not specify other resources without subresources"
        yield causes.invalid(field, resources, detail)


def check_client(config: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with where a webhook is said to be."""
    url, service = config.get("url"), config.get("service")
    if (url is None) is (service is None):
        yield causes.required(field, "exactly one of url or service is required")
    elif url is not None:
        yield from _check_url(url, f"{field}.url")
    elif service is not None:
        yield from _check_service(service, f"{field}.service")


def _check_url(url: str, field: str) -> Iterator[Cause]:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        yield causes.required(field, f"url must be a valid URL: {error}{_FORM}")
        return
    if parts.scheme != "https":
        yield causes.invalid(field, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not parts.netloc:
        yield causes.invalid(field, "", f"host must be specified{_FORM}")
    if "@" in parts.netloc:
        user = parts.netloc.rpartition("@")[0]
        yield causes.invalid(field, user, "user information is not permitted in the URL")
    if parts.fragment:
        yield causes.invalid(field, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield causes.invalid(field, parts.query, "query parameters are not permitted in the URL")


def _check_service(service: Json, field: str) -> Iterator[Cause]:
    for name in ("name", "namespace"):
        if not service.get(name):
            yield causes.required(f"{field}.{name}")
    port = service.get("port", 443)
    if not 1 <= port <= _MAX_PORT:
        yield causes.invalid(f"{field}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    path = service.get("path")
    if not path or path == "/":
        return
    if not path.startswith("/"):
        yield causes.invalid(f"{field}.path", path, "must start with a '/'")
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            yield causes.invalid(f"{field}.path", path, f"segment[{index}] may not be empty")
            continue
        for text in names.subdomain(step):
            yield causes.invalid(f"{field}.path", path, f"segment[{index}]: {text}")


def check_review_versions(versions: Sequence[str], field: str, *, hint: bool = True) -> Iterator[Cause]:
    """Yield what is wrong with the versions of reviews that a webhook reads."""
    if not versions:
        yield causes.required(field, f"must specify one of {', '.join(_REVIEW_VERSIONS)}" if hint else "")
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield causes.invalid(f"{field}[{index}]", version, "duplicate version")
            continue
        for text in names.dns1035_label(version):
            yield causes.invalid(f"{field}[{index}]", version, text)
    if not set(versions) & set(_REVIEW_VERSIONS):
        yield causes.invalid(field, versions, f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")
