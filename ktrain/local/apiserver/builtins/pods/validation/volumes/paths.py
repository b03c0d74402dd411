"""Files inside volumes: where they may be, and who may read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

HOST_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
"""What a path of the node may have to be."""
_MOST: Final = 0o777


def validate_path(path: str, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a path inside a volume; names that begin with two dots are the kubelet's."""
    for text in names.descending_path(path):
        yield causes.invalid(field, path, text)
    if path.startswith("..") and not path.startswith("../"):
        # Upstream says both of a path that is nothing but the two dots.
        yield causes.invalid(field, path, "must not start with '..'")


def validate_mode(source: Json, name: str, field: str) -> Iterator[Cause]:
    """Yield what is wrong with the permissions that a source or a file may have at `name`."""
    mode = source.get(name)
    if mode is not None and not 0 <= mode <= _MOST:
        yield causes.invalid(f"{field}.{name}", mode, "must be a number between 0 and 0777 (octal), both inclusive")


def validate_items(items: Iterable[Json], field: str) -> Iterator[Cause]:
    """Yield what is wrong with the files made of the keys of an object."""
    for index, item in enumerate(items):
        here, path = f"{field}[{index}]", item.get("path", "")
        for name in ("key", "path"):
            if not item.get(name):
                yield causes.required(f"{here}.{name}")
        yield from validate_path(path, f"{here}.path")
        yield from validate_mode(item, "mode", here)
