"""Validation of a Service's spec, beside the addresses and families that it asks for (`addresses`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ktrain.api.selectors import label_key_errors, label_value_errors
from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.networking.addresses import EXTERNAL, HEADLESS, needs_health_port
from ktrain.local.apiserver.builtins.values.addresses import validate_network, validate_reachable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_AFFINITIES: Final = ("ClientIP", "None")
_TRAFFIC: Final = ("Cluster", "Local")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_DAY_S: Final = 86400
_PORT_TEXT: Final = "must be between 1 and 65535, inclusive"
_BALANCED_ONLY: Final = "may only be used when `type` is 'LoadBalancer'"
_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
_TOPOLOGY: Final = "service.kubernetes.io/topology-mode"


def validate_service(obj: Json) -> Iterator[Cause]:
    """Yield what is wrong with a Service."""
    spec, annotations = obj.get("spec", {}), obj["metadata"].get("annotations") or {}
    yield from _validate_type(spec)
    yield from _validate_ports(spec)
    yield from _validate_selector(spec.get("selector") or {})
    yield from _validate_affinity(spec)
    if spec.get("type") not in _TYPES:
        yield causes.not_supported("spec.type", spec.get("type"), _TYPES)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        yield from validate_reachable(address, f"spec.externalIPs[{index}]")
    yield from _validate_ranges(spec, annotations)
    yield from _validate_balancer(spec)
    yield from _validate_traffic(spec)
    hints = annotations.get(_HINTS)
    if hints is not None and annotations.get(_TOPOLOGY, hints) != hints:
        detail = f"must match annotations[{_HINTS}] when both are specified"
        yield causes.invalid(f"metadata.annotations[{_TOPOLOGY}]", annotations[_TOPOLOGY], detail)


def service_warnings(spec: Json) -> Iterator[str]:
    """Yield what is accepted, and does nothing or soon will."""
    if spec.get("externalIPs"):
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if spec["type"] != "ExternalName" and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("clusterIP") == HEADLESS and spec.get("sessionAffinity") == "ClientIP":
        yield "spec.SessionAffinity is ignored for headless services"
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _validate_type(spec: Json) -> Iterator[Cause]:
    kind, headless = spec.get("type"), spec.get("clusterIP") == HEADLESS
    if not spec.get("ports") and not headless and kind != "ExternalName":
        yield causes.required("spec.ports")
    if kind in EXTERNAL and headless:
        detail = f"may not be set to 'None' for {kind} services"
        yield causes.invalid("spec.clusterIPs[0]", HEADLESS, detail)
    if kind == "ExternalName":
        if host := spec.get("externalName", "").removesuffix("."):
            for text in names.subdomain(host):
                yield causes.invalid("spec.externalName", host, text)
        else:
            yield causes.required("spec.externalName")


def _validate_ports(spec: Json) -> Iterator[Cause]:
    ports: list[Json] = spec.get("ports") or []
    seen: set[str] = set()
    numbers: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name = port.get("name", "")
        if not name and len(ports) > 1:
            yield causes.required(f"{path}.name")
        elif name:
            for text in names.label(name):
                yield causes.invalid(f"{path}.name", name, text)
            if name in seen:
                yield causes.duplicate(f"{path}.name", name)
            seen.add(name)
        yield from _validate_port(port, path, spec.get("type", ""))
        key = (port.get("port", 0), port.get("protocol"))
        if key in numbers:
            yield causes.duplicate(path, {"port": key[0], "protocol": key[1]})
        numbers.add(key)


def _validate_port(port: Json, path: str, kind: str) -> Iterator[Cause]:
    number, target = port.get("port", 0), port.get("targetPort", 0)
    if not 1 <= number <= 65535:
        yield causes.invalid(f"{path}.port", number, _PORT_TEXT)
    if isinstance(target, str):
        for text in names.port(target):
            yield causes.invalid(f"{path}.targetPort", target, text)
    elif not 1 <= target <= 65535:
        yield causes.invalid(f"{path}.targetPort", target, _PORT_TEXT)
    if port.get("protocol") not in _PROTOCOLS:
        yield causes.not_supported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS)
    if (protocol := port.get("appProtocol")) is not None:
        for text in label_key_errors(protocol):
            yield causes.invalid(f"{path}.appProtocol", protocol, text)
    if kind == "ClusterIP" and port.get("nodePort"):
        yield causes.forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'")


def _validate_selector(selector: Json) -> Iterator[Cause]:
    for key, value in selector.items():
        yield from (causes.invalid("spec.selector", key, text) for text in label_key_errors(key))
        yield from (causes.invalid("spec.selector", value, text) for text in label_value_errors(value))


def _validate_affinity(spec: Json) -> Iterator[Cause]:
    affinity = spec.get("sessionAffinity")
    if affinity not in _AFFINITIES:
        yield causes.not_supported("spec.sessionAffinity", affinity, _AFFINITIES)
    elif affinity == "ClientIP":
        seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
        if not 0 < seconds <= _DAY_S:
            field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            yield causes.invalid(field, seconds, f"must be greater than 0 and less than {_DAY_S}")


def _validate_ranges(spec: Json, annotations: Json) -> Iterator[Cause]:
    ranges, field = spec.get("loadBalancerSourceRanges") or [], "spec.LoadBalancerSourceRanges"
    annotated = annotations.get(_RANGES)
    if not ranges and annotated is None:
        return
    if spec.get("type") != "LoadBalancer":
        where = field if ranges else f"metadata.annotations[{_RANGES}]"
        yield causes.forbidden(where, _BALANCED_ONLY)
    if ranges:
        for index, one in enumerate(ranges):
            yield from validate_network(one.strip(), f"{field}[{index}]")
    elif annotated is not None and annotated.strip():
        for one in annotated.strip().split(","):
            yield from validate_network(one.strip(), f"metadata.annotations[{_RANGES}]")


def _validate_balancer(spec: Json) -> Iterator[Cause]:
    balanced, chosen = spec.get("type") == "LoadBalancer", spec.get("loadBalancerClass")
    if not balanced and spec.get("allocateLoadBalancerNodePorts") is not None:
        yield causes.forbidden("spec.allocateLoadBalancerNodePorts", _BALANCED_ONLY)
    if chosen is not None and not balanced:
        yield causes.forbidden("spec.loadBalancerClass", _BALANCED_ONLY)
    elif chosen is not None:
        for text in label_key_errors(chosen):
            yield causes.invalid("spec.loadBalancerClass", chosen, text)


def is_external(spec: Json) -> bool:
    """Whether somebody outside of the cluster can reach it."""
    return spec.get("type") in EXTERNAL or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


def _validate_traffic(spec: Json) -> Iterator[Cause]:
    if external := spec.get("externalTrafficPolicy"):
        if not is_external(spec):
            detail = "may only be set for externally-accessible services"
            yield causes.invalid("spec.externalTrafficPolicy", external, detail)
        elif external not in _TRAFFIC:
            yield causes.not_supported("spec.externalTrafficPolicy", external, _TRAFFIC)
    number = spec.get("healthCheckNodePort")
    if number and not needs_health_port(spec):
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield causes.invalid("spec.healthCheckNodePort", number, detail)
    elif number and not 1 <= number <= 65535:
        yield causes.invalid("spec.healthCheckNodePort", number, _PORT_TEXT)
    if (internal := spec.get("internalTrafficPolicy", "Cluster")) not in _TRAFFIC:
        yield causes.not_supported("spec.internalTrafficPolicy", internal, _TRAFFIC)
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        yield causes.not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS)
