"""
Logs of an earlier life: what a server before this one has left in its state directory.

    logs/<uid of the pod>/<container>.<number of the attempt>.log

They go with their pod. When single lines were written is forgotten with the server; all count as old as the file.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from .files import remove_tree
from .logs import AttemptLog, LogStore

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ktrain.api.meta import Key

_NAME: Final = re.compile(r"(?P<container>[a-z0-9-]+)\.(?P<number>[0-9]+)\.log")


def log_name(container: str, attempt: int) -> str:
    """Name the file of an attempt."""
    return f"{container}.{attempt}.log"


async def take_over(store: LogStore, directory: Path, pods: Mapping[str, Key]) -> None:
    """
    Let the store know the logs of these pods, by UID, and remove those of all others.

    Raises:
        OSError: The directory cannot be read.
    """
    for uid, by_container in (await anyio.to_thread.run_sync(_find, directory)).items():
        if uid not in pods:
            await anyio.to_thread.run_sync(remove_tree, directory / uid)
            continue
        for container, attempts in by_container.items():
            store.adopt(pods[uid], container, attempts)


def _find(directory: Path) -> dict[str, dict[str, list[AttemptLog]]]:
    return {entry.name: _attempts(entry) for entry in directory.iterdir() if entry.is_dir()}


def _attempts(directory: Path) -> dict[str, list[AttemptLog]]:
    found = defaultdict(list)
    for path in directory.iterdir():
        if (match := _NAME.fullmatch(path.name)) is not None and path.is_file():
            found[match["container"]].append((int(match["number"]), path))
    return {container: [_ended(path) for _, path in sorted(numbered)] for container, numbered in found.items()}


def _ended(path: Path) -> AttemptLog:
    seen = path.stat()
    return AttemptLog(
        path,
        ended=True,
        start=_beginning(path),
        times=[datetime.fromtimestamp(seen.st_mtime, UTC)],
        sizes=[seen.st_size],
    )


def _beginning(path: Path) -> int:
    """Return where a file begins whose first part was given back (`logs`)."""
    with path.open("rb") as file:
        try:
            return os.lseek(file.fileno(), 0, os.SEEK_DATA)
        except (OSError, AttributeError):  # Empty; or a system that knows no holes.
            return 0
