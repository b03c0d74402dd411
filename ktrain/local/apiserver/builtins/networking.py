"""NetworkPolicies, Ingresses and endpoints: stored and validated; nothing here filters or routes."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.selectors import validate_selector
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend

_PORT_TEXT: Final = "must be between 1 and 65535, inclusive"
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_POLICY_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_DIRECTIONS: Final = ("Ingress", "Egress")
_UNROUTABLE: Final = {
    "is_unspecified": "may not be unspecified (0.0.0.0 or ::)",
    "is_loopback": "may not be in the loopback range (127.0.0.0/8, ::1/128)",
    "is_link_local": "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
}
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")


class NetworkPolicyStrategy(Strategy):
    """NetworkPolicies."""

    def default(self, obj: Json) -> None:
        """Fill in protocols and directions."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("podSelector", {})
        for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
            for port in rule.get("ports", ()):
                port.setdefault("protocol", "TCP")
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check selectors, peers and ports."""
        spec = obj.get("spec") or {}
        found = list(validate_selector(spec.get("podSelector"), "spec.podSelector"))
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for index, rule in enumerate(spec.get(direction) or ()):
                path = f"spec.{direction}[{index}]"
                for number, port in enumerate(rule.get("ports") or ()):
                    found += _validate_policy_port(port, f"{path}.ports[{number}]")
                for number, peer in enumerate(rule.get(peers) or ()):
                    found += _validate_peer(peer, f"{path}.{peers}[{number}]")
        types = spec.get("policyTypes") or []
        if len(types) > len(_DIRECTIONS):
            return [*found, causes.invalid("spec.policyTypes", types, "may not specify more than two policyTypes")]
        for index, one in enumerate(types):
            if one not in _DIRECTIONS:
                found.append(causes.not_supported(f"spec.policyTypes[{index}]", one, _DIRECTIONS))
        return found


class IngressStrategy(Strategy):
    """Ingresses."""

    def default(self, obj: Json) -> None:
        """Write what typed clients always send."""
        obj["status"] = {"loadBalancer": {}, **obj.get("status", {})}

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Start without an address."""
        del backend
        obj["status"] = {"loadBalancer": {}}

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check rules, paths and backends."""
        spec = obj.get("spec") or {}
        if not spec.get("rules") and not spec.get("defaultBackend"):
            return [causes.invalid("spec", None, "either `defaultBackend` or `rules` must be specified")]
        found: list[Cause] = []
        if "defaultBackend" in spec:
            found += _validate_backend(spec["defaultBackend"], "spec.defaultBackend")
        for index, rule in enumerate(spec.get("rules") or ()):
            found += _validate_ingress_rule(rule, f"spec.rules[{index}]")
        return found


class EndpointsStrategy(Strategy):
    """Endpoints of the core group."""

    has_generation = False
    create_on_update = True

    def default(self, obj: Json) -> None:
        """Fill in protocols."""
        if not obj.get("subsets"):
            obj.pop("subsets", None)
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                port.setdefault("protocol", "TCP")


class EndpointSliceStrategy(Strategy):
    """EndpointSlices."""

    def default(self, obj: Json) -> None:
        """Fill in names and protocols."""
        for field in ("endpoints", "ports"):
            # Typed encoding writes a null for an empty list here.
            obj[field] = obj.get(field) or None
        for endpoint in obj.get("endpoints") or ():
            endpoint.setdefault("conditions", {})
        for port in obj.get("ports") or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check the addresses."""
        kind = obj.get("addressType", "")
        if not kind:
            return [causes.required("addressType")]
        if kind not in _ADDRESS_TYPES:
            return [causes.not_supported("addressType", kind, _ADDRESS_TYPES)]
        found = []
        for index, endpoint in enumerate(obj.get("endpoints") or ()):
            addresses, field = endpoint.get("addresses") or [], f"endpoints[{index}].addresses"
            if not addresses:
                found.append(causes.required(field, "must contain at least 1 address"))
            for number, address in enumerate(addresses):
                found += _validate_address(kind, address, f"{field}[{number}]")
        return found

    def spec_changed(self, obj: Json, old: Json) -> bool:
        """Labels count: they say whose endpoints these are."""
        labels = (obj["metadata"].get("labels"), old["metadata"].get("labels"))
        return labels[0] != labels[1] or super().spec_changed(obj, old)

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """The kind of addresses stays."""
        same = obj.get("addressType") == old.get("addressType")
        return () if same else [causes.invalid("addressType", obj.get("addressType"), causes.IMMUTABLE)]


