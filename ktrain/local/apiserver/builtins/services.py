"""Services: cluster IPs, port defaults and the rules for them."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final

from ktrain.api.selectors import label_key_errors, label_value_errors
from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.errors import StatusError, invalid
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.registry import ServedResource

_NETWORK: Final = ipaddress.IPv4Network("10.96.0.0/12")
_FIRST_FREE: Final = 16
"""Addresses below are kept for well-known services (kubernetes, DNS), as upstream does."""
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_AFFINITIES: Final = ("ClientIP", "None")
_EXTERNAL: Final = frozenset({"NodePort", "LoadBalancer"})
_NODE_PORTS: Final = range(30000, 32768)
_AFFINITY_S: Final = 10800
_PORT_TEXT: Final = "must be between 1 and 65535, inclusive"
_HEADLESS: Final = "None"


_FAMILIES: Final = ("ipFamilies", "ipFamilyPolicy")
_TRAFFIC: Final = ("Cluster", "Local")


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
            spec.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": _AFFINITY_S}})
        else:
            spec.pop("sessionAffinityConfig", None)
        if spec["type"] in _EXTERNAL:
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        obj["status"] = {"loadBalancer": {}, **obj.get("status", {})}
        for port in spec.get("ports", ()):
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in {None, 0, ""}:
                port["targetPort"] = port.get("port")
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]

    def judge(self, resource: ServedResource, obj: Json, old: Json | None, backend: Backend) -> None:
        """Refuse addresses and ports of the nodes that another service has."""
        _refuse_taken(resource, obj, old, backend)

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Give the service an address, unless it wants none."""
        obj["status"] = {"loadBalancer": {}}
        spec = obj["spec"]
        _allocate_ports(spec, backend)
        _default_families(spec)
        if spec["type"] == "ExternalName" or spec.get("clusterIP"):
            return
        if spec.get("ports"):
            spec["clusterIP"] = _free_address(backend)
            spec["clusterIPs"] = [spec["clusterIP"]]

    def prepare_update(self, obj: Json, old: Json, backend: Backend) -> None:
        """Keep the address when the client does not send it."""
        spec, before = obj["spec"], old["spec"]
        _keep_ports(spec, before)
        _allocate_ports(spec, backend)
        if spec["type"] != "ExternalName":
            for name in _FAMILIES:
                if name not in spec and name in before:
                    spec[name] = before[name]
        _default_families(spec)
        if before["type"] == "LoadBalancer" and spec["type"] != "LoadBalancer":
            obj["status"] = {"loadBalancer": {}}
        if not spec.get("clusterIP") and before.get("clusterIP") and spec["type"] != "ExternalName":
            spec["clusterIP"] = before["clusterIP"]
            spec["clusterIPs"] = before.get("clusterIPs", [before["clusterIP"]])

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check type, address and ports."""
        spec = obj.get("spec", {})
        found = []
        headless = spec.get("clusterIP") == _HEADLESS
        if spec.get("type") not in _TYPES:
            found.append(causes.not_supported("spec.type", spec.get("type"), _TYPES))
        if spec.get("sessionAffinity") not in _AFFINITIES:
            found.append(causes.not_supported("spec.sessionAffinity", spec.get("sessionAffinity"), _AFFINITIES))
        if not spec.get("ports") and not headless and spec.get("type") != "ExternalName":
            found.append(causes.required("spec.ports"))
        if spec.get("type") == "ExternalName" and not spec.get("externalName"):
            found.append(causes.required("spec.externalName"))
        found += _validate_selector(spec.get("selector") or {})
        if spec.get("internalTrafficPolicy", "Cluster") not in _TRAFFIC:
            found.append(causes.not_supported("spec.internalTrafficPolicy", spec["internalTrafficPolicy"], _TRAFFIC))
        if headless and spec.get("type") in _EXTERNAL:
            detail = f"may not be set to 'None' for {spec['type']} services"
            found.append(causes.invalid("spec.clusterIPs[0]", _HEADLESS, detail))
        address = spec.get("clusterIP")
        if address and not headless and not _is_address(address):
            found.append(causes.invalid("spec.clusterIPs[0]", address, "must be a valid IP address"))
        elif address and not headless and ipaddress.ip_address(address) not in _NETWORK:
            detail = f"failed to allocate IP {address}: the provided network does not match the current range"
            found.append(causes.invalid("spec.clusterIPs", [address], detail))
        return [*found, *_validate_ports(spec.get("ports", []))]

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """The address stays: clients hold it."""
        address, before = obj["spec"].get("clusterIP"), old["spec"].get("clusterIP")
        if before and address != before and obj["spec"]["type"] != "ExternalName":
            return [causes.invalid("spec.clusterIPs[0]", [address] if address else None, "may not change once set")]
        return ()

    def validate_status(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Only a load balancer has addresses outside."""
        del old
        balanced = obj["spec"]["type"] == "LoadBalancer"
        if balanced or not obj.get("status", {}).get("loadBalancer", {}).get("ingress"):
            return ()
        detail = "may only be used when `spec.type` is 'LoadBalancer'"
        return [causes.forbidden("status.loadBalancer.ingress", detail)]


