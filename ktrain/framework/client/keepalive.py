"""
The kernel's questions to a silent peer: is it still there?

Who waits for a watch cannot tell whether nothing happens or the other end is gone (power, a firewall that forgot us).
The kernel asks by itself, so also a connection that is rightly silent ends within half a minute after its peer.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keepalive:
    """
    When the kernel gives a connection up. Whole seconds, at least one.

    Args:
        idle_s: Silence after which the peer is asked.
        every_s: Between questions.
        times: Questions without an answer after which the peer is dead. What we sent may stay unconfirmed just as long.
    """

    idle_s: int = 15
    every_s: int = 5
    times: int = 3

    def apply(self, made: socket.socket) -> None:
        """Set the socket's options, as far as the system has them."""
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in {
            "TCP_KEEPIDLE": self.idle_s,
            "TCP_KEEPALIVE": self.idle_s,  # macOS
            "TCP_KEEPINTVL": self.every_s,
            "TCP_KEEPCNT": self.times,
            "TCP_USER_TIMEOUT": 1000 * (self.idle_s + self.every_s * self.times),
        }.items():
            if (option := getattr(socket, name, None)) is not None:
                made.setsockopt(socket.IPPROTO_TCP, option, value)
