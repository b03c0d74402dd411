"""Endpoints and EndpointSlices: stored and validated; nothing here routes."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from ktrain.api.selectors import label_key_errors
from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.values.addresses import address_error, unreachable_error, validate_reachable
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend

_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PORT_TEXT: Final = "must be between 1 and 65535, inclusive"


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

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check who answers, and where."""
        found: list[Cause] = []
        for index, subset in enumerate(obj.get("subsets") or ()):
            field = f"subsets[{index}]"
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                found.append(causes.required(field, "must specify `addresses` or `notReadyAddresses`"))
            for part in ("addresses", "notReadyAddresses"):
                for number, address in enumerate(subset.get(part) or ()):
                    found += _validate_subset_address(address, f"{field}.{part}[{number}]")
            ports: list[Json] = subset.get("ports") or []
            for number, port in enumerate(ports):
                path = f"{field}.ports[{number}]"
                if len(ports) > 1 and not port.get("name"):
                    found.append(causes.required(f"{path}.name"))
                if not 1 <= (value := port.get("port", 0)) <= 65535:
                    found.append(causes.invalid(f"{path}.port", value, _PORT_TEXT))
                found += _validate_port(port, path)
        return found


class EndpointSliceStrategy(Strategy):
    """EndpointSlices."""

    empty: Json = {"endpoints": None, "ports": None}

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

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Drop what the first version of the API had."""
        _drop_topology(obj)

    def prepare_update(self, obj: Json, old: Json, backend: Backend) -> None:
        """Drop what the first version of the API had."""
        _drop_topology(obj)

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check the addresses and ports."""
        kind = obj.get("addressType", "")
        if not kind:
            return [causes.required("addressType")]
        if kind not in _ADDRESS_TYPES:
            return [causes.not_supported("addressType", kind, _ADDRESS_TYPES)]
        found: list[Cause] = []
        for index, endpoint in enumerate(obj.get("endpoints") or ()):
            found += _validate_endpoint(endpoint, kind, f"endpoints[{index}]")
        seen: set[str] = set()
        for index, port in enumerate(obj.get("ports") or ()):
            if (name := port.get("name", "")) in seen:
                found.append(causes.duplicate(f"ports[{index}].name", name))
            seen.add(name)
            found += _validate_port(port, f"ports[{index}]")
        return found

    def spec_changed(self, obj: Json, old: Json) -> bool:
        """Labels count: they say whose endpoints these are."""
        labels = (obj["metadata"].get("labels"), old["metadata"].get("labels"))
        return labels[0] != labels[1] or super().spec_changed(obj, old)

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """The kind of addresses stays."""
        kind = obj.get("addressType", "")
        return () if kind == old.get("addressType") else [causes.invalid("addressType", kind, causes.IMMUTABLE)]

    def warn(self, obj: Json) -> Sequence[str]:
        """Say what is deprecated."""
        return ["spec.addressType: FQDN endpoints are deprecated"] if obj.get("addressType") == "FQDN" else ()


def _drop_topology(obj: Json) -> None:
    for endpoint in obj.get("endpoints") or ():
        endpoint.pop("deprecatedTopology", None)


def _validate_subset_address(address: Json, field: str) -> Iterator[Cause]:
    text = address.get("ip", "")
    yield from validate_reachable(text, f"{field}.ip")
    if address_error(text) and not _is_address(text):
        yield causes.invalid(f"{field}.ip", text, "must be a valid IP address")
    yield from _validate_names(address, field)


def _validate_endpoint(endpoint: Json, kind: str, field: str) -> Iterator[Cause]:
    addresses = endpoint.get("addresses") or []
    if not addresses:
        yield causes.required(f"{field}.addresses", "must contain at least 1 address")
    for index, address in enumerate(addresses):
        yield from _validate_address(kind, address, f"{field}.addresses[{index}]")
    yield from _validate_names(endpoint, field)
    for part in ("forZones", "forNodes"):
        seen: set[str] = set()
        for index, hint in enumerate((endpoint.get("hints") or {}).get(part) or ()):
            if (name := hint.get("name", "")) in seen:
                yield causes.duplicate(f"{field}.hints.{part}[{index}].name", name)
            seen.add(name)


def _validate_address(kind: str, address: str, field: str) -> Iterator[Cause]:
    if kind == "FQDN":
        yield from (causes.invalid(field, address, text) for text in names.subdomain(address))
        return
    if problem := address_error(address):
        yield causes.invalid(field, address, problem)
        return
    parsed = ipaddress.ip_address(address)
    if parsed.version != (4 if kind == "IPv4" else 6):
        yield causes.invalid(field.rpartition("[")[0], address, f"must be an {kind} address")
    if problem := unreachable_error(parsed):
        yield causes.invalid(field, address, problem)


def _validate_names(holder: Json, field: str) -> Iterator[Cause]:
    rules: tuple[tuple[str, Callable[[str], list[str]]], ...]
    rules = (("hostname", names.label), ("nodeName", names.subdomain))
    for name, errors in rules:
        if value := holder.get(name):
            yield from (causes.invalid(f"{field}.{name}", value, text) for text in errors(value))


def _validate_port(port: Json, field: str) -> Iterator[Cause]:
    if name := port.get("name"):
        yield from (causes.invalid(f"{field}.name", name, text) for text in names.label(name))
    if (protocol := port.get("protocol")) not in _PROTOCOLS:
        yield causes.not_supported(f"{field}.protocol", protocol, _PROTOCOLS)
    if (protocol := port.get("appProtocol")) is not None:
        yield from (causes.invalid(f"{field}.appProtocol", protocol, text) for text in label_key_errors(protocol))


def _is_address(text: str) -> bool:
    return address_error(text) == "must not have leading 0s"
