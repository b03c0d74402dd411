"""Services: what is filled in, what an update keeps, and what goes with a type that is given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.networking.addresses import (
    EXTERNAL,
    allocate,
    complete_families,
    needs_health_port,
    refuse_taken,
    validate_asked,
)
from ktrain.local.apiserver.builtins.networking.validation import (
    is_external,
    service_warnings,
    validate_service,
)
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.registry import ServedResource

_AFFINITY_S: Final = 10800
_CLEARED: Final[tuple[tuple[Callable[[Json], bool], tuple[str, ...]], ...]] = (
    (lambda spec: spec["type"] != "ExternalName", ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")),
    (needs_health_port, ("healthCheckNodePort",)),
    (lambda spec: spec["type"] == "LoadBalancer", ("allocateLoadBalancerNodePorts", "loadBalancerClass")),
    (is_external, ("externalTrafficPolicy",)),
)
"""Fields that some services need; one that becomes another kind of service loses what it does not name anew."""


class ServiceStrategy(Strategy):
    """Services."""

    has_generation = False
    create_on_update = True
    answers_deleted_object = True

    def check_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """A service's name is part of DNS names: one label."""
        return names.label(name, prefix=prefix)

    def default(self, obj: Json) -> None:
        """Fill in types and ports."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        # Typed encoding leaves false out, so clients that compare never see it.
        if not spec.get("publishNotReadyAddresses"):
            spec.pop("publishNotReadyAddresses", None)
        if spec["sessionAffinity"] == "ClientIP":
            client = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            client.setdefault("timeoutSeconds", _AFFINITY_S)
        elif spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        if is_external(spec):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        obj["status"] = {"loadBalancer": {}, **obj.get("status", {})}
        for port in spec.get("ports", ()):
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in {None, 0, ""}:
                port["targetPort"] = port.get("port", 0)
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")

    def judge(self, resource: ServedResource, obj: Json, old: Json | None, backend: Backend) -> None:
        """Refuse addresses and ports of the nodes that another service has."""
        refuse_taken(resource, obj, old, backend)

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Give the service an address, unless it wants none."""
        obj["status"] = {"loadBalancer": {}}
        spec = obj["spec"]
        if spec["type"] == "ExternalName":
            spec.pop("internalTrafficPolicy", None)
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        complete_families(spec)
        _allocate(spec, backend)

    def prepare_update(self, obj: Json, old: Json, backend: Backend) -> None:
        """Keep what was allocated when the client does not send it."""
        spec, before = obj["spec"], old["spec"]
        _follow_address(spec, before)
        _keep(spec, before)
        _clear(spec, before)
        complete_families(spec)
        if before["type"] == "LoadBalancer" and spec["type"] != "LoadBalancer":
            obj["status"] = {"loadBalancer": {}}
        _allocate(spec, backend)

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check what it asks to be allocated; if that is well, or nothing is, everything else."""
        asked = validate_asked(obj["spec"])
        return asked if asked and obj["spec"]["type"] != "ExternalName" else [*asked, *validate_service(obj)]

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """The address stays: clients hold it. So does who balances the load."""
        spec, before = obj["spec"], old["spec"]
        if validate_asked(spec):
            return ()
        found = []
        given, address = spec.get("clusterIPs"), before.get("clusterIP")
        if address and "ExternalName" not in {spec["type"], before["type"]} and spec.get("clusterIP") != address:
            found.append(causes.invalid("spec.clusterIPs[0]", given, "may not change once set"))
        needed, port = needs_health_port(spec) and needs_health_port(before), spec.get("healthCheckNodePort")
        if needed and port != before.get("healthCheckNodePort"):
            found.append(causes.forbidden("spec.healthCheckNodePort", causes.IMMUTABLE))
        if spec["type"] == before["type"] == "LoadBalancer":
            chosen = spec.get("loadBalancerClass")
            if chosen != before.get("loadBalancerClass"):
                found.append(causes.invalid("spec.loadBalancerClass", chosen, "may not change once set"))
        return found

    def warn(self, obj: Json) -> Sequence[str]:
        """Say what is accepted and has no effect."""
        return list(service_warnings(obj["spec"]))

    def validate_status(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Only a load balancer has addresses outside."""
        balanced = obj["spec"]["type"] == "LoadBalancer"
        if balanced or not obj.get("status", {}).get("loadBalancer", {}).get("ingress"):
            return ()
        detail = "may only be used when `spec.type` is 'LoadBalancer'"
        return [causes.forbidden("status.loadBalancer.ingress", detail)]


def _allocate(spec: Json, backend: Backend) -> None:
    # A list without its first is going to be refused, and must not be completed.
    if spec.get("clusterIP") or not spec.get("clusterIPs"):
        allocate(spec, backend)


def _follow_address(spec: Json, before: Json) -> None:
    """Let the list follow the one address, for clients that know only that."""
    address, listed = spec.get("clusterIP"), spec.get("clusterIPs")
    if address == before.get("clusterIP"):
        if not listed and before.get("clusterIPs"):
            spec.pop("clusterIP", None)
    elif not listed or listed == before.get("clusterIPs"):
        spec.pop("clusterIPs", None)
        if address:
            spec["clusterIPs"] = [address]


def _keep(spec: Json, before: Json) -> None:
    if "ExternalName" not in {spec["type"], before["type"]}:
        if not spec.get("clusterIP") and not spec.get("clusterIPs"):
            for name in ("clusterIP", "clusterIPs"):
                if name in before:
                    spec[name] = before[name]
        for name in ("ipFamilies", "ipFamilyPolicy"):
            if name not in spec and name in before:
                spec[name] = before[name]
    if spec["type"] in EXTERNAL and before["type"] in EXTERNAL:
        known = {(p.get("port"), p.get("protocol")): p["nodePort"] for p in before.get("ports", ()) if "nodePort" in p}
        for port in spec.get("ports", ()):
            if not port.get("nodePort") and (number := known.get((port.get("port"), port.get("protocol")))):
                port["nodePort"] = number
    if needs_health_port(spec) and needs_health_port(before) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before["healthCheckNodePort"]


def _clear(spec: Json, before: Json) -> None:
    for needs, fields in _CLEARED:
        if needs(before) and not needs(spec):
            for name in fields:
                if spec.get(name) == before.get(name):
                    spec.pop(name, None)
    if before["type"] in EXTERNAL and spec["type"] not in EXTERNAL:
        old = {port["nodePort"] for port in before.get("ports", ()) if "nodePort" in port}
        for port in spec.get("ports", ()):
            if port.get("nodePort") in old:
                del port["nodePort"]
    if spec["type"] == "ExternalName":
        spec.pop("internalTrafficPolicy", None)
