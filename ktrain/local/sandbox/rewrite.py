"""
Rewriting for the shared host: peer names become 127.0.0.1, ports become those of this attempt, mount paths become real.

Only exact tokens are touched, never blind numbers: a peer name with or without `:port`, the port in a variable or flag
that is known to hold one, a mount path at the start of a path. Frameworks listen on the wildcard address whatever name
they are given, so an address per job would not keep two jobs on port 29500 apart; a port per attempt does.

Pure text in, text out, except for `Ports`, which asks the kernel what is free.
"""

from __future__ import annotations

import os
import re
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LOOPBACK: Final = "127.0.0.1"
PORT_VARIABLES: Final = frozenset(
    {"PET_MASTER_PORT", "MASTER_PORT", "DMLC_TRACKER_PORT", "JAX_COORDINATOR_PORT", "COORDINATOR_PORT"}
)
"""Variables whose whole value is the port that a job meets on: torch, XGBoost, JAX."""

_PORT_FLAG: Final = re.compile(r"(--master[-_]port)([= ])(\d{1,5})\b")
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
# Below the ephemeral range of Linux (32768) and above what services use.
_FIRST_PORT, _PORT_COUNT = 20000, 12000


class Rewriter:
    """The rules for one pod."""

    def __init__(self, namespace: str, subdomain: str, port_of: Callable[[int], int]) -> None:
        """Peers are all `<label>.<subdomain>` with or without the namespace's DNS suffix, known already or not."""
        self._port_of = port_of
        suffix = rf"(?:\.{re.escape(namespace)}(?:\.svc(?:\.cluster\.local)?)?)?"
        # Not inside a longer name or a path, but after the slashes of a URL.
        start, end = r"(?:(?<![\w.\-/])|(?<=//))", r"(?![\w-]|\.\w)"
        peer = rf"{start}{_LABEL}\.{re.escape(subdomain)}{suffix}{end}(?::(\d{{1,5}})(?!\w))?"
        self._peer = re.compile(peer) if subdomain else None

    def text(self, text: str) -> str:
        """Rewrite names, ports beside names, and ports of known flags."""
        if self._peer is not None:
            text = self._peer.sub(lambda match: LOOPBACK + self._suffix(match[1]), text)
        return _PORT_FLAG.sub(lambda match: f"{match[1]}{match[2]}{self._port_of(int(match[3]))}", text)

    def env(self, env: Mapping[str, str]) -> dict[str, str]:
        """Rewrite the values of an environment; HOSTNAME and the like stay, they are no peer names."""
        return {
            name: str(self._port_of(int(value)))
            if name in PORT_VARIABLES and value.isascii() and value.isdigit()
            else self.text(value)
            for name, value in env.items()
        }

    def argv(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Rewrite arguments; a flag and its port may be two of them."""
        joined = [self.text(argument) for argument in argv]
        for index in range(1, len(joined)):
            pair = f"{joined[index - 1]} {joined[index]}"
            if (match := _PORT_FLAG.fullmatch(pair)) is not None and match[2] == " ":
                joined[index] = str(self._port_of(int(match[3])))
        return tuple(joined)

    def _suffix(self, port: str | None) -> str:
        return f":{self._port_of(int(port))}" if port else ""


def replace_path(text: str, path: str, replacement: str) -> str:
    """Replace a path, and paths below it, wherever one starts: after a blank, a quote, `=`, `:` or at the beginning."""
    pattern = rf"(?<![\w.\-/]){re.escape(path)}(?![\w.\-])"
    return re.sub(pattern, lambda _: replacement, text)


class Ports:
    """Ports of one attempt of a job: each port of the pods' templates stands for one that was free when asked for."""

    def __init__(self, taken: set[int]) -> None:
        """`taken` are the ports of all attempts of this runner, shared among them."""
        self._taken = taken
        self._chosen: dict[int, int] = {}

    def port_of(self, port: int) -> int:
        """Return this attempt's port; the same for the same question. OSError when none is free."""
        if port not in self._chosen:
            self._chosen[port] = _free_port(self._taken)
            self._taken.add(self._chosen[port])
        return self._chosen[port]

    def release(self) -> None:
        """Let others have the ports."""
        self._taken.difference_update(self._chosen.values())


def _free_port(taken: set[int]) -> int:
    # Runners on one machine start their search at different places, so that they do not race for the same port.
    first = os.getpid() * 61
    for step in range(_PORT_COUNT):
        port = _FIRST_PORT + (first + step) % _PORT_COUNT
        if port not in taken and _is_free(port):
            return port
    raise OSError(f"no free port between {_FIRST_PORT} and {_FIRST_PORT + _PORT_COUNT}")


def _is_free(port: int) -> bool:
    # Without SO_REUSEADDR: a port in TIME_WAIT is refused, as XGBoost's tracker would be (it does not set it either).
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
