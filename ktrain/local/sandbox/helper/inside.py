"""
Paths that must stay inside a directory whatever links are in it: `subPath`, whose volume belongs to the pod.

A link may point to another place inside. It is followed by name first, and the result is then walked without following
any: who swaps a directory for a link meanwhile gets an error, not somebody else's directory.
"""

from __future__ import annotations

import errno
import os
import stat

_PATH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE = 0o750  # As the kubelet makes them.


def open_inside(directory: str, path: str) -> int:
    """
    Open a path inside a directory, made of directories where it does not exist. The caller closes the descriptor.

    Raises:
        OSError: It leads outside, or cannot be made; the message says which.
    """
    root = os.path.realpath(directory)
    real = os.path.realpath(os.path.join(root, path))
    if os.path.commonpath((root, real)) != root or os.path.isabs(path):
        raise _leads_out(path)
    fd = os.open(root, _PATH | os.O_DIRECTORY)
    for name in os.path.relpath(real, root).split("/"):
        if name != ".":
            fd = _step(fd, name, path)
    return fd


def _step(parent: int, name: str, path: str) -> int:
    try:
        try:
            fd = os.open(name, _PATH, dir_fd=parent)
        except FileNotFoundError:
            os.mkdir(name, _MODE, dir_fd=parent)
            fd = os.open(name, _PATH, dir_fd=parent)
    finally:
        os.close(parent)
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        os.close(fd)
        raise _leads_out(path)
    return fd


def _leads_out(path: str) -> OSError:
    return OSError(errno.EXDEV, "it leads out of its volume", path)
