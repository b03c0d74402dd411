"""
Memory limits without cgroups, which an ordinary user may not make: held memory is sampled, and the kernel's count of
OOM kills tells whether a SIGKILL that nobody sent was one of them.
"""

from __future__ import annotations

import os

from ktrain.local.sandbox.helper import tree


def kernel_kills() -> int:
    """Return how many processes the kernel has killed for memory since boot, 0 where it does not say."""
    try:
        with open("/proc/vmstat", "rb") as file:
            return next((int(line.split()[1]) for line in file if line.startswith(b"oom_kill ")), 0)
    except OSError:
        return 0


def held_below(root: int, limit: int) -> bool:
    """
    Whether the processes below `root` hold more than `limit` bytes.

    Resident sizes count shared pages once per process, so they only tell who is certainly below the limit; proportional
    sizes decide, and cost milliseconds per process.
    """
    pids = tree.descendants({root})
    page = os.sysconf("SC_PAGE_SIZE")
    if sum(_field(f"/proc/{pid}/statm", 1) for pid in pids) * page <= limit:
        return False
    return sum(_proportional(pid) for pid in pids) > limit


def _field(path: str, index: int) -> int:
    try:
        with open(path, "rb") as file:
            return int(file.read().split()[index])
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith(b"Pss:")), 0)
    except OSError:
        return 0
