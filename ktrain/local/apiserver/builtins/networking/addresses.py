"""
What is allocated to Services: addresses in the cluster, ports of the nodes. This cluster has IPv4 only.

What a Service asks for is settled before the rest of it is looked at, as upstream's allocators are asked first.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins.values.addresses import read_address, validate_address
from ktrain.local.apiserver.errors import StatusError, invalid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.registry import ServedResource

HEADLESS: Final = "None"
EXTERNAL: Final = frozenset({"NodePort", "LoadBalancer"})
_NETWORK: Final = ipaddress.IPv4Network("10.96.0.0/12")
_FIRST_FREE: Final = 16
"""Addresses below are kept for well-known services (kubernetes, DNS), as upstream does."""
_NODE_PORTS: Final = range(30000, 32768)
_SERVED: Final = "IPv4"
_FAMILIES: Final = ("IPv4", "IPv6")
_SINGLE: Final = "SingleStack"
_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_RANGE_TEXT: Final = "provided port is not in the valid range. The range of valid ports is 30000-32767"


def needs_health_port(spec: Json) -> bool:
    """Whether a balancer has to ask each node if it has pods of the service."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def complete_families(spec: Json) -> None:
    """Choose the families of addresses, as the allocator does: nobody owns what it writes."""
    if spec["type"] == "ExternalName":
        return
    given = spec.get("ipFamilies")
    # Who is behind a service without an address and without a selector is not known: anybody, in any family.
    if spec.get("clusterIP") == HEADLESS and not spec.get("selector"):
        policy = spec.setdefault("ipFamilyPolicy", "RequireDualStack")
        first = given[0] if given else _SERVED
        others = [] if policy == _SINGLE else [one for one in _FAMILIES if one != first]
        spec["ipFamilies"] = given if given and len(given) > 1 else [first, *others]
        return
    if not given:
        found = [read_address(text) for text in spec.get("clusterIPs") or ()]
        spec["ipFamilies"] = list(dict.fromkeys(f"IPv{one.version}" for one in found if one is not None)) or [_SERVED]
    spec.setdefault("ipFamilyPolicy", _SINGLE)


def validate_asked(spec: Json) -> list[Cause]:
    """Return what is wrong with the addresses and families that a service asks for."""
    if spec.get("type") == "ExternalName":
        fields = ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        detail = "may not be set for ExternalName services"
        return [causes.forbidden(f"spec.{name}", detail) for name in fields if spec.get(name)]
    return [*_validate_addresses(spec), *_validate_families(spec)] or list(_validate_served(spec))


def _validate_addresses(spec: Json) -> Iterator[Cause]:
    field, first, listed = "spec.clusterIPs", spec.get("clusterIP"), spec.get("clusterIPs") or []
    if listed and not first:
        yield causes.invalid(field, listed, "must be empty when `clusterIP` is not specified")
    elif listed and listed[0] != first:
        yield causes.invalid(field, listed, "first value must match `clusterIP`")
    if listed and listed[0] == HEADLESS:
        if len(listed) > 1:
            yield causes.invalid(field, listed, "'None' must be the first and only value")
        return
    for index, address in enumerate(listed):
        yield from validate_address(address, f"{field}[{index}]")
    if len(listed) > len(_FAMILIES):
        yield causes.invalid(field, listed, "may only hold up to 2 values")
    found = [read_address(text) for text in listed]
    versions = [one.version for one in found if one is not None]
    if len(listed) > 1 and len(set(versions)) < len(versions):
        yield causes.invalid(field, listed, "may specify no more than one IP for each IP family")
    for index, (family, parsed) in enumerate(zip(spec.get("ipFamilies") or (), found, strict=False)):
        if parsed is not None and family in _FAMILIES and family != f"IPv{parsed.version}":
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield causes.invalid(f"{field}[{index}]", listed[index], detail)


def _validate_families(spec: Json) -> Iterator[Cause]:
    families = spec.get("ipFamilies") or []
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            yield causes.not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES)
        elif family in families[:index]:
            yield causes.duplicate(f"spec.ipFamilies[{index}]", family)
    if (policy := spec.get("ipFamilyPolicy", _SINGLE)) not in _POLICIES:
        yield causes.not_supported("spec.ipFamilyPolicy", policy, _POLICIES)


