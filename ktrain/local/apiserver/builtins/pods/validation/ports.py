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
_PORT_TEXT: Final = "must be between 1 and 65535, inclusive"


def validate_ports(ports: Iterable[Json], field: str) -> Iterator[Cause]:
    """Yield what is wrong with the ports of a container."""
    seen: set[str] = set()
    host: set[str] = set()
    for index, port in enumerate(ports):
        path = f"{field}[{index}]"
        number = port.get("containerPort", 0)
        if number == 0:
            yield causes.required(f"{path}.containerPort")
        elif not 1 <= number <= 65535:
            yield causes.invalid(f"{path}.containerPort", number, _PORT_TEXT)
        yield from enumerated(port, "protocol", _PROTOCOLS, path)
        name = port.get("name")
        if name:
            for text in names.port(name):
                yield causes.invalid(f"{path}.name", name, text)
            if name in seen:
                yield causes.duplicate(f"{path}.name", name)
            seen.add(name)
        if on_host := port.get("hostPort"):
            place = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{on_host}"
            if not 1 <= on_host <= 65535:
                yield causes.invalid(f"{path}.hostPort", on_host, _PORT_TEXT)
            elif place in host:
                yield causes.duplicate(f"{path}.hostPort", place)
            host.add(place)
