"""
The helper's two upper processes: the janitor, which removes the runner's directory, and the holder, which makes pods.

Frames from the runner to the holder:

    {"id", "op": "create", "sandbox": n, ...}   with the pod's end of a socket; the pod answers there (see `pod`)
    {"id", "op": "kill", "sandbox": n}          answered when everything in it is gone
    {"id", "op": "listen", "address", "port"}   answered with a listening socket, of the base network in ns mode
    {"id", "op": "link"|"unlink", "target", "source"}      a symbolic link of the host mode, taken away at the end

and back: `{"id", "ok": value}` or `{"id", "error": sentence}`, and first of all `{"event": "ready"}` or `{"event":
"failed", "error"}`.

Call: `main(fd of the socket, "ns" or "host", directory)`.
"""

from __future__ import annotations

import os
import select
import signal
import socket

from ktrain.local.sandbox import wire
from ktrain.local.sandbox.helper import container, forking, linux, mounts, netlink, tree
from ktrain.local.sandbox.helper.pod import Network, Pod, setup, write_sysctl

TYPE_CHECKING = False  # Not imported: `typing` would cost the helper a quarter of its start.
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ktrain.local.sandbox.wire import Frame

GATEWAY = "10.88.0.1"
_BRIDGE = "ktrain0"
# Locally administered; the name is as good as any, since the network is private to the runner.
_BRIDGE_MAC = bytes.fromhex("0e6b74726e00")


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
    import shutil

    shutil.rmtree(directory, ignore_errors=True)
    # Programs may have made directories that even their owner cannot list.
    for path, names, _ in os.walk(directory):
        for name in names:
            os.chmod(os.path.join(path, name), 0o700, follow_symlinks=False)
    shutil.rmtree(directory, ignore_errors=True)


def _leave_machine() -> None:
    """Enter a user namespace if need be, a mount namespace, and for the children a PID namespace."""
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