def _validate_ports(ports: list[Json]) -> Iterator[Cause]:
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
        number = port.get("port", 0)
        if not 1 <= number <= 65535:
            yield causes.invalid(f"{path}.port", number, _PORT_TEXT)
        target = port.get("targetPort")
        if isinstance(target, int) and not 1 <= target <= 65535:
            yield causes.invalid(f"{path}.targetPort", target, _PORT_TEXT)
        if port.get("protocol") not in _PROTOCOLS:
            yield causes.not_supported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS)
        if (number, port.get("protocol")) in numbers:
            yield causes.duplicate(path, {"port": number, "protocol": port.get("protocol")})
        numbers.add((number, port.get("protocol")))


def _keep_ports(spec: Json, before: Json) -> None:
    """Keep the node's ports of a client that does not send them; a service without any loses what goes with them."""
    if spec["type"] in _EXTERNAL:
        known = {(p.get("port"), p.get("protocol")): p["nodePort"] for p in before.get("ports", ()) if "nodePort" in p}
        for port in spec.get("ports", ()):
            if "nodePort" not in port and (number := known.get((port.get("port"), port.get("protocol")))):
                port["nodePort"] = number
    elif before["type"] in _EXTERNAL:
        spec.pop("externalTrafficPolicy", None)
        spec.pop("allocateLoadBalancerNodePorts", None)
        for port in spec.get("ports", ()):
            port.pop("nodePort", None)


def _validate_selector(selector: Json) -> Iterator[Cause]:
    for key, value in selector.items():
        yield from (causes.invalid("spec.selector", key, text) for text in label_key_errors(key))
        yield from (causes.invalid("spec.selector", value, text) for text in label_value_errors(value))


def _default_families(spec: Json) -> None:
    """Choose the families of addresses, as the allocator does: nobody owns what it writes."""
    if spec["type"] == "ExternalName":
        return
    # Who is behind a service without an address and without a selector is not known: anybody, in any family.
    open_ended = spec.get("clusterIP") == _HEADLESS and not spec.get("selector")
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if open_ended else ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if open_ended else "SingleStack")


def _allocate_ports(spec: Json, backend: Backend) -> None:
    """
    Give each port a port of the nodes that no other service has.

    Raises:
        StatusError: All are taken.
    """
    if spec["type"] not in _EXTERNAL or not spec.get("allocateLoadBalancerNodePorts", True):
        return
    taken = _node_ports(backend) | _own_ports(spec)
    free = (number for number in _NODE_PORTS if number not in taken)
    for port in spec.get("ports", ()):
        if not port.get("nodePort"):
            number = next(free, None)
            if number is None:
                message = "Internal error occurred: failed to allocate a nodePort: range is full"
                raise StatusError(500, "InternalError", message)
            port["nodePort"] = number


def _node_ports(backend: Backend) -> set[int]:
    services = backend.store.collection("services")
    return {number for _, item in services.entries() for number in _own_ports(item.obj["spec"])}


def _own_ports(spec: Json) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports", ()) if port.get("nodePort")}


def _refuse_taken(resource: ServedResource, obj: Json, old: Json | None, backend: Backend) -> None:
    """Refuse what a service asks for by number and another one has."""
    spec, before = obj["spec"], {} if old is None else old["spec"]
    found, address = [], spec.get("clusterIP")
    services = backend.store.collection("services")
    if address not in {None, "", _HEADLESS, before.get("clusterIP")} and any(
        item.obj["spec"].get("clusterIP") == address for _, item in services.entries()
    ):
        detail = f"failed to allocate IP {address}: provided IP is already allocated"
        found.append(causes.invalid("spec.clusterIPs", [address], detail))
    mine = _own_ports(before)
    taken = _node_ports(backend) - mine
    for index, port in enumerate(spec.get("ports", ())):
        number = port.get("nodePort")
        if not number or number in mine:
            continue
        field = f"spec.ports[{index}].nodePort"
        if number not in _NODE_PORTS:
            detail = "provided port is not in the valid range. The range of valid ports is 30000-32767"
            found.append(causes.invalid(field, number, detail))
        elif number in taken:
            found.append(causes.invalid(field, number, "provided port is already allocated"))
        taken.add(number)
    if found:
        raise invalid(resource, obj["metadata"]["name"], found)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _free_address(backend: Backend) -> str:
    services = backend.store.collection("services")
    taken = {item.obj["spec"].get("clusterIP") for _, item in services.entries()}
    size = _NETWORK.num_addresses - 2
    # Start where the number of services points: the first try is free unless addresses were deleted or chosen by hand.
    for step in range(size):
        address = str(_NETWORK[_FIRST_FREE + (len(services) + step) % (size - _FIRST_FREE)])
        if address not in taken:
            return address
    raise StatusError(500, "InternalError", "Internal error occurred: failed to allocate a serviceIP: range is full")
