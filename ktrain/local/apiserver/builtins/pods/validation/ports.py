"""Ports of containers, in the API server's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.pods.validation.choices import enumerated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_NUMBER_TEXT: Final = "must be between 1 and 65535, inclusive"
_HOST_NETWORK_TEXT: Final = "must match `containerPort` when `hostNetwork` is true"


def validate_ports(ports: Iterable[Json], field: str) -> Iterator[Cause]:
    """Yield what is wrong with the ports of a container."""
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path = f"{field}[{index}]"
        if name := port.get("name"):
            wrong = names.port(name)
            for text in wrong:
                yield causes.invalid(f"{path}.name", name, text)
            if name in seen:
                yield causes.duplicate(f"{path}.name", name)
            elif not wrong:
                seen.add(name)
        if number := port.get("containerPort", 0):
            yield from validate_number(number, f"{path}.containerPort")
        else:
            yield causes.required(f"{path}.containerPort")
        if number := port.get("hostPort", 0):
            yield from validate_number(number, f"{path}.hostPort")
        yield from enumerated(port, "protocol", _PROTOCOLS, path)


def validate_host_ports(containers: Iterable[tuple[str, Json]], *, host_network: bool) -> Iterator[Cause]:
    """Yield what is wrong with the host's ports that containers, given with their fields, have at the same time."""
    taken: set[str] = set()
    for field, container in containers:
        for index, port in enumerate(container.get("ports", ())):
            number = port.get("hostPort", 0)
            if not number:
                continue
            place = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{number}"
            if place in taken:
                yield causes.duplicate(f"{field}.ports[{index}].hostPort", place)
            taken.add(place)
            if host_network and number != port.get("containerPort", 0):
                yield causes.invalid(f"{field}.ports[{index}].hostPort", number, _HOST_NETWORK_TEXT)


def validate_port(port: int | str, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a port given by its number or its name."""
    if isinstance(port, int):
        yield from validate_number(port, field)
    else:
        for text in names.port(port):
            yield causes.invalid(field, port, text)


def validate_number(port: int, field: str) -> Iterator[Cause]:
    """Yield what is wrong with the number of a port."""
    if not 1 <= port <= 65535:
        yield causes.invalid(field, port, _NUMBER_TEXT)
