"""
Where the helper starts: splits into the janitor, which is what the runner started, and the holder.

The janitor waits for the holder's end, and removes the runner's directory. Call: `main(fd of the socket, "ns" or
"host", directory)`. If namespaces are refused, `{"event": "failed", "error": sentence}` is all the runner hears.
"""

from __future__ import annotations

import os
import signal
import socket

from ktrain.local.sandbox import wire
from ktrain.local.sandbox.helper import container, forking, linux, tree
from ktrain.local.sandbox.helper.holder import Holder


def main(control_fd: int, mode: str, directory: str) -> None:
    """Run the helper of one runner until the runner closes its socket, or dies."""
    os.chdir("/")
    control = socket.socket(fileno=control_fd)
    linux.die_with_parent(signal.SIGTERM)
    namespaces = mode == "ns"
    holder = 0

    def stop(_signum: int, _frame: object) -> None:
        if holder:
            # On a shared host it has links to take away and descendants to kill; namespaces end with it.
            os.kill(holder, signal.SIGKILL if namespaces else signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    try:
        linux.adopt_orphans()
        if namespaces:
            _leave_machine()
        holder = os.fork()
    except OSError as error:
        wire.send(control, {"event": "failed", "error": container.describe(error)})
        os.rmdir(directory)
        return
    if holder == 0:
        forking.leave(lambda: _hold(control, directory, namespaces=namespaces))
    control.close()
    os.waitpid(holder, 0)
    if not namespaces:
        tree.kill_below(os.getpid())
    _remove(directory)


def _remove(directory: str) -> None:
    import shutil  # Here, not while the first pod is waiting for the helper to start.

    shutil.rmtree(directory, ignore_errors=True)
    # Programs may have made directories that even their owner cannot list.
    for path, names, _ in os.walk(directory):
        for name in names:
            if not os.path.islink(os.path.join(path, name)):
                os.chmod(os.path.join(path, name), 0o700)
    shutil.rmtree(directory, ignore_errors=True)


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
