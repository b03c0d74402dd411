"""
One pod: a process that sets up what its containers share, then starts them when the runner says so.

Frames from the runner, on a socket that belongs to this pod alone:

    {"id", "op": "start", "process", argv, env, cwd, uid, gid, mounts, memory_limit, terminal, stage}
                                                           with the log file, or with stdin, stdout and stderr;
                                                           "beside": a process, to run in the same container
    {"op": "signal", "process", "signum"}                  not answered
    {"id", "op": "socket", "family"}                       answered with a TCP socket of the pod's network

and back: `{"id", "ok": value}` or `{"id", "error": sentence, "errno"}` for each, with a number only if the program
itself was refused; `{"event": "ready"}` or `{"event": "failed", "error"}` once; `{"event": "exit", "process", "code",
"oom"}` for each process. The socket's end is the pod's end.
"""

from __future__ import annotations

import os
import select
import signal
import socket

from ktrain.local.sandbox import wire
from ktrain.local.sandbox.helper import container, forking, linux, memory, mounts, tree

TYPE_CHECKING = False  # Not imported: `typing` would cost the helper a quarter of its start.
if TYPE_CHECKING:
    from typing import Any

    from ktrain.local.sandbox.helper.network import Network
    from ktrain.local.sandbox.wire import Frame

_SAMPLE_MS = 200


def setup(spec: dict[str, Any], network: Network, view: mounts.View) -> mounts.View:
    """
    Enter namespaces of the pod's own and furnish them. The caller is PID 1 of the pod's PID namespace already.

    Raises:
        OSError: The kernel refused something; the message names it.
    """
    linux.unshare(linux.CLONE_NEWIPC | linux.CLONE_NEWNS)
    if not spec["host_network"]:
        network.join(spec["interface"], spec["ip"])
        linux.unshare(linux.CLONE_NEWUTS)
        linux.set_hostname(spec["hostname"])
    view = view.copy(spec["stage"])
    mounts.mount_shared_memory()
    for path, limit in spec["memory"]:
        mounts.mount_memory(path, limit)
    view.show([tuple(mount) for mount in spec["mounts"]])
    return view


class _Running:
    """A process that was started: its supervisor, and the pipe on which its start is reported until that is known."""

    def __init__(self, frame: Frame, supervisor: int, report: int) -> None:
        self.request = frame["id"]
        self.supervisor = supervisor
        self.report = report
        self.said = b""
        self.memory_limit = frame["memory_limit"]
        self.beside: int | None = frame.get("beside")
        self.kills_before = memory.kernel_kills()
        self.killed_by_us = False
        self.over_limit = False


