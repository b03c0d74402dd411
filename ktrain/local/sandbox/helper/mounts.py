"""
What a pod sees of the file system: the machine's, with its volumes, its own /dev/shm, /proc and /etc/hosts on top.

The hard part is a mount whose target does not exist (`/workspace`, `/dev/termination-log`): the machine must not be
changed, and an ordinary user could not. Such a target appears by *shadowing* its nearest existing ancestor: a tmpfs
takes its place, everything that was in it is bound into the tmpfs, and there is room for more. An overlay was rejected:
it needs a recent kernel, refuses `/`, and hides mounts below the ancestor. The price: new files made directly in a
shadowed directory go with the pod, so a directory the program works in is never shadowed.

All of it happens in a mount namespace of the caller's own.
"""

from __future__ import annotations

import os
import stat

from ktrain.local.sandbox.helper import linux
from ktrain.local.sandbox.helper.inside import open_inside

# Mount flags must be repeated when a bind mount is made read-only: in a user namespace the kernel refuses to drop them.
_KEPT_FLAGS = {
    2: linux.MS_NOSUID,
    4: linux.MS_NODEV,
    8: linux.MS_NOEXEC,
    1024: linux.MS_NOATIME,
    2048: linux.MS_NODIRATIME,
    4096: linux.MS_RELATIME,
}
# Consoles, disks and the like: hundreds of nodes that no training program opens, each of them a mount.
_BORING_DEVICES = ("tty", "loop", "ram", "vcs", "hvc", "nbd", "dm-")

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a mount point, not a temporary file


def isolate() -> None:
    """Leave the machine's mount namespace; nothing mounted from now on is seen outside."""
    linux.unshare(linux.CLONE_NEWNS)
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)


def mount_proc() -> bool:
    """Mount the /proc of this PID namespace. Containers with a masked /proc refuse: then the old one stays; False."""
    try:
        linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    except OSError:
        return False
    return True


def mount_shared_memory() -> None:
    """Give the pod a /dev/shm of its own: MPI and torch take what they find there for shared with the same host."""
    if os.path.isdir(SHARED_MEMORY):
        linux.mount("tmpfs", SHARED_MEMORY, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=1777")


def mount_memory(path: str, limit: int | None) -> None:
    """Mount a file system in memory, of at most so many bytes."""
    size = f",size={limit}" if limit else ""
    linux.mount("tmpfs", path, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, f"mode=777{size}")


class View:
    """The mounts made so far by this process and the ones it was forked from, in one mount namespace."""

    def __init__(self, stage: str) -> None:
        self._stage = stage  # An empty directory to build a tmpfs on before it takes its place.
        self._rooms: set[str] = set()  # Directories that are shadowed: entries may be made directly in them.
        self._ours: list[str] = []  # What was made in them, and writable volumes: anything may be made below.

    def copy(self, stage: str) -> View:
        """Return a view for a forked process, which goes on from here."""
        view = View(stage)
        view._rooms, view._ours = set(self._rooms), list(self._ours)
        return view

    def show(self, mounts: list[tuple[str, str, bool, str]], cwd: str = "") -> None:
        """
        Mount (source, target, read-only, path inside the source)s, parents first. `cwd` is the directory that must stay
        the real one.

        Raises:
            OSError: A source is missing, a target is of the other kind, or the kernel refused; the message names it.
        """
        ordered = sorted(mounts, key=lambda mount: mount[1].count("/"))
        for source, target, _, _ in ordered:
            if not os.path.lexists("/" + target.strip("/").split("/")[0]):
                self._make_room("/", cwd, target)
            if not os.path.exists(source):
                raise FileNotFoundError(2, f"nothing there to mount at {target}", source)
        # A mount may hide the source of a later one: take hold of all of them first.
        held = [
            open_inside(source, inside) if inside else os.open(source, os.O_PATH | os.O_CLOEXEC)
            for source, _, _, inside in ordered
        ]
        for fd, (_, target, read_only, _) in zip(held, ordered, strict=True):
            is_directory = stat.S_ISDIR(os.fstat(fd).st_mode)
            path = self.make_target(target, is_directory=is_directory, cwd=cwd)
            linux.mount(f"/proc/self/fd/{fd}", path, flags=linux.MS_BIND | linux.MS_REC)
            if read_only:
                _make_read_only(path)
            os.close(fd)
            if is_directory and not read_only:
                self._ours.append(path)

    def make_target(self, target: str, *, is_directory: bool, cwd: str = "") -> str:
        """Make sure that something of the right kind exists at `target` and return its real path."""
        path = os.path.realpath(target)
        if os.path.exists(path):
            if os.path.isdir(path) != is_directory:
                raise OSError(
                    20 if is_directory else 21, f"{'a file' if is_directory else 'a directory'} is there", path
                )
            return path
        ancestor = os.path.dirname(path)
        while not os.path.isdir(ancestor):
            ancestor = os.path.dirname(ancestor)
        if not any(_is_within(ancestor, own) for own in self._ours):
            if ancestor not in self._rooms:
                self._make_room(ancestor, cwd, target)
            self._ours.append(os.path.join(ancestor, os.path.relpath(path, ancestor).split("/")[0]))
        if is_directory:
            os.makedirs(path)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o666))
        return path

    def _make_room(self, directory: str, cwd: str, target: str) -> None:
        if cwd.strip("/") and _is_within(directory, os.path.realpath(cwd)):
            raise FileNotFoundError(2, f"the mount point is inside the working directory {cwd}; make it there", target)
        os.makedirs(self._stage, exist_ok=True)
        linux.mount("tmpfs", self._stage, "tmpfs", 0, "mode=755")
        for entry in os.scandir(directory):
            if directory != "/dev" or not entry.name.startswith(_BORING_DEVICES) or entry.name == "tty":
                _carry_over(entry, os.path.join(self._stage, entry.name))
        if directory == "/":
            os.chdir(self._stage)
            linux.pivot_root_here()
        else:
            os.chmod(self._stage, stat.S_IMODE(os.stat(directory).st_mode))
            linux.mount(self._stage, directory, flags=linux.MS_BIND | linux.MS_REC)
        self._rooms.add(directory)


def _carry_over(entry: os.DirEntry[str], place: str) -> None:
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), place)
        return
    try:
        if entry.is_dir():
            os.mkdir(place)
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o666))
        linux.mount(entry.path, place, flags=linux.MS_BIND | linux.MS_REC)
    except OSError:
        # A stale network mount, a directory this user may not even look at: the pod could not use it either.
        return


def _make_read_only(path: str) -> None:
    present = os.statvfs(path).f_flag
    kept = sum(flag for bit, flag in _KEPT_FLAGS.items() if present & bit)
    linux.mount("none", path, flags=linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | kept)


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
