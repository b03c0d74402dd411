"""
An answer that comes in pieces, as lines.

Each byte is looked at once: a line that never ends, as programs write that only ever overwrite it, must not cost more
the longer it gets. It has a limit, because it is held in memory until it ends.
"""

from __future__ import annotations

from ktrain.framework.errors import TransportError

MAX_LINE_BYTES = 16 << 20
"""Longest line of a watch; objects are at most 1.5 MB in etcd, twice that with escapes."""


class LineSplitter:
    """Splits what one GET of `path` answers."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._begun: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """
        Return the lines that end in this piece, without their line breaks.

        Raises:
            TransportError: A line has more than `MAX_LINE_BYTES`.
        """
        *lines, rest = piece.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._begun, lines[0]))
            self._begun.clear()
            self._size = 0
        if rest:
            self._begun.append(rest)
            self._size += len(rest)
            if self._size > MAX_LINE_BYTES:
                raise TransportError(f"GET {self._path}: a line of the answer has more than {MAX_LINE_BYTES} bytes")
        return lines

    def rest(self) -> bytes:
        """Return what came after the last line break."""
        return b"".join(self._begun)
