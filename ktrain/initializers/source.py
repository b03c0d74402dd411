"""What a place to fetch from can do: say which files it has, and send one from any byte on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from .digest import Digest

CHUNK = 1 << 20
"""Bytes that are read at once."""


@dataclass(frozen=True, slots=True)
class Item:
    """One file of a source."""

    key: str
    """Its name there."""
    path: str
    """Where it goes below the target; not yet checked."""
    size: int
    """Bytes."""
    version: str
    """Something that differs when the content does."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The bytes of an item from `offset` on, which is 0 where a source cannot do what was asked."""

    offset: int
    chunks: Iterator[bytes]
    digest: Digest | None = None
    """Of the whole item; None if the source says nothing that can be used."""


class Source(Protocol):
    """Called from several threads at once. Every call may raise an `InitializerError`."""

    def items(self) -> Iterator[Item]:
        """List the files, in the source's order."""

    def open(self, item: Item, offset: int) -> AbstractContextManager[Stream]:
        """Start to read *item* at *offset*, which is less than its size, or 0; always that version of it."""
