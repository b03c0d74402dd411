"""
Who descends from whom, and killing all of them: for hosts without PID namespaces, where nobody else does it.

Killing a process group is not enough (torchrun gives each worker a session of its own), and a list of descendants is
stale when it is read. So: kill what is there, look again, until nothing is left. A subreaper above makes it complete:
what loses its parent becomes the subreaper's child instead of disappearing from the tree.
"""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False  # Not imported: `typing` would cost the helper a quarter of its start.
if TYPE_CHECKING:
    from collections.abc import Callable


def parents() -> dict[int, int]:
    """Return the parent of every living process; zombies are left out."""
    if not sys.platform.startswith("linux"):
        return _parents_by_ps()
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The command name may hold blanks and brackets: fields are counted from its last bracket.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] not in (b"Z", b"X"):
            found[int(name)] = int(fields[1])
    return found


def descendants(roots: set[int], *, spare: frozenset[int] = frozenset()) -> set[int]:
    """Return all living processes below `roots`, without the roots; who is spared is left out with all below it."""
    children_of = _children if os.path.exists("/proc/thread-self/children") else _scanned()
    found: set[int] = set()
    pending = list(roots)
    while pending:
        for pid in children_of(pending.pop()):
            if pid not in spare and pid not in found:
                found.add(pid)
                pending.append(pid)
    return found


def _children(parent: int) -> list[int]:
    """
    Ask the kernel for the living children of one process (proc_pid_task(5)): what a tree costs depends on its size.

    A list that changes while it is read may lack somebody: whoever must have all looks again, as `kill_below` does.
    """
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{parent}/task"):
            with open(f"/proc/{parent}/task/{thread}/children", "rb") as file:
                found += [int(pid) for pid in file.read().split()]
    except OSError:
        pass  # It has ended meanwhile.
    return [pid for pid in found if _lives(pid)]


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def _scanned() -> Callable[[int], list[int]]:
    """Return the same, from one look at all processes of the machine."""
    below: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        below.setdefault(parent, []).append(pid)
    return lambda parent: below.get(parent, [])


def kill_below(root: int, *, spare: frozenset[int] = frozenset()) -> None:
    """
    Kill everything below `root` until nothing is left. Reaps what is or becomes our own child.

    One look that finds nothing is no proof: a process may fork when the list was made and die before it is its turn,
    as programs do whose parent was killed. The next list has its child.
    """
    looks_in_vain = 0
    while looks_in_vain < 2:
        living = descendants({root}, spare=spare)
        for pid in living:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                # PermissionError: a setuid program; it stays, as it would under any shell.
                living = living - {pid}
        if living:
            looks_in_vain = 0
            reap(living)
            time.sleep(0.001)
        else:
            looks_in_vain += 1


def reap(pids: set[int]) -> None:
    """Collect those of `pids` that are dead children of ours; never waits."""
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue


def _parents_by_ps() -> dict[int, int]:
    import subprocess

    listing = subprocess.run(["ps", "-axo", "pid=,ppid=,stat="], capture_output=True, text=True, check=False).stdout  # noqa: S607 - ps is where the system has it
    rows = (line.split(None, 2) for line in listing.splitlines())
    return {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}
