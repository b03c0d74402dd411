"""
Which files are there already, whole and proved: what makes a second run fetch nothing.

A line of JSON is appended for each file once it is in its place, so a program that is killed knows at its next start
what it had. A file counts if the source still has that version of it and nobody has touched it since: size and time of
change are compared, the content is not read again.
"""

from __future__ import annotations

import json
from threading import Lock
from typing import TYPE_CHECKING, Final

from .selection import STATE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from .source import Item

_FILE: Final = "files.jsonl"

_Entry = tuple[str, int, int]


class Ledger:
    """The finished files below one target directory. Safe for threads."""

    def __init__(self, target: Path) -> None:
        self._file = target / STATE / _FILE
        self._root = target.resolve()
        self._lock = Lock()
        self._entries: dict[str, _Entry] = dict(self._read())

    def _read(self) -> Iterable[tuple[str, _Entry]]:
        if not self._file.exists():
            return
        for line in self._file.read_text(errors="replace").splitlines():
            try:
                path, version, size, changed_ns = json.loads(line)
            except ValueError:  # the end of a line that a crash cut off, or not ours
                continue
            yield path, (version, size, changed_ns)

    def has(self, item: Item, place: Path) -> bool:
        """Whether *place* holds this version of *item*."""
        try:
            stat = place.stat()
        except OSError:
            return False
        entry = self._entries.get(self._name(place))
        return entry == (item.version, item.size, stat.st_mtime_ns) and stat.st_size == item.size

    def add(self, item: Item, place: Path) -> None:
        """Note that *place* now holds *item*."""
        name, entry = self._name(place), (item.version, item.size, place.stat().st_mtime_ns)
        with self._lock:
            self._entries[name] = entry
            with self._file.open("a") as file:
                file.write(json.dumps((name, *entry)) + "\n")

    def others(self, places: Iterable[Path]) -> list[str]:
        """Return what was fetched once and is still there, but is none of *places*."""
        wanted = {self._name(place) for place in places}
        return sorted(name for name in self._entries if name not in wanted and (self._root / name).exists())

    def _name(self, place: Path) -> str:
        return place.relative_to(self._root).as_posix()
