"""
The /etc/hosts of pods: one file per subdomain, bound into all its pods, so that a new pod is one write for all of them.

Each address appears twice, as IPv4 and as IPv4 in IPv6 (`::ffff:`): torch looks up the latter, and without a line it
asks a name server that does not answer, 10 s per process.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_HEAD = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"


class HostsFile:
    """Who is where, in memory and in the file; a pod with names of its own (`hostAliases`) has a copy with them."""

    def __init__(self, path: Path, fixed: Mapping[str, tuple[str, ...]]) -> None:
        """`fixed` are addresses, and their names, that are no pods."""
        self.path = path
        self._fixed = fixed
        self._names: dict[str, tuple[str, ...]] = {}
        self._copies: dict[str, tuple[Path, str]] = {}
        self._write()

    def add(self, ip: str, names: tuple[str, ...]) -> None:
        """Let names mean this address. Of two pods with one name, the newer has it."""
        self._names[ip] = names
        self._write()

    def copy(self, ip: str, path: Path, aliases: Mapping[str, tuple[str, ...]]) -> None:
        """Keep a copy for the pod with this address that also has these names."""
        self._copies[ip] = (path, "".join(f"{address} {' '.join(names)}\n" for address, names in aliases.items()))
        self._write()

    def remove(self, ip: str) -> bool:
        """Forget an address; a name it had goes back to the pod that had it before. Whether any is left."""
        self._names.pop(ip, None)
        self._copies.pop(ip, None)
        self._write()
        return bool(self._names)

    def _write(self) -> None:
        text = _text(dict(self._fixed) | self._names)
        _write_over(self.path, text)
        for path, aliases in self._copies.values():
            _write_over(path, text + aliases)


def _write_over(path: Path, text: str) -> None:
    """
    Write over a file, then cut it: a bind mount shows this file, and would not see one renamed into its place.

    Readers may look at any moment, so there is none at which the file is empty.
    """
    data = text.encode()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.pwrite(fd, data, 0)
        os.ftruncate(fd, len(data))
    finally:
        os.close(fd)


def _text(entries: dict[str, tuple[str, ...]]) -> str:
    owner = {name: ip for ip, names in entries.items() for name in names}
    lines = [_HEAD]
    for ip, names in entries.items():
        own = " ".join(name for name in names if owner[name] == ip)
        if own:
            lines.append(f"{ip} {own}\n::ffff:{ip} {own}\n")
    return "".join(lines)
