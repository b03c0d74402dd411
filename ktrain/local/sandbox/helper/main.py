"""
Where the helper starts: splits into the janitor, which is what the runner started, and the holder.

The janitor sweeps what earlier runners left, waits for the holder's end, and removes the runner's directory. Call:
`main(fd of the socket, "ns" or "host", directory)`, with the lock of the directory (`scratch`) among the inherited
descriptors. If namespaces are refused, `{"event": "failed", "error": sentence}` is all the runner hears.
"""

from __future__ import annotations

import os
import signal
import socket

from ktrain.local.sandbox import wire
from ktrain.local.sandbox.helper import container, forking, linux, scratch, tree
from ktrain.local.sandbox.helper.holder import Holder

# The janitor only ever waits for these, blocked. A handler would run between any two of its steps: when the holder had
# ended already, say, and its number were another's; and an error in there would leave the directory behind.
_AWAITED = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD})


def main(control_fd: int, mode: str, directory: str) -> None:
    """Run the helper of one runner until the runner closes its socket, or dies."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    signal.signal(signal.SIGCHLD, lambda _signum, _frame: None)  # What is ignored may not be awaited (POSIX).
    os.chdir("/")
    linux.set_title("janitor")
    control = socket.socket(fileno=control_fd)
    linux.die_with_parent(signal.SIGTERM)
    namespaces = mode == "ns"
    try:
        linux.adopt_orphans()
        if namespaces:
            _leave_machine()
        holder = os.fork()
    except OSError as error:
        wire.send(control, {"event": "failed", "error": container.describe(error)})
        scratch.remove(directory)
        return
    if holder == 0:
        forking.leave(lambda: _hold(control, directory, namespaces=namespaces))
    control.close()
    scratch.sweep(os.path.dirname(directory))
    _wait_for(holder, namespaces=namespaces)
    if not namespaces:
        tree.kill_below(os.getpid())
    scratch.remove(directory)


def _wait_for(holder: int, *, namespaces: bool) -> None:
    """Wait for the holder's end, and end it when the runner dies (SIGTERM) or anybody tells us to."""
    while True:
        if signal.sigwait(_AWAITED) != signal.SIGCHLD:
            # On a shared host it has links to take away and descendants to kill; namespaces end with it.
            os.kill(holder, signal.SIGKILL if namespaces else signal.SIGTERM)
        elif any(pid == holder for pid, _ in forking.reap_all()):
            return


def _leave_machine() -> None:
    """Enter a user namespace if need be, and for the children a PID namespace."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        linux.unshare(linux.CLONE_NEWPID)
    else:
        linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWPID)
        # Mapped to itself, not to 0: programs that think they are root behave differently (mpirun refuses).
        container.map_ids((uid, uid), (gid, gid))


def _hold(control: socket.socket, directory: str, *, namespaces: bool) -> int:
    linux.die_with_parent(signal.SIGKILL if namespaces else signal.SIGTERM)
    linux.set_title("holder")
    try:
        holder = Holder(control, directory, namespaces=namespaces)
    except OSError as error:
        wire.send(control, {"event": "failed", "error": container.describe(error)})
        return 1
    try:
        holder.run()
    finally:
        holder.close()
    return 0