class Holder:
    """Forks pods and knows which of its children they are; any other child is an orphan of a dead pod."""

    def __init__(self, control: socket.socket, directory: str, *, namespaces: bool) -> None:
        self._control = control
        self._namespaces = namespaces
        self._reader = wire.Reader()
        self._pods: dict[int, int] = {}
        self._links: dict[str, str] = {}
        self._host_proc = os.open("/proc", os.O_PATH | os.O_CLOEXEC) if linux.LINUX else -1
        self._view = mounts.View(os.path.join(directory, ".stage"))
        self._network = Network(-1, 0)
        self._own_pids = -1
        self._stopping = False
        linux.adopt_orphans()
        if namespaces:
            mounts.isolate()
            # Every pod needs it: made once here, the pods inherit it.
            self._view.make_target("/dev/termination-log", is_directory=False)
            self._network = _make_network()
            self._own_pids = os.open("/proc/self/ns/pid_for_children", os.O_RDONLY | os.O_CLOEXEC)

    def run(self) -> None:
        """Serve until the runner is gone."""
        wakeup = forking.wake_on_child_exit()
        poll = select.poll()
        poll.register(wakeup, select.POLLIN)
        poll.register(self._control, select.POLLIN)
        signal.signal(signal.SIGTERM, self._stop)
        wire.send(self._control, {"event": "ready"})
        while not self._stopping:
            for fd, _ in poll.poll():
                if fd == wakeup:
                    forking.drain(fd)
                    self._bury()
                    continue
                frames = self._reader.receive(self._control)
                if frames is None:
                    return
                for frame, fds in frames:
                    self._answer(frame, fds)

    def close(self) -> None:
        """Kill everything below and take the links away."""
        if not self._namespaces:
            tree.kill_below(os.getpid())
        for target in list(self._links):
            self._unlink(target)

    def _stop(self, _signum: int, _frame: object) -> None:
        self._stopping = True

    def _answer(self, frame: Frame, fds: tuple[int, ...]) -> None:
        passed: tuple[int, ...] = ()
        try:
            match frame["op"]:
                case "create":
                    self._create(frame, fds[0])
                case "kill":
                    self._kill(frame["sandbox"])
                case "listen":
                    passed = (self._listen(frame["address"], frame["port"]),)
                case "link":
                    os.symlink(frame["source"], frame["target"])
                    self._links[frame["target"]] = frame["source"]
                case "unlink":
                    self._unlink(frame["target"])
        except OSError as error:
            wire.send(self._control, {"id": frame["id"], "error": container.describe(error), "errno": error.errno})
        else:
            wire.send(self._control, {"id": frame["id"], "ok": None}, passed)
        finally:
            for fd in (*fds, *passed):
                os.close(fd)

    def _create(self, frame: Frame, control: int) -> None:
        pid = forking.fork_into_new_pid_namespace(self._own_pids) if self._namespaces else os.fork()
        if pid == 0:
            linux.die_with_parent()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            forking.close_all_but(0, 1, 2, control, self._host_proc, self._network.namespace)
            forking.leave(lambda: self._be_pod(frame, socket.socket(fileno=control)))
        self._pods[frame["sandbox"]] = pid

    def _be_pod(self, frame: dict[str, Any], control: socket.socket) -> int:
        try:
            view = setup(frame, self._network, self._view) if self._namespaces else None
            pod = Pod(control, self._host_proc, view)
        except OSError as error:
            wire.send(control, {"event": "failed", "error": container.describe(error)})
            return 1
        pod.run()
        return 0

    def _kill(self, sandbox: int) -> None:
        pid = self._pods.pop(sandbox, None)
        if pid is None:
            return
        if not self._namespaces:
            tree.kill_below(pid)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self._kill_strays()

    def _bury(self) -> None:
        dead = {pid for pid, _ in forking.reap_all()}
        self._pods = {sandbox: pid for sandbox, pid in self._pods.items() if pid not in dead}
        self._kill_strays()

    def _kill_strays(self) -> None:
        if not self._namespaces:
            tree.kill_below(os.getpid(), spare=frozenset(self._pods.values()))

    def _listen(self, address: str, port: int) -> int:
        def listening() -> tuple[int, int]:
            if self._namespaces:
                linux.setns(self._network.namespace, linux.CLONE_NEWNET)
            with socket.create_server((address, port), backlog=512) as server:
                return server.getsockname()[1], server.detach()

        return _in_child(listening)[1]

    def _unlink(self, target: str) -> None:
        source = self._links.pop(target, None)
        if source is not None and os.path.islink(target) and os.readlink(target) == source:
            os.unlink(target)


def _make_network() -> Network:
    """Make the base network: a namespace with a bridge, in which nobody lives."""

    def base() -> tuple[int, int]:
        linux.unshare(linux.CLONE_NEWNET)
        link = netlink.Netlink()
        link.set_up("lo")
        link.add_bridge(_BRIDGE, _BRIDGE_MAC)
        bridge = socket.if_nametoindex(_BRIDGE)
        link.add_address(bridge, GATEWAY, 16)
        # Nothing is forwarded, since no route leads out; but only routers answer that, and without the answer every
        # look-up of an unknown name in a pod would wait for its time-out.
        write_sysctl("net/ipv4/ip_forward", "1")
        return bridge, os.open("/proc/self/ns/net", os.O_RDONLY)

    bridge, namespace = _in_child(base)
    return Network(namespace, bridge)


def _in_child(make: Callable[[], tuple[int, int]]) -> tuple[int, int]:
    """Run `make` in a forked process, which may enter a namespace for good; return its number and its descriptor."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:

        def life() -> int:
            try:
                value, fd = make()
                wire.send(theirs, {"ok": value}, (fd,))
            except OSError as error:
                wire.send(theirs, {"errno": error.errno, "error": container.describe(error)})
            return 0

        forking.leave(life)
    theirs.close()
    with ours:
        frames = wire.Reader().receive(ours)
    os.waitpid(pid, 0)
    if not frames:
        raise OSError("the helper's child died")
    frame, fds = frames[0]
    if "error" in frame:
        raise OSError(frame["errno"], frame["error"])
    return int(frame["ok"]), fds[0]
