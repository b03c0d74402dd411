"""
Events that come a second time, or late.

After a reconnect a proxy or a server under repair may send what was sent before. An older state of an object that is
there is told by its version (comparable within one resource since KEP-5504), an older state of one that is gone by a
note of its deletion. Both are dropped: nobody is shown the past. The notes are bounded; what is repeated after a
thousand other deletions would show for as long as it takes its own deletion to be repeated too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ktrain.api.meta import Key

MAX_NOTES: Final = 1024


class Deletions:
    """The versions of the last deletions, by key."""

    def __init__(self) -> None:
        self._versions: dict[Key, int] = {}

    def note(self, key: Key, version: int) -> None:
        """Remember a deletion; a version of 0 is none."""
        self._versions.pop(key, None)
        if version:
            self._versions[key] = version
            if len(self._versions) > MAX_NOTES:
                del self._versions[next(iter(self._versions))]

    def include(self, key: Key, version: int) -> bool:
        """Whether an object of this version was deleted since."""
        return bool(self._versions) and 0 < version <= self._versions.get(key, 0)

    def clear(self) -> None:
        """Forget everything: a list says what is there."""
        self._versions.clear()


def version_number(version: str) -> int:
    """A resource version as the integer it is (comparable within one resource since KEP-5504); 0 if it is none."""
    return int(version) if version.isdecimal() else 0