class Pod:
    """The main loop: requests, reports of starts, deaths of children."""

    def __init__(self, control: socket.socket, host_proc: int, view: mounts.View | None) -> None:
        self._control = control
        self._host_proc = host_proc
        self._view = view
        self._reader = wire.Reader()
        self._running: dict[int, _Running] = {}
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._wakeup = forking.wake_on_child_exit()
        self._poll.register(self._wakeup, select.POLLIN)
        if view is None:
            linux.adopt_orphans()
        # Processes are counted in the pod's own /proc, by the PIDs that this process knows.
        self._can_sample = view is None or mounts.mount_proc()
        self._own_pids = -1 if view is None else os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def run(self) -> None:
        """Serve until the runner is gone."""
        wire.send(self._control, {"event": "ready"})
        while True:
            limited = self._can_sample and any(process.memory_limit for process in self._running.values())
            ready = self._poll.poll(_SAMPLE_MS if limited else None)
            for fd, _ in ready:
                if fd == self._control.fileno():
                    frames = self._reader.receive(self._control)
                    if frames is None:
                        return
                    for frame, fds in frames:
                        self._answer(frame, fds)
                elif fd == self._wakeup:
                    forking.drain(fd)
                else:
                    self._read_report(fd)
            if limited:
                self._enforce_memory()
            self._reap()

    def _answer(self, frame: Frame, fds: tuple[int, ...]) -> None:
        try:
            self._handle(frame, fds)
        except OSError as error:  # No process or descriptor is left, no such signal: the pod lives on.
            wire.send(self._control, {"id": frame.get("id", 0), "error": container.describe(error)})
        finally:
            for fd in fds:
                os.close(fd)

    def _handle(self, frame: Frame, fds: tuple[int, ...]) -> None:
        match frame["op"]:
            case "start":
                self._start(frame, fds)
            case "signal":
                self._signal(frame["process"], frame["signum"])
            case "socket":
                with socket.socket(frame["family"], socket.SOCK_STREAM) as sock:
                    wire.send(self._control, {"id": frame["id"], "ok": None}, (sock.fileno(),))

    def _start(self, frame: Frame, stdio: tuple[int, ...]) -> None:
        host = self._host_of(frame)
        report, write_end = os.pipe()
        try:
            pid = self._fork(host)
        except OSError:
            os.close(report)
            os.close(write_end)
            raise
        if pid == 0:
            linux.die_with_parent()
            linux.set_title("init")
            forking.close_all_but(0, 1, 2, *stdio, write_end, self._host_proc, host)
            signal.set_wakeup_fd(-1)
            forking.leave(lambda: self._be_program(frame, stdio, write_end, host))
        os.close(write_end)
        if host >= 0:
            os.close(host)
        self._running[frame["process"]] = _Running(frame, pid, report)
        self._poll.register(report, select.POLLIN)

    def _be_program(self, frame: Frame, stdio: tuple[int, ...], report: int, host: int) -> int:
        if host >= 0:
            container.join(frame, stdio, report, self._host_proc, host)
        view = self._view.copy(f"{frame['stage']}/{frame['process']}") if self._view is not None else None
        return container.supervise(frame, stdio, report, self._host_proc, view)

    def _host_of(self, frame: Frame) -> int:
        """Return a descriptor of the process whose namespaces the program is to join, or -1: it gets its own."""
        if (beside := frame.get("beside")) is None:
            return -1
        if (process := self._running.get(beside)) is None:
            raise OSError("the container has ended")
        return -1 if self._view is None else os.pidfd_open(process.supervisor)

    def _fork(self, host: int) -> int:
        if self._view is None:
            return os.fork()
        if host >= 0:
            return forking.fork_into_pid_namespace_of(host, self._own_pids)
        return forking.fork_into_new_pid_namespace(self._own_pids)

    def _signal(self, key: int, signum: int) -> None:
        process = self._running.get(key)
        if process is None:
            return
        process.killed_by_us |= signum == signal.SIGKILL
        if signum == signal.SIGKILL and process.beside is not None and self._view is not None:
            # No supervisor, no namespace of its own: what it started and did not detach goes with it.
            os.killpg(process.supervisor, signum)
        else:
            os.kill(process.supervisor, signum)

    def _read_report(self, fd: int) -> None:
        process = next(process for process in self._running.values() if process.report == fd)
        data = os.read(fd, 65536)
        process.said += data
        if data:
            return
        self._poll.unregister(fd)
        os.close(fd)
        process.report = -1
        pid, _, said = process.said.decode(errors="surrogateescape").partition("E")
        error, _, number = said.partition("\0")
        if pid.startswith("P") and not error:
            wire.send(self._control, {"id": process.request, "ok": int(pid[1:])})
        else:
            refusal = {"error": error or "killed before it started", "errno": int(number) if number else None}
            wire.send(self._control, {"id": process.request} | refusal)

    def _enforce_memory(self) -> None:
        for process in self._running.values():
            if process.memory_limit and memory.held_below(process.supervisor, process.memory_limit):
                process.over_limit = True
                os.kill(process.supervisor, signal.SIGKILL)

    def _reap(self) -> None:
        for pid, code in forking.reap_all():
            key = next((key for key, process in self._running.items() if process.supervisor == pid), None)
            if key is None:
                continue
            if self._view is None:
                self._kill_what_is_left_of(key, pid)
            process = self._running[key]
            while process.report >= 0:
                self._read_report(process.report)
            del self._running[key]
            by_kernel = code == 137 and not process.killed_by_us and memory.kernel_kills() > process.kills_before
            exit_event = {"event": "exit", "process": key, "code": code, "oom": process.over_limit or by_kernel}
            wire.send(self._control, exit_event)

    def _kill_what_is_left_of(self, key: int, supervisor: int) -> None:
        """Without namespaces: end the programs beside this one, and whatever has no supervisor any more."""
        for process in self._running.values():
            if process.beside == key:
                tree.kill_below(process.supervisor)
        supervisors = frozenset(process.supervisor for process in self._running.values())
        tree.kill_below(os.getpid(), spare=supervisors - {supervisor})
