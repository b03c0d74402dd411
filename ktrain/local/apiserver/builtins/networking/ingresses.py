"""Ingresses: stored and validated; nothing here routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.values.addresses import address_error, read_address
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend

_PORT_TEXT: Final = "must be between 1 and 65535, inclusive"
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_CLASS: Final = "kubernetes.io/ingress.class"
_NOT_IN_PATHS: Final = ("//", "/./", "/../", "%2f", "%2F")
_NOT_AT_THE_END: Final = ("/..", "/.")
_WILDCARD_TEXT: Final = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
    "regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


class IngressStrategy(Strategy):
    """Ingresses."""

    def default(self, obj: Json) -> None:
        """Write what typed clients always send."""
        obj["status"] = {"loadBalancer": {}, **obj.get("status", {})}
        for backend in _backends(obj.get("spec") or {}):
            if (resource := backend.get("resource")) is not None:
                resource.setdefault("apiGroup", None)

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Start without an address."""
        obj["status"] = {"loadBalancer": {}}

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check rules, paths and backends."""
        spec = obj.get("spec") or {}
        if not spec.get("rules") and "defaultBackend" not in spec:
            return [causes.invalid("spec", None, "either `defaultBackend` or `rules` must be specified")]
        found: list[Cause] = []
        if "defaultBackend" in spec:
            found += _validate_backend(spec["defaultBackend"], "spec.defaultBackend")
        for index, rule in enumerate(spec.get("rules") or ()):
            found += _validate_rule(rule, f"spec.rules[{index}]")
        for index, tls in enumerate(spec.get("tls") or ()):
            found += _validate_tls(tls, f"spec.tls[{index}]")
        if (name := spec.get("ingressClassName")) is not None:
            found += [causes.invalid("spec.ingressClassName", name, text) for text in names.subdomain(name)]
        return found

    def validate_create(self, obj: Json) -> Sequence[Cause]:
        """The old way of naming a class and the new one agree."""
        annotated, name = _annotated_class(obj), (obj.get("spec") or {}).get("ingressClassName")
        if annotated is None or name is None or annotated == name:
            return ()
        detail = "must match `ingressClassName` when both are specified"
        return [causes.invalid(f"annotations.{_CLASS}", annotated, detail)]

    def validate_status(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Check where it can be reached."""
        found: list[Cause] = []
        balancer = (obj.get("status") or {}).get("loadBalancer") or {}
        for index, point in enumerate(balancer.get("ingress") or ()):
            field = f"status.loadBalancer.ingress[{index}]"
            if (text := point.get("ip")) and (problem := address_error(text)):
                found.append(causes.invalid(f"{field}.ip", text, problem))
            if host := point.get("hostname"):
                found += [causes.invalid(f"{field}.hostname", host, text) for text in names.subdomain(host)]
                found += _validate_no_address(host, f"{field}.hostname")
        return found

    def warn(self, obj: Json) -> Sequence[str]:
        """Say what is deprecated, of a new ingress."""
        named = (obj.get("spec") or {}).get("ingressClassName") is not None
        if named or _annotated_class(obj) is None or obj["metadata"].get("generation", 1) != 1:
            return ()
        return [f"annotation \"{_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"]


def _annotated_class(obj: Json) -> str | None:
    annotations: Json = obj["metadata"].get("annotations") or {}
    return annotations.get(_CLASS)


def _backends(spec: Json) -> Iterator[Json]:
    if "defaultBackend" in spec:
        yield spec["defaultBackend"]
    for rule in spec.get("rules") or ():
        for path in (rule.get("http") or {}).get("paths") or ():
            if "backend" in path:
                yield path["backend"]


def _validate_rule(rule: Json, field: str) -> Iterator[Cause]:
    if host := rule.get("host", ""):
        yield from _validate_no_address(host, f"{field}.host")
        yield from _validate_host(host, f"{field}.host")
    http = rule.get("http")
    if http is not None and not http.get("paths"):
        yield causes.required(f"{field}.http.paths")
    for index, path in enumerate((http or {}).get("paths") or ()):
        at = f"{field}.http.paths[{index}]"
        kind = path.get("pathType")
        if kind is None:
            yield causes.required(f"{at}.pathType", "pathType must be specified")
            continue
        if kind not in _PATH_TYPES:
            yield causes.not_supported(f"{at}.pathType", kind, _PATH_TYPES)
        else:
            yield from _validate_path(path.get("path", ""), kind, f"{at}.path")
        yield from _validate_backend(path.get("backend") or {}, f"{at}.backend")


def _validate_path(path: str, kind: str, field: str) -> Iterator[Cause]:
    if kind == "ImplementationSpecific":
        if path and not path.startswith("/"):
            yield causes.invalid(field, path, "must be an absolute path")
        return
    if not path.startswith("/"):
        yield causes.invalid(field, path, "must be an absolute path")
    if not path:
        return
    for part in _NOT_IN_PATHS:
        if part in path:
            yield causes.invalid(field, path, f"must not contain '{part}'")
    for end in _NOT_AT_THE_END:
        if path.endswith(end):
            yield causes.invalid(field, path, f"cannot end with '{end}'")


def _validate_host(host: str, field: str) -> Iterator[Cause]:
    if "*" not in host:
        yield from (causes.invalid(field, host, text) for text in names.subdomain(host))
    elif not host.startswith("*.") or names.subdomain(host[2:]):
        yield causes.invalid(field, host, _WILDCARD_TEXT)


def _validate_no_address(host: str, field: str) -> Iterator[Cause]:
    if read_address(host) is not None:
        yield causes.invalid(field, host, "must be a DNS name, not an IP address")


def _validate_tls(tls: Json, field: str) -> Iterator[Cause]:
    for index, host in enumerate(tls.get("hosts") or ()):
        yield from _validate_host(host, f"{field}.hosts[{index}]")
    if name := tls.get("secretName"):
        yield from (causes.invalid(f"{field}.secretName", name, text) for text in names.subdomain(name))


def _validate_backend(backend: Json, field: str) -> Iterator[Cause]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield causes.invalid(field, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _validate_resource(resource, f"{field}.resource")
    elif service is None:
        yield causes.invalid(field, "", "resource or service backend is required")
    else:
        if not (name := service.get("name")):
            yield causes.required(f"{field}.service.name")
        else:
            yield from (causes.invalid(f"{field}.service.name", name, text) for text in names.label(name))
        yield from _validate_port(service.get("port") or {}, field)


def _validate_resource(resource: Json, field: str) -> Iterator[Cause]:
    if group := resource.get("apiGroup"):
        yield from (causes.invalid(f"{field}.apiGroup", group, text) for text in names.subdomain(group))
    for part in ("kind", "name"):
        if not (value := resource.get(part)):
            yield causes.required(f"{field}.{part}")
        else:
            yield from (causes.invalid(f"{field}.{part}", value, text) for text in names.path_segment(value))


def _validate_port(port: Json, field: str) -> Iterator[Cause]:
    name, number = port.get("name"), port.get("number", 0)
    if name and number:
        yield causes.invalid(field, "", "cannot set both port name & port number")
    elif not name and not number:
        yield causes.required(field, "port name or number is required")
    elif name:
        yield from (causes.invalid(f"{field}.service.port.name", name, text) for text in names.port(name))
    elif not 1 <= number <= 65535:
        yield causes.invalid(f"{field}.service.port.number", number, _PORT_TEXT)
