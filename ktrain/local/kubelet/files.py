"""
Writing volumes: blocking file work, called in a worker thread.

ConfigMaps, Secrets and their like become visible all at once or not at all, in the kubelet's own layout: the files lie
in a directory of their own, `..data` is a link to it, and every visible name is a link through `..data`. A change
writes a new directory and moves the one link by a rename, so a reader never sees half of it.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktrain.local.sandbox.helper.inside import open_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DATA: Final = "..data"


class VolumeError(Exception):
    """A volume cannot be set up as things are; the kubelet reports FailedMount and tries again."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a volume."""

    content: bytes
    mode: int


def write_payload(directory: Path, payload: Mapping[str, File], *, group: int | None = None) -> bool:
    """
    Make the directory show exactly these files (relative paths); return whether anything changed.

    With a group (`fsGroup`) they belong to it, which may read them.

    Raises:
        VolumeError: The file system refuses.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if group is not None:
            payload = {path: File(file.content, file.mode | stat.S_IRGRP) for path, file in payload.items()}
        if _shown(directory) == payload:
            return False
        fresh = Path(tempfile.mkdtemp(prefix="..", dir=directory))
        fresh.chmod(0o755)
        for name, file in payload.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.content)
            if group is not None:
                with suppress(PermissionError):  # As in `make_directory`.
                    os.chown(path, -1, group)
            path.chmod(file.mode)
        _publish(directory, fresh, {name.split("/", 1)[0] for name in payload})
    except OSError as error:
        raise VolumeError(f"cannot write {directory}: {error.strerror}") from error
    return True


def make_directory(directory: Path, *, mode: int, group: int | None) -> None:
    """
    Create a directory that pods write to; with a group (`fsGroup`) it belongs to it and new files inherit it.

    Raises:
        VolumeError: The file system refuses.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(mode)
        if group is not None:
            # Only root, or a member, may give a directory to a group. Elsewhere all files are the caller's anyway.
            with suppress(PermissionError):
                os.chown(directory, -1, group)
                directory.chmod(mode | stat.S_ISGID | stat.S_IRWXG)
    except OSError as error:
        raise VolumeError(f"cannot create {directory}: {error.strerror}") from error


def check_host_path(path: Path, type_: str) -> None:
    """
    Hold a hostPath to its declared type, and create it where the type says so.

    Raises:
        VolumeError: It is not what the type says.
    """
    try:
        if type_ == "DirectoryOrCreate" and not path.exists():
            path.mkdir(mode=0o755, parents=True)
        elif type_ == "FileOrCreate" and not path.exists():
            path.touch(mode=0o644)
    except OSError as error:
        raise VolumeError(f"hostPath {path}: cannot create: {error.strerror}") from error
    check = _HOST_PATH_CHECKS.get(type_)
    if check is None:
        known = ", ".join(filter(None, _HOST_PATH_CHECKS))
        raise VolumeError(f"hostPath {path}: type {type_!r} is not known; expected one of {known}")
    if not check(path):
        raise VolumeError(f"hostPath type check failed: {path} is not a {type_ or 'path that exists'}")


def prepare_sub_path(volume: Path, sub_path: str) -> Path:
    """
    Return the path inside a volume, created as a directory (0750) where it does not exist.

    Raises:
        VolumeError: It leads out of the volume, or cannot be created.
    """
    if escapes(sub_path):
        raise VolumeError(f"subPath {sub_path!r} must be a relative path inside the volume, without '..'")
    try:
        os.close(open_inside(str(volume), sub_path))
    except OSError as error:
        raise VolumeError(f"subPath {sub_path!r} in {volume}: {error.strerror}") from error
    return (volume / sub_path).resolve()


def escapes(path: str) -> bool:
    """Whether a path given by a user could leave the directory it is meant to stay in."""
    return not path or path.startswith("/") or ".." in path.split("/")


def remove_tree(directory: Path) -> None:
    """Delete a directory whatever the modes inside; what cannot be deleted is left."""
    shutil.rmtree(directory, ignore_errors=True)


def _shown(directory: Path) -> dict[str, File] | None:
    """Read back what is published, to write only changes."""
    data = directory / DATA
    if not data.exists():
        return None
    found = {}
    for path in data.resolve().rglob("*"):
        if path.is_file():
            found[str(path.relative_to(data.resolve()))] = File(path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
    return found


def _publish(directory: Path, fresh: Path, names: set[str]) -> None:
    data = directory / DATA
    previous = data.resolve() if data.is_symlink() else None
    staged = directory / "..data_tmp"
    staged.unlink(missing_ok=True)
    staged.symlink_to(fresh.name)
    staged.rename(data)
    for name in names:
        link = directory / name
        if not link.is_symlink():
            link.symlink_to(f"{DATA}/{name}")
    for entry in directory.iterdir():
        if not entry.name.startswith("..") and entry.name not in names:
            entry.unlink()
    if previous is not None:
        remove_tree(previous)


_HOST_PATH_CHECKS: Final[Mapping[str, Callable[[Path], bool]]] = {
    "": Path.exists,
    "DirectoryOrCreate": Path.is_dir,
    "Directory": Path.is_dir,
    "FileOrCreate": Path.is_file,
    "File": Path.is_file,
    "Socket": Path.is_socket,
    "CharDevice": Path.is_char_device,
    "BlockDevice": Path.is_block_device,
}
