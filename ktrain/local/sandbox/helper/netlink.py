"""
As much of rtnetlink as a pod's network needs: a bridge, veth pairs, addresses, a default route. See rtnetlink(7).

A netlink socket works on the network namespace it was created in, wherever its owner has gone since. That is how a pod
sets up both ends of its veth pair: with one socket made in the base namespace and one made in its own.
"""

from __future__ import annotations

import os
import socket
import struct

_NLMSG_ERROR = 2
_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_EXCL, _NLM_F_CREATE = 1, 4, 0x200, 0x400
_RTM_NEWLINK, _RTM_NEWADDR, _RTM_NEWROUTE = 16, 20, 24
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_NET_NS_FD = 1, 3, 10, 18, 28
_IFLA_INFO_KIND, _IFLA_INFO_DATA = 1, 2
_VETH_INFO_PEER = 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_GATEWAY = 5
_RT_TABLE_MAIN, _RTPROT_STATIC, _RT_SCOPE_UNIVERSE, _RTN_UNICAST = 254, 4, 0, 1
_IFF_UP = 1


def _attribute(kind: int, value: bytes) -> bytes:
    padding = -len(value) % 4
    return struct.pack("=HH", len(value) + 4, kind) + value + b"\0" * padding


def _name(kind: int, text: str) -> bytes:
    return _attribute(kind, text.encode() + b"\0")


def _link_header(*, index: int = 0, up: bool = False) -> bytes:
    flag = _IFF_UP if up else 0
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flag, flag)


class Netlink:
    """One NETLINK_ROUTE socket, in the network namespace of the caller at the time of construction."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)

    def close(self) -> None:
        """Close the socket; what it made stays."""
        self._socket.close()

    def add_bridge(self, name: str, mac: bytes) -> None:
        """Make a bridge and bring it up. A fixed MAC: else it changes with the ports, and neighbours lose it."""
        info = _attribute(_IFLA_LINKINFO, _name(_IFLA_INFO_KIND, "bridge"))
        self._request(
            _RTM_NEWLINK,
            _link_header(up=True) + _name(_IFLA_IFNAME, name) + _attribute(_IFLA_ADDRESS, mac) + info,
            f"bridge {name}",
            create=True,
        )

    def add_veth(self, name: str, bridge: int, peer: str, peer_namespace_fd: int) -> None:
        """Make a pair: this end up, on the bridge with that index; the peer in another network namespace, down."""
        other = _link_header() + _name(_IFLA_IFNAME, peer)
        other += _attribute(_IFLA_NET_NS_FD, struct.pack("=i", peer_namespace_fd))
        info = _name(_IFLA_INFO_KIND, "veth") + _attribute(_IFLA_INFO_DATA, _attribute(_VETH_INFO_PEER, other))
        body = _link_header(up=True) + _name(_IFLA_IFNAME, name) + _attribute(_IFLA_LINKINFO, info)
        body += _attribute(_IFLA_MASTER, struct.pack("=i", bridge))
        self._request(_RTM_NEWLINK, body, f"veth pair {name}", create=True)

    def set_up(self, name: str) -> None:
        """Bring an interface up."""
        self._request(_RTM_NEWLINK, _link_header(up=True) + _name(_IFLA_IFNAME, name), f"interface {name}")

    def add_address(self, index: int, address: str, prefix: int) -> None:
        """Give an interface an IPv4 address."""
        raw = socket.inet_aton(address)
        body = struct.pack("=BBBBi", socket.AF_INET, prefix, 0, _RT_SCOPE_UNIVERSE, index)
        body += _attribute(_IFA_LOCAL, raw) + _attribute(_IFA_ADDRESS, raw)
        self._request(_RTM_NEWADDR, body, f"address {address}", create=True)

    def add_default_route(self, gateway: str) -> None:
        """Send what is not local to a gateway."""
        body = struct.pack(
            "=BBBBBBBBI", socket.AF_INET, 0, 0, 0, _RT_TABLE_MAIN, _RTPROT_STATIC, _RT_SCOPE_UNIVERSE, _RTN_UNICAST, 0
        )
        body += _attribute(_RTA_GATEWAY, socket.inet_aton(gateway))
        self._request(_RTM_NEWROUTE, body, f"route by {gateway}", create=True)

    def _request(self, kind: int, body: bytes, what: str, *, create: bool = False) -> None:
        flags = _NLM_F_REQUEST | _NLM_F_ACK | (_NLM_F_CREATE | _NLM_F_EXCL if create else 0)
        self._socket.send(struct.pack("=IHHII", len(body) + 16, kind, flags, 1, 0) + body)
        answer = self._socket.recv(65536)
        _, kind, _, _, _, error = struct.unpack_from("=IHHIIi", answer)
        if kind == _NLMSG_ERROR and error != 0:
            raise OSError(-error, f"{what}: {os.strerror(-error)}")