def _validate_served(spec: Json) -> Iterator[Cause]:
    """Check families that are well-formed against those that the cluster has."""
    families, policy = spec.get("ipFamilies") or [], spec.get("ipFamilyPolicy")
    listed = spec.get("clusterIPs") or []
    if spec.get("clusterIP") == HEADLESS and not spec.get("selector"):
        return
    several = "must be 'RequireDualStack' or 'PreferDualStack' when multiple"
    if policy == _SINGLE and len(listed) > 1:
        yield causes.invalid("spec.ipFamilyPolicy", policy, f"{several} cluster IPs are specified")
    elif policy == _SINGLE and len(families) > 1:
        yield causes.invalid("spec.ipFamilyPolicy", policy, f"{several} IP families are specified")
    elif policy == "RequireDualStack":
        detail = "this cluster is not configured for dual-stack services"
        yield causes.invalid("spec.ipFamilyPolicy", policy, detail)
    else:
        for index, family in enumerate(families):
            if family == _SERVED:
                continue
            if index < len(listed) and listed[index] != HEADLESS:
                detail = f"{family} is not configured on this cluster"
                yield causes.invalid(f"spec.clusterIPs[{index}]", listed, detail)
            else:
                yield causes.invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")


def allocate(spec: Json, backend: Backend) -> None:
    """
    Give a service what it needs and does not ask for by number.

    Raises:
        StatusError: All are taken.
    """
    _allocate_ports(spec, backend)
    wants_one = spec["type"] != "ExternalName" and not spec.get("clusterIP") and spec.get("ports")
    if wants_one and spec["ipFamilies"][0] == _SERVED:
        spec["clusterIP"] = _free_address(backend)
        spec["clusterIPs"] = [spec["clusterIP"]]


def refuse_taken(resource: ServedResource, obj: Json, old: Json | None, backend: Backend) -> None:
    """
    Refuse what a service asks for by number and another one has, or nobody may have.

    Raises:
        StatusError: 422 naming the fields; 500 for a port of health checks, as upstream has it.
    """
    spec, before = obj["spec"], {} if old is None else old["spec"]
    found = list(_refuse_address(spec, before, backend))
    mine = _own_ports(before)
    taken = _node_ports(backend) - mine
    seen: set[tuple[int, int]] = set()
    for index, port in enumerate(spec.get("ports", ())):
        number = port.get("nodePort")
        if not number or number in mine:
            continue
        # One number for one port in several protocols is fine; a change may have it for several ports, too.
        shared = any(seen_number == number and (old is None) != (other == port["port"]) for seen_number, other in seen)
        if problem := _port_error(number, taken | {number} if shared else taken):
            found.append(causes.invalid(f"spec.ports[{index}].nodePort", number, problem))
        seen.add((number, port["port"]))
    if found:
        raise invalid(resource, obj["metadata"]["name"], found)
    number = spec.get("healthCheckNodePort")
    if number and number not in mine and (problem := _port_error(number, taken)):
        message = f"failed to allocate requested HealthCheck NodePort {number}: {problem}"
        raise StatusError(500, "InternalError", f"Internal error occurred: {message}")


def _refuse_address(spec: Json, before: Json, backend: Backend) -> Iterator[Cause]:
    address = spec.get("clusterIP")
    if address in {None, "", HEADLESS, before.get("clusterIP")}:
        return
    services = backend.store.collection("services")
    parsed, problem = ipaddress.ip_address(address), ""
    if parsed not in _NETWORK:
        problem = "the provided network does not match the current range"
    elif parsed in {_NETWORK.network_address, _NETWORK.broadcast_address}:
        problem = f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {_NETWORK}"
    elif any(item.obj["spec"].get("clusterIP") == address for _, item in services.entries()):
        problem = "provided IP is already allocated"
    if problem:
        yield causes.invalid("spec.clusterIPs", [address], f"failed to allocate IP {address}: {problem}")


def _port_error(number: int, taken: set[int]) -> str:
    if number not in _NODE_PORTS:
        return _RANGE_TEXT
    return "provided port is already allocated" if number in taken else ""


def _allocate_ports(spec: Json, backend: Backend) -> None:
    if spec["type"] not in EXTERNAL:
        return
    ports = spec.get("ports", ()) if spec.get("allocateLoadBalancerNodePorts", True) else ()
    asking = [(port, "nodePort") for port in ports if not port.get("nodePort")]
    if needs_health_port(spec) and not spec.get("healthCheckNodePort"):
        asking.append((spec, "healthCheckNodePort"))
    taken = _node_ports(backend) | _own_ports(spec) if asking else set()
    free = (number for number in _NODE_PORTS if number not in taken)
    for holder, field in asking:
        number = next(free, None)
        if number is None:
            message = "Internal error occurred: failed to allocate a nodePort: range is full"
            raise StatusError(500, "InternalError", message)
        holder[field] = number


def _node_ports(backend: Backend) -> set[int]:
    services = backend.store.collection("services")
    return {number for _, item in services.entries() for number in _own_ports(item.obj["spec"])}


def _own_ports(spec: Json) -> set[int]:
    health = spec.get("healthCheckNodePort")
    ports = {port["nodePort"] for port in spec.get("ports", ()) if port.get("nodePort")}
    return ports | {health} if health else ports


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
