"""Strings as Go's `%q` prints them: refusals quote names, and a name may hold anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAMED: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def quote(text: str) -> str:
    """Quote a string so that it is one line of printable characters."""
    return f'"{"".join(_character(char) for char in text)}"'


def quote_all(texts: Iterable[str]) -> str:
    """Quote a list of strings."""
    return f"[{' '.join(map(quote, texts))}]"


def _character(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
