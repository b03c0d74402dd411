"""
The holder: makes pods, kills them, and in host mode keeps links. In ns mode it is PID 1 of a namespace around them all.

Frames from the runner:

    {"id", "op": "create", "sandbox": n, ...}   with the pod's end of a socket; the pod answers there (see `pod`)
    {"id", "op": "kill", "sandbox": n}          answered when everything in it is gone
    {"id", "op": "listen", "address", "port"}   answered with a listening socket, of the base network in ns mode
    {"id", "op": "link"|"unlink", "target", "source"}      a symbolic link of the host mode, taken away at the end

and back: `{"id", "ok": null}` or `{"id", "error": sentence, "errno"}` for each, and first of all `{"event": "ready"}`.
"""

from __future__ import annotations

import os
import select
import signal
import socket

from ktrain.local.sandbox import wire
from ktrain.local.sandbox.helper import container, forking, linux, mounts, scratch, tree
from ktrain.local.sandbox.helper.network import Network
from ktrain.local.sandbox.helper.pod import Pod, setup

TYPE_CHECKING = False  # Not imported: `typing` would cost the helper a quarter of its start.
if TYPE_CHECKING:
    from ktrain.local.sandbox.wire import Frame


class Holder:
    """Forks pods and knows which of its children they are; any other child is an orphan of a dead pod."""

    def __init__(self, control: socket.socket, directory: str, *, namespaces: bool) -> None:
        self._control = control
        self._directory = directory
        self._namespaces = namespaces
        self._reader = wire.Reader()
        self._pods: dict[int, int] = {}
        self._links: dict[str, str] = {}
        self._host_proc = os.open("/proc", os.O_PATH | os.O_CLOEXEC) if linux.LINUX else -1
        self._view = mounts.View(os.path.join(directory, ".stage"))
        self._network = Network()
        self._own_pids = -1
        self._stopping = False
        linux.adopt_orphans()
        if namespaces:
            mounts.isolate()
            # Every pod needs them: made once here, the pods inherit them.
            self._view.make_target("/dev/termination-log", is_directory=False)
            self._view.make_target("/var/run/secrets/kubernetes.io/serviceaccount", is_directory=True)
            self._network = Network.make()
            self._own_pids = os.open("/proc/self/ns/pid_for_children", os.O_RDONLY | os.O_CLOEXEC)

    def run(self) -> None:
        """Serve until the runner is gone."""
        wakeup = forking.wake_on_child_exit()
        poll = select.poll()
        poll.register(wakeup, select.POLLIN)
        poll.register(self._control, select.POLLIN)
        signal.signal(signal.SIGTERM, self._stop)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # The janitor's mask until here: nothing is lost.
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
        for target in reversed([target for target, source in self._links.items() if source]):
            self._unlink(target)

    def _stop(self, signum: int, frame: object) -> None:
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
                    passed = (self._network.listen(frame["address"], frame["port"]),)
                case "link":
                    self._link(frame["target"], frame["source"])
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
            linux.set_title("pod")
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            forking.close_all_but(0, 1, 2, control, self._host_proc, self._network.namespace)
            forking.leave(lambda: self._be_pod(frame, socket.socket(fileno=control)))
        self._pods[frame["sandbox"]] = pid

    def _be_pod(self, frame: Frame, control: socket.socket) -> int:
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

    def _link(self, target: str, source: str) -> None:
        made = dict.fromkeys(_missing_parents(target), "")
        scratch.note_links(self._directory, self._links | made | {target: source})
        for directory in made:
            os.mkdir(directory)
        os.symlink(source, target)
        self._links |= made | {target: source}

    def _unlink(self, target: str) -> None:
        source = self._links.get(target)
        if source is not None:
            scratch.unlink(target, source)
            del self._links[target]
            for directory in [place for place, source in reversed(self._links.items()) if not source]:
                scratch.unlink(directory, "")
                if not os.path.isdir(directory):
                    del self._links[directory]
            scratch.note_links(self._directory, self._links)


def _missing_parents(path: str) -> list[str]:
    """Return the directories above a path that do not exist, the topmost first."""
    missing: list[str] = []
    directory = os.path.dirname(path)
    while not os.path.lexists(directory):
        missing.insert(0, directory)
        directory = os.path.dirname(directory)
    return missing
