"""Forking, reaping and closing, as the processes of the helper need them. Single-threaded throughout."""

from __future__ import annotations

import os
import signal
import sys

from ktrain.local.sandbox.helper import linux

TYPE_CHECKING = False  # Not imported: `typing` would cost the helper a quarter of its start.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn


def leave(body: Callable[[], int]) -> NoReturn:
    """Run the life of a forked process and end it, without the clean-up that belongs to the parent."""
    code = 1
    try:
        code = body()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:  # noqa: BLE001 - the last frame of a process: nobody above could report it
        sys.excepthook(*sys.exc_info())
    finally:
        try:
            sys.stderr.flush()
        finally:
            os._exit(code)  # Also when nobody reads stderr any more: a copy of the parent must not live on.


def fork_into_new_pid_namespace(own: int) -> int:
    """fork(); the child is PID 1 of a new PID namespace. `own` is a file of the caller's."""
    linux.unshare(linux.CLONE_NEWPID)
    return _fork_and_return(own)


def fork_into_pid_namespace_of(process: int, own: int) -> int:
    """fork(); the child joins the PID namespace of a process (a pidfd) below ours. `own` is a file of the caller's."""
    linux.setns(process, linux.CLONE_NEWPID)
    return _fork_and_return(own)


def _fork_and_return(own: int) -> int:
    """Fork, and take the way back: it works once, and before the next the way back is needed (pid_namespaces(7))."""
    try:
        pid = os.fork()
    except OSError:
        linux.setns(own, linux.CLONE_NEWPID)
        raise
    if pid:
        linux.setns(own, linux.CLONE_NEWPID)
    return pid


def close_all_but(*kept: int) -> None:
    """Close every descriptor but these: a forgotten copy of a socket would hide its end."""
    low = 0
    for fd in sorted(fd for fd in kept if fd >= 0):
        if low < fd:  # Python passes an empty range on, and closes all when it starts at 0.
            os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def wake_on_child_exit() -> int:
    """Return a descriptor that becomes readable when a child has died."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    signal.signal(signal.SIGCHLD, lambda _signum, _frame: None)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    return read_end


def drain(fd: int) -> None:
    """Read away what waits on a non-blocking descriptor."""
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        return


def reap_all() -> Iterator[tuple[int, int]]:
    """Yield (pid, exit code) of children that are dead; 128+n for signal n. Never waits."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        code = os.waitstatus_to_exitcode(status)
        yield pid, code if code >= 0 else 128 - code
