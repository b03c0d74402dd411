"""
System calls that Python 3.11 does not have, through ctypes. Failures are OSErrors naming the call.

Everything runs through `PyDLL`, which keeps the interpreter lock: the helper has one thread, and `unshare` must not
find another.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

LINUX = sys.platform.startswith("linux")

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_NOATIME = 1024
MS_NODIRATIME = 2048
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_RELATIME = 1 << 21

_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
# No wrapper in glibc; the number differs per architecture.
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}

_libc = ctypes.PyDLL(None, use_errno=True)


def _check(result: int, call: str, path: str | None = None) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{call}: {os.strerror(error)}", path)


def unshare(flags: int) -> None:
    """Leave namespaces for new ones; CLONE_NEWPID concerns the children only."""
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    """Enter the namespace that a file of /proc/<pid>/ns refers to; a PID namespace concerns the children only."""
    _check(_libc.setns(fd, kind), "setns")


def mount(source: str, target: str, fstype: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2)."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        fstype.encode(),
        ctypes.c_ulong(flags),
        data.encode() if data else None,
    )
    _check(result, f"mount {fstype or 'bind'}", target)


def pivot_root_here() -> None:
    """Make the working directory, a mount point, the root, and forget the old root."""
    number = _SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(
            f"pivot_root is not known for {os.uname().machine}: create the missing directory below / yourself"
        )
    # pivot_root(2), "pivot_root(".", ".")": the old root ends up on top of the new one and can be taken off.
    _check(_libc.syscall(ctypes.c_long(number), b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _MNT_DETACH), "umount")
    os.chdir("/")


def set_hostname(name: str) -> None:
    """sethostname(2), in the UTS namespace of the caller."""
    raw = name.encode()
    _check(_libc.sethostname(raw, ctypes.c_size_t(len(raw))), "sethostname")


def die_with_parent(signum: int = signal.SIGKILL) -> None:
    """Ask for a signal at the death of the thread that forked us. Forgotten at fork; does nothing outside Linux."""
    if not LINUX:
        return
    _check(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signum), 0, 0, 0), "prctl")


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent dies (PR_SET_CHILD_SUBREAPER). Does nothing outside Linux."""
    if not LINUX:
        return
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0), "prctl")


def set_title(role: str) -> None:
    """
    Show this process as `sandbox-<role>` to ps and pkill; `sys.argv` says of which runner.

    Not by the runner's own name: `pkill -f ktrain` is for the runner, and whoever cleans up after it must be left.
    """
    if not LINUX:
        return
    title = " ".join((f"sandbox-{role}", *sys.argv[1:])).encode()
    _check(_libc.prctl(_PR_SET_NAME, ctypes.c_char_p(title.split()[0]), 0, 0, 0), "prctl")
    start, end = _argument_memory()
    if start < end:
        # The last byte stays 0, or the kernel takes what follows for a part of the title.
        ctypes.memmove(start, title[: end - start - 1].ljust(end - start, b"\0"), end - start)


def _argument_memory() -> tuple[int, int]:
    """Return from where to where the kernel reads the command line: arg_start and arg_end of proc_pid_stat(5)."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0, 0
    return int(fields[45]), int(fields[46])
