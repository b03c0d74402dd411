"""
The base network of a runner: a network namespace with a bridge in which nobody lives, and how pods join it.

The holder stays in the machine's network, since pods with `hostNetwork` are forked from it and an ordinary user cannot
come back. So what must happen in the base namespace happens in short-lived children.
"""

from __future__ import annotations

import os
import socket

from ktrain.local.sandbox import wire
from ktrain.local.sandbox.helper import container, forking, linux, netlink

TYPE_CHECKING = False  # Not imported: `typing` would cost the helper a quarter of its start.
if TYPE_CHECKING:
    from collections.abc import Callable

_GATEWAY = "10.88.0.1"
_PREFIX = 16
_BRIDGE = "ktrain0"
# Locally administered; the name is as good as any, since the network is private to the runner.
_BRIDGE_MAC = bytes.fromhex("0e6b74726e00")


class Network:
    """File of the base namespace (or -1, without namespaces) and index of the bridge in it."""

    def __init__(self, namespace: int = -1, bridge: int = 0) -> None:
        self.namespace = namespace
        self._bridge = bridge

    @classmethod
    def make(cls) -> Network:
        """Make the namespace and its bridge. OSError with what the kernel refused."""
        bridge, namespace = _in_child(_make_base)
        return cls(namespace, bridge)

    def join(self, interface: str, ip: str) -> None:
        """
        Move the caller into a network namespace of its own, connected to the bridge: `eth0` here, `interface` there.

        OSError with what the kernel refused.
        """
        linux.setns(self.namespace, linux.CLONE_NEWNET)
        base = netlink.Netlink()
        linux.unshare(linux.CLONE_NEWNET)
        own = netlink.Netlink()
        namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        own.set_up("lo")
        base.add_veth(interface, self._bridge, "eth0", namespace)
        own.set_up("eth0")
        own.add_address(socket.if_nametoindex("eth0"), ip, _PREFIX)
        own.add_default_route(_GATEWAY)
        os.close(namespace)
        own.close()
        base.close()
        # Images may serve on port 22 or 80 without being root.
        _write_sysctl("net/ipv4/ip_unprivileged_port_start", "0")

    def listen(self, address: str, port: int) -> int:
        """Return a listening socket, in the base namespace if there is one. OSError if the port is taken."""

        def listening() -> tuple[int, int]:
            if self.namespace >= 0:
                linux.setns(self.namespace, linux.CLONE_NEWNET)
            server = socket.create_server((address, port), backlog=512)
            return port, server.detach()

        return _in_child(listening)[1]


def _make_base() -> tuple[int, int]:
    linux.unshare(linux.CLONE_NEWNET)
    link = netlink.Netlink()
    link.set_up("lo")
    link.add_bridge(_BRIDGE, _BRIDGE_MAC)
    bridge = socket.if_nametoindex(_BRIDGE)
    link.add_address(bridge, _GATEWAY, _PREFIX)
    # Nothing is forwarded, since no route leads out; but only routers answer that, and without the answer every
    # look-up of an unknown name in a pod would wait for its time-out.
    _write_sysctl("net/ipv4/ip_forward", "1")
    return bridge, os.open("/proc/self/ns/net", os.O_RDONLY)


def _in_child(make: Callable[[], tuple[int, int]]) -> tuple[int, int]:
    """Run `make` in a forked process, which may enter a namespace for good; return its number and its descriptor."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:

        def life() -> int:
            try:
                value, fd = make()
                wire.send(theirs, {"ok": value}, (fd,))
            except OSError as error:
                wire.send(theirs, {"errno": error.errno, "error": container.describe(error)})
            return 0

        forking.leave(life)
    theirs.close()
    with ours:
        frames = wire.Reader().receive(ours)
    os.waitpid(pid, 0)
    if not frames:
        raise OSError("the helper's child died")
    frame, fds = frames[0]
    if "error" in frame:
        raise OSError(frame["errno"], frame["error"])
    return int(frame["ok"]), fds[0]


def _write_sysctl(name: str, value: str) -> None:
    """Set a sysctl of this network namespace if /proc/sys may be written; containers mount it read-only."""
    try:
        with open(f"/proc/sys/{name}", "w", encoding="ascii") as file:
            file.write(value)
    except OSError:
        return
