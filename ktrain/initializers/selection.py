"""
Which files of a source are fetched, and where each goes: nothing leaves the target directory.

Names come from others: a key may hold `..`, begin with `/`, or lead through a symbolic link that lies on the volume.
Two keys may also want the same place (`a//b` and `a/b`), or one be the directory of the other (`a` and `a/b`); then
there is no right answer, and the download is refused before anything is written.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from .errors import ConfigurationError, NothingThere

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from .source import Item

STATE: Final = ".ktrain"
"""The directory below the target where unfinished files and the list of finished ones are."""


def select(items: Iterable[Item], *, allow: tuple[str, ...], ignore: tuple[str, ...]) -> list[Item]:
    """
    Keep the items whose key matches one of *allow* (if there are any) and none of *ignore*. `*` matches `/`, too.

    Raises:
        NothingThere: None is left.
    """
    listed = list(items)
    kept = [item for item in listed if (not allow or _matches(item.key, allow)) and not _matches(item.key, ignore)]
    if not kept:
        what = f"all {len(listed)} files are ignored" if listed else "there are no files"
        raise NothingThere(f"{what}; nothing to fetch")
    return kept


def _matches(key: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in patterns)


def places(items: Iterable[Item], target: Path) -> dict[Path, Item]:
    """
    Say for each item where it goes.

    Raises:
        ConfigurationError: One would leave *target*, or two cannot both be there.
    """
    root = target.resolve()
    found: dict[Path, Item] = {}
    for item in items:
        place = root.joinpath(*_parts(item))
        if not place.resolve().is_relative_to(root):
            raise ConfigurationError(
                f"{item.key!r} would be written outside {target}: a link on the volume leads there"
            )
        if place in found:
            raise ConfigurationError(f"{found[place].key!r} and {item.key!r} are one file below {target}")
        found[place] = item
    for place, item in found.items():
        for parent in place.parents:
            if parent in found:
                raise ConfigurationError(f"{found[parent].key!r} is a file, and {item.key!r} wants it as a directory")
    return found


def _parts(item: Item) -> tuple[str, ...]:
    path = PurePosixPath(item.path)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in item.path:
        raise ConfigurationError(f"{item.key!r} is no name below the target directory; it is not fetched")
    if path.parts[0] == STATE:
        raise ConfigurationError(f"{item.key!r}: the name {STATE} is kept for unfinished downloads")
    return path.parts