def _validate_address(kind: str, address: str, field: str) -> Iterator[Cause]:
    if kind == "FQDN":
        for text in names.subdomain(address):
            yield causes.invalid(field, address, text)
        return
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        yield causes.invalid(field, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
        return
    if parsed.version != (4 if kind == "IPv4" else 6):
        yield causes.invalid(field.rpartition("[")[0], address, f"must be an {kind} address")
    for trait, detail in _UNROUTABLE.items():
        if getattr(parsed, trait):
            yield causes.invalid(field, address, detail)


def _validate_policy_port(port: Json, field: str) -> Iterator[Cause]:
    if (protocol := port.get("protocol")) not in _PROTOCOLS:
        yield causes.not_supported(f"{field}.protocol", protocol, _POLICY_PROTOCOLS)
    number, end = port.get("port"), port.get("endPort")
    if isinstance(number, str):
        for text in names.port(number):
            yield causes.invalid(f"{field}.port", number, text)
        if end is not None:
            yield causes.invalid(f"{field}.endPort", end, "may not be specified when `port` is non-numeric")
        return
    if number is None:
        if end is not None:
            yield causes.invalid(f"{field}.endPort", end, "may not be specified when `port` is not specified")
        return
    if not 1 <= number <= 65535:
        yield causes.invalid(f"{field}.port", number, _PORT_TEXT)
    if end is not None:
        if end < number:
            yield causes.invalid(f"{field}.endPort", number, "must be greater than or equal to `port`")
        if not 1 <= end <= 65535:
            yield causes.invalid(f"{field}.endPort", end, _PORT_TEXT)


def _validate_peer(peer: Json, field: str) -> Iterator[Cause]:
    given = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if name in peer]
    for name in given:
        if name != "ipBlock":
            yield from validate_selector(peer[name], f"{field}.{name}")
    if "ipBlock" in peer:
        yield from _validate_block(peer["ipBlock"], f"{field}.ipBlock")
    if not given:
        yield causes.required(field, "must specify a peer")
    elif len(given) > 1 and "ipBlock" in peer:
        yield causes.forbidden(field, "may not specify both ipBlock and another peer")


def _validate_block(block: Json, field: str) -> Iterator[Cause]:
    cidr = block.get("cidr", "")
    if not cidr:
        yield causes.required(f"{field}.cidr")
        return
    outer = _network(cidr)
    if outer is None:
        yield causes.invalid(f"{field}.cidr", cidr, _CIDR_TEXT)
        return
    for index, one in enumerate(block.get("except") or ()):
        path, inner = f"{field}.except[{index}]", _network(one)
        if inner is None:
            yield causes.invalid(path, one, _CIDR_TEXT)
        elif inner.version != outer.version or inner == outer or not _is_inside(inner, outer):
            yield causes.invalid(path, one, "must be a strict subset of `cidr`")


_CIDR_TEXT: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _network(text: str) -> _Network | None:
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def _is_inside(inner: _Network, outer: _Network) -> bool:
    return inner.prefixlen >= outer.prefixlen and inner.network_address in outer


def _validate_ingress_rule(rule: Json, field: str) -> Iterator[Cause]:
    host = rule.get("host", "")
    for text in names.subdomain(host.removeprefix("*.")) if host else ():
        yield causes.invalid(f"{field}.host", host, text)
    http = rule.get("http")
    if http is not None and not http.get("paths"):
        yield causes.required(f"{field}.http.paths")
    for index, path in enumerate((http or {}).get("paths") or ()):
        at = f"{field}.http.paths[{index}]"
        kind, text = path.get("pathType"), path.get("path", "")
        if kind is None:
            yield causes.required(f"{at}.pathType", "pathType must be specified")
            continue
        if kind not in _PATH_TYPES:
            yield causes.not_supported(f"{at}.pathType", kind, _PATH_TYPES)
        elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
            yield causes.invalid(f"{at}.path", text, "must be an absolute path")
        yield from _validate_backend(path.get("backend") or {}, f"{at}.backend")


def _validate_backend(backend: Json, field: str) -> Iterator[Cause]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield causes.invalid(field, "", "cannot set both resource and service backends")
    elif resource is not None:
        return
    elif service is None:
        yield causes.invalid(field, "", "resource or service backend is required")
    else:
        if not service.get("name"):
            yield causes.required(f"{field}.service.name")
        yield from _validate_backend_port(service.get("port") or {}, field)


def _validate_backend_port(port: Json, field: str) -> Iterator[Cause]:
    name, number = port.get("name"), port.get("number", 0)
    if name and number:
        yield causes.invalid(field, "", "cannot set both port name & port number")
    elif not name and not number:
        yield causes.required(field, "port name or number is required")
    elif not name and not 1 <= number <= 65535:
        yield causes.invalid(f"{field}.service.port.number", number, _PORT_TEXT)
