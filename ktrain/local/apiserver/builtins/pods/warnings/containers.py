"""Variables and ports of containers that hide each other."""

from __future__ import annotations

from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING

from ktrain.local.apiserver.access.quoting import quote
from ktrain.local.apiserver.builtins.pods.profiles import placed
from ktrain.local.apiserver.builtins.pods.warnings.amounts import warn_of_fraction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json


def warn_of_containers(spec: Json, field: str) -> Iterator[str]:
    """Yield warnings of the containers of a pod, and of what they do to each other."""
    ports = _Ports()
    named: dict[str, str] = {}
    for path, container in placed(spec, field):
        resources = container.get("resources", {})
        for part in ("limits", "requests"):
            for name in ("memory", "ephemeral-storage"):
                yield from warn_of_fraction(resources.get(part, {}), name, f"{path}.resources.{part}")
        yield from _warn_of_variables(container.get("env", ()), f"{path}.env")
        for index, port in enumerate(container.get("ports", ())):
            here, name = f"{path}.ports[{index}]", port.get("name", "")
            yield from _warn_of_port(port, here, ports)
            ports.add(port, here)
            if name and (first := named.setdefault(name, here)) != here:
                what = f"{here}: duplicate port name {quote(name)} with {first}"
                yield f"{what}, services and probes that select ports by name will use {first}"


def _warn_of_variables(variables: list[Json], field: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if name in seen:
            value, itself = variable.get("value", ""), f"$({name})"
            if "valueFrom" in variable or value == itself or itself not in value:
                text = f"hides previous definition of {quote(name)}, which may be dropped when using apply"
                yield f"{field}[{index}]: {text}"
        seen.add(name)


class _Ports:
    """Ports seen so far, by what makes others conflict with them: a look-up finds those and passes by no other."""

    def __init__(self) -> None:
        self._seen: dict[tuple[object, ...], list[tuple[int, str, Json]]] = {}
        self._count = 0

    def add(self, port: Json, field: str) -> None:
        """Remember a port."""
        inside, host, host_port = _place(port)
        for key in (inside, (*inside, host_port), (*inside, host_port, host)):
            self._seen.setdefault(key, []).append((self._count, field, port))
        self._count += 1

    def conflicting(self, port: Json) -> Iterator[tuple[str, Json]]:
        """Yield, in their order, the ports that are in the way of this one."""
        inside, host, host_port = _place(port)
        if not host_port:
            keys: list[tuple[object, ...]] = [inside]
        elif not host:
            keys = [(*inside, 0), (*inside, host_port)]
        else:
            keys = [(*inside, 0), (*inside, host_port, host), (*inside, host_port, "")]
        for _, field, other in merge(*(self._seen.get(key, ()) for key in keys), key=itemgetter(0)):
            yield field, other


def _place(port: Json) -> tuple[tuple[object, object], str, int]:
    return (port.get("containerPort"), port.get("protocol")), port.get("hostIP", ""), port.get("hostPort", 0)


def _warn_of_port(port: Json, field: str, others: _Ports) -> Iterator[str]:
    host, host_port = port.get("hostIP", ""), port.get("hostPort", 0)
    if host and not host_port:
        shown = f"{{Name:{port.get('name', '')} HostPort:0 ContainerPort:{port.get('containerPort', 0)}"
        yield f"{field}: hostIP set without hostPort: {shown} Protocol:{port.get('protocol', '')} HostIP:{host}}}"
    for where, other in others.conflicting(port):
        theirs, their_port = other.get("hostIP", ""), other.get("hostPort", 0)
        if (host, host_port) == (theirs, their_port):
            yield f"{field}: duplicate port definition with {where}"
        elif not host_port or not their_port:
            yield f"{field}: overlapping port definition with {where}"
        else:
            yield f"{field}: dangerously ambiguous port definition with {where}"
