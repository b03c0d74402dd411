"""
The field tables, read when the first protobuf body comes. Messages are compiled one by one, when they are first met.

Each line of `fields.json` is a message: a list of `[number, JSON name, type, flags]`. A type is a letter for a scalar
(`s` string, `y` bytes, `b` bool, `i` int32, `l` int64, `d` double), the name of a form in `scalars.py`, or a message;
`|` before it marks a union. Flags: `r` repeated, `m` map with string keys, `n` folded into the message around it, `k`
kept though it is zero (a pointer in Go, or without omitempty).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

_FILE: Final = Path(__file__).parent / "fields.json"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message."""

    name: str
    """In JSON. Empty for the list inside a message that is only a list."""
    type: str
    repeated: bool
    map: bool
    inline: bool
    keep_zero: bool


class Tables:
    """All messages, and the kinds they are messages of."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.kinds: Mapping[str, str] = document["kinds"]
        self._raw: Mapping[str, list[tuple[int, str, str, str]]] = document["messages"]
        self._compiled: dict[str, Mapping[int, Field]] = {}

    def message_of(self, api_version: str, kind: str) -> str | None:
        """Return the message of a kind, None for a kind that has none."""
        return self.kinds.get(f"{api_version}/{kind}") or self.kinds.get(kind)

    def fields(self, message: str) -> Mapping[int, Field]:
        """Return a message's fields by number."""
        found = self._compiled.get(message)
        if found is None:
            found = self._compiled[message] = {n: _field(name, kind, f) for n, name, kind, f in self._raw[message]}
        return found


@cache
def load() -> Tables:
    """Return the tables; they are read once."""
    return Tables(msgspec.json.decode(_FILE.read_bytes()))


def _field(name: str, kind: str, flags: str) -> Field:
    return Field(name, kind, "r" in flags, "m" in flags, "n" in flags, "k" in flags)
