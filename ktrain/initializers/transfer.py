"""
Fetches one file, again and again until it is whole.

What has come is in a part file whose name tells the item's version, so it is continued by whoever comes next (the next
attempt, the next container) and never mixed with another version. The finished file is proved against the source's
digest, and only then put in its place in one step: a trainer sees whole files or none.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import TYPE_CHECKING

from .errors import Damaged, Interrupted, TargetError
from .retry import Retry, Stopped

if TYPE_CHECKING:
    from pathlib import Path

    from .digest import Digest
    from .source import Item, Source


@dataclass(slots=True)
class Counter:
    """What all transfers together have done. Safe for threads."""

    bytes: int = 0
    """Bytes that came over the network."""
    files: int = 0
    proved: int = 0
    """Files whose digest was compared; of the others the size only."""
    _lock: Lock = field(default_factory=Lock)

    def add(self, *, received: int = 0, files: int = 0, proved: int = 0) -> None:
        """Count; `received` is in bytes."""
        with self._lock:
            self.bytes += received
            self.files += files
            self.proved += proved


@dataclass(frozen=True, slots=True)
class Transfer:
    """Fetches items of one source. Safe for threads; `stop` ends all of them soon."""

    source: Source
    parts: Path
    """The directory of part files, on the file system of the target."""
    retry: Retry = field(default_factory=Retry)
    counter: Counter = field(default_factory=Counter)
    stop: Event = field(default_factory=Event)

    def have(self, item: Item) -> int:
        """How many bytes of *item* have come already."""
        part = self._part(item)
        return part.stat().st_size if part.exists() else 0

    def fetch(self, item: Item, place: Path) -> None:
        """
        Fetch *item* to *place*.

        Raises:
            InitializerError: Not possible, or not within the attempts.
            Stopped: `stop` was set.
        """
        part = self._part(item)
        try:
            digest = self.retry.call(item.key, lambda: self._attempt(item, part), self.stop, lambda: self.have(item))
            place.parent.mkdir(parents=True, exist_ok=True)
            part.replace(place)
        except OSError as error:
            raise TargetError.of(error, place) from error
        self.counter.add(files=1, proved=1 if digest else 0)

    def _part(self, item: Item) -> Path:
        name = hashlib.sha256(f"{item.path}\0{item.version}\0{item.size}".encode()).hexdigest()
        return self.parts / f"{name[:32]}.part"

    def _attempt(self, item: Item, part: Path) -> Digest | None:
        """Continue *part* to its end and prove it."""
        # Of a part that is whole but was never proved, the last byte is fetched again: the digest comes with it.
        offset = min(self.have(item), max(0, item.size - 1))
        with self.source.open(item, offset) as stream, part.open("r+b" if offset else "wb") as file:
            if offset:
                file.seek(stream.offset)
                file.truncate()
            for chunk in stream.chunks:
                file.write(chunk)
                self.counter.add(received=len(chunk))
                if self.stop.is_set():
                    raise Stopped
            file.flush()
            os.fsync(file.fileno())
        if (size := part.stat().st_size) < item.size:
            raise Interrupted(f"{item.key!r} broke off after {size} of {item.size} bytes")
        if detail := _damage(item, part, stream.digest):
            part.unlink()
            raise Damaged(f"{item.key!r} is damaged: {detail}")
        return stream.digest


def _damage(item: Item, part: Path, digest: Digest | None) -> str:
    """Say what is wrong with a part that should be whole; nothing if it is right."""
    if (size := part.stat().st_size) > item.size:
        return f"{size} bytes came of {item.size}"
    if digest and (found := digest.of(part)) != digest.value:
        return f"its {digest.algorithm} is {found}, the source announced {digest.value}"
    return ""
