"""
The sockets of what serves pods: bound before any pod starts, since pods are told where they are.

Pods in namespaces cannot reach the loopback of this machine, so there is a second socket in their own network, under
the address and the port that the service has there: the API server's, `kubernetes`, unless another is named. Both are
served by the same front.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ktrain.local.kubelet.service_address import ServiceAddress

if TYPE_CHECKING:
    from ktrain.local.sandbox.executor import Executor

HTTPS_PORT: Final = 443
_BACKLOG: Final = 512


@dataclass(frozen=True, slots=True)
class Sockets:
    """Listening sockets, owned by whoever serves them; `close` if nobody will."""

    machine: socket.socket
    """On the loopback of this machine."""
    pods: socket.socket | None = None
    """In the network of the pods, if they have one of their own."""

    @property
    def all(self) -> tuple[socket.socket, ...]:
        """Every socket, that of the machine first."""
        return (self.machine,) if self.pods is None else (self.machine, self.pods)

    @property
    def service(self) -> ServiceAddress:
        """Where pods find the server."""
        machine = self.machine.getsockname()[:2]
        return ServiceAddress(pods=machine if self.pods is None else self.pods.getsockname()[:2], machine=machine)

    def close(self) -> None:
        """Close them. Idempotent."""
        for one in self.all:
            one.close()


async def bind(host: str, port: int, executor: Executor | None, *, pods_port: int = HTTPS_PORT) -> Sockets:
    """
    Listen on the loopback, and at `pods_port` in the network of the executor's pods.

    Raises:
        OSError: The port is taken.
        SandboxError: The executor is gone.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    machine = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    machine.settimeout(0)
    if executor is None or executor.name != "ns":
        return Sockets(machine)
    try:
        return Sockets(machine, await executor.listen(pods_port))
    except BaseException:
        machine.close()
        raise
