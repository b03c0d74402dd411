"""NetworkPolicies: stored and validated; nothing here filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.values.addresses import Network, read_network, validate_network
from ktrain.local.apiserver.builtins.values.selectors import validate_selector
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_PORT_TEXT: Final = "must be between 1 and 65535, inclusive"
_POLICY_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_DIRECTIONS: Final = ("Ingress", "Egress")


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


def _validate_policy_port(port: Json, field: str) -> Iterator[Cause]:
    if (protocol := port.get("protocol")) not in _POLICY_PROTOCOLS:
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
    yield from validate_network(cidr, f"{field}.cidr")
    outer = read_network(cidr)
    for index, one in enumerate(block.get("except") or ()):
        path, inner = f"{field}.except[{index}]", read_network(one)
        yield from validate_network(one, path)
        if inner is not None and outer is not None and (inner == outer or not _is_inside(inner, outer)):
            yield causes.invalid(path, one, "must be a strict subset of `cidr`")


def _is_inside(inner: Network, outer: Network) -> bool:
    same = inner.version == outer.version
    return same and inner.prefixlen >= outer.prefixlen and inner.network_address in outer
