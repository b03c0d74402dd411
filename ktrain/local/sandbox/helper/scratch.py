"""
The runner's directory: made under a lock, and swept by the next runner when nobody was left to remove it.

The janitor (`helper.main`) removes the directory of its runner, however the runner ends. Only somebody who kills runner
and helper in the same instant gets past it. For that case the directory holds a lock file, which runner, janitor and
holder keep locked: the kernel unlocks it when the last of them is gone, and then it is stale, never before. A directory
without the file is never touched, so it appears locked, and goes last. What a runner has outside of its directory, the
links of the host mode, is written down in it and goes with it. Used on both sides; imports the standard library
only, as the helper must.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import stat

_PREFIX = "ktrain-"
_NAME = re.compile(r"ktrain-[a-z0-9_]{8}")  # As tempfile makes them.
_LOCK = ".lock"
_LINKS = ".links"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make() -> tuple[str, int]:
    """Make a directory below TMPDIR; return it and the descriptor that keeps it locked. OSError if that is refused."""
    import tempfile  # Here: the helper needs none of what it imports.

    directory = tempfile.mkdtemp(prefix=_PREFIX)
    lock = os.path.join(directory, _LOCK)
    fd = os.open(f"{lock}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.rename(f"{lock}.new", lock)
    except OSError:
        # A file system without locks. Nobody sweeps it, for want of the file.
        os.unlink(f"{lock}.new")
    return directory, fd


def note_links(directory: str, links: dict[str, str]) -> None:
    """
    Write down which symbolic links, target -> source, are to go with the directory. OSError if that fails.

    A target without a source is a directory that was made for links, and goes if it is empty. The outer come first.
    """
    path = os.path.join(directory, _LINKS)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(links, file)
    os.rename(f"{path}.new", path)


def unlink(target: str, source: str) -> None:
    """Remove a link, unless it is somebody else's by now, or a directory unless it is in use. OSError if that fails."""
    if not source:
        with contextlib.suppress(OSError):
            os.rmdir(target)
        return
    if os.path.islink(target) and os.readlink(target) == source:
        os.unlink(target)


def remove(directory: str) -> None:
    """Remove a runner's directory with all that programs made in it. What cannot be removed stays, with the lock."""
    try:
        fd = os.open(directory, _DIRECTORY)
    except OSError:
        return
    try:
        _remove_links(fd)
        for name in os.listdir(fd):
            if name != _LOCK:
                _remove_entry(name, fd)
        # The lock last: without it, nobody could finish this.
        if os.listdir(fd) == [_LOCK]:
            os.unlink(_LOCK, dir_fd=fd)
        os.rmdir(directory)
    except OSError:
        return
    finally:
        os.close(fd)


def sweep(parent: str) -> None:
    """Remove the directories in `parent` that killed runners of this user have left; never that of a living one."""
    for name in os.listdir(parent):
        if not _NAME.fullmatch(name):
            continue
        directory = os.path.join(parent, name)
        lock = _claim(directory)
        if lock >= 0:
            remove(directory)
            os.close(lock)


def _claim(directory: str) -> int:
    """Return the descriptor of a lock that was taken, or -1: it is held, or this is no directory of ours."""
    try:
        fd = os.open(directory, _DIRECTORY)
    except OSError:
        return -1
    lock = -1
    try:
        if os.fstat(fd).st_uid == os.geteuid():
            lock = os.open(_LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if lock >= 0:
            os.close(lock)
        return -1
    finally:
        os.close(fd)
    return lock


def _remove_links(directory: int) -> None:
    try:
        with open(
            os.open(_LINKS, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory), encoding="utf-8"
        ) as file:
            links: dict[str, str] = json.load(file)
        for target, source in reversed(links.items()):
            unlink(target, source)
    except (OSError, ValueError):
        return  # None were made, or their directory may not be written to any more.


def _remove_entry(name: str, parent: int) -> None:
    import shutil  # Here, not while the first pod is waiting for the helper to start.

    try:
        if not stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode):
            os.unlink(name, dir_fd=parent)
            return
        shutil.rmtree(name, ignore_errors=True, dir_fd=parent)
        _open_up(name, parent)
        shutil.rmtree(name, dir_fd=parent)
    except OSError:
        return  # Gone at the first attempt; or of a user that a setuid program has become.


def _open_up(name: str, parent: int) -> None:
    """Programs may have made directories that even their owner cannot list."""
    os.chmod(name, 0o700, dir_fd=parent)
    for _, directories, _, fd in os.fwalk(name, dir_fd=parent):
        for directory in directories:
            if stat.S_ISDIR(os.lstat(directory, dir_fd=fd).st_mode):
                os.chmod(directory, 0o700, dir_fd=fd)
