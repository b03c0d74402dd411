"""
Remote commands without sshd: MPI launchers start their daemons in other pods through the kubelet.

A pod with an MPI launcher (`mpi`) gets a directory with an agent to call instead of ssh, and a socket. The agent hands
over its standard streams; the command then runs in the pod of that name beside its main process, as `kubectl exec`
would run it. It ends with its agent: killing a launcher ends all it has started, wherever that is.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import anyio
import anyio.to_thread
import structlog

from ktrain.local.sandbox import wire
from ktrain.local.sandbox.executor import SandboxError, StartError, Stdio, pod_names

from . import remote_agent
from .files import remove_tree

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ktrain.framework import Env
    from ktrain.local.sandbox.executor import Process

    from .container import ContainerRunner, Live
    from .spec import Pod

ATTEMPTS_S: Final = 10.0
"""How long a pod that does not run yet is waited for, as long as ssh with `ConnectionAttempts=10`."""
_POLL_S: Final = 0.1
_BACKLOG: Final = 128

log = structlog.get_logger(__name__)


class Reachable(Protocol):
    """What can be found by a pod's names: the pod, and what runs its containers."""

    pod: Pod

    @property
    def default_container(self) -> str:
        """The container that commands run in."""

    def container(self, name: str) -> ContainerRunner | None:
        """Return what runs a container; None if there is none of the name."""


class RemoteShell:
    """Knows the pods by name and runs commands in them. One for all kubelets of a process."""

    def __init__(self, env: Env, directory: Path) -> None:
        """Agents and sockets lie in `directory`, whose path must be short: sockets have 107 bytes."""
        self._env = env
        self._directory = directory
        self._workers: dict[str, Reachable] = {}

    def enter(self, worker: Reachable) -> None:
        """Let a pod be found by its names; of two with one name, the newer is."""
        self._workers[worker.pod.uid] = worker

    def leave(self, worker: Reachable) -> None:
        """Forget a pod. Idempotent."""
        self._workers.pop(worker.pod.uid, None)

    def agent(self, uid: str) -> Path:
        """Return where the agent of a pod is, or will be."""
        return self._directory / uid[:8] / "agent"

    @asynccontextmanager
    async def serving(self, uid: str, namespace: str) -> AsyncIterator[None]:
        """
        Serve the launchers of one pod; leaving kills what they have started.

        Raises:
            OSError: The socket or the agent cannot be made.
        """
        place = self.agent(uid).parent
        server = await anyio.to_thread.run_sync(_furnish, place)
        try:
            async with anyio.create_task_group() as commands:
                commands.start_soon(self._accept, server, namespace, commands)
                yield
                commands.cancel_scope.cancel()
        finally:
            server.close()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(remove_tree, place)

    async def _accept(self, server: socket.socket, namespace: str, commands: anyio.abc.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(server)
            commands.start_soon(self._serve, connection, namespace, name="remote command")

    async def _serve(self, connection: socket.socket, namespace: str) -> None:
        connection.settimeout(0)
        reader = wire.Reader()
        with connection:
            try:
                request = await _receive(reader, connection)
                if request is None:
                    return
                frame, descriptors = request
                outcome = await self._run(frame, descriptors, namespace, connection)
                if outcome is not None:
                    await asyncio.get_running_loop().sock_sendall(connection, wire.encode(outcome))
            except (OSError, ValueError, KeyError) as error:
                log.debug("remote.agent_gone", error=str(error))  # Killed: so was its command.

    async def _run(
        self, frame: wire.Frame, descriptors: tuple[int, ...], namespace: str, connection: socket.socket
    ) -> wire.Frame | None:
        """Run one command; return its outcome, None when nobody waits for it any more."""
        host = str(frame["host"])
        try:
            stdin, stdout, stderr = descriptors
            live = await self._await_pod(namespace, host)
            if live is None:
                return {"error": f"{host}: no pod of that name runs in namespace {namespace}", "code": 255}
            argv = ("/bin/sh", "-c", str(frame["command"]))
            spec = replace(live.target.process, argv=argv, stdio=Stdio(stdin, stdout, stderr))
            process = await live.target.sandbox.start(spec, beside=live.process)
        except (StartError, SandboxError) as error:
            return {"error": f"{host}: {error}", "code": 255}
        finally:
            for fd in descriptors:
                os.close(fd)
        return await _outlive(process, connection)

    async def _await_pod(self, namespace: str, host: str) -> Live | None:
        deadline = self._env.clock.monotonic() + ATTEMPTS_S
        while (live := self._find(namespace, host)) is None and self._env.clock.monotonic() < deadline:
            await self._env.clock.sleep(_POLL_S)
        return live

    def _find(self, namespace: str, host: str) -> Live | None:
        for worker in reversed(self._workers.values()):
            pod = worker.pod
            names = (pod.hostname, *pod_names(pod.hostname, pod.spec.subdomain, pod.metadata.namespace))
            if pod.metadata.namespace == namespace and host in names:
                runner = worker.container(worker.default_container)
                if runner is not None and runner.live is not None:
                    return runner.live
        return None


async def _receive(reader: wire.Reader, connection: socket.socket) -> tuple[wire.Frame, tuple[int, ...]] | None:
    while True:
        await anyio.wait_readable(connection)
        frames = reader.receive(connection)
        if frames is None:
            return None
        if frames:
            return frames[0]


async def _outlive(process: Process, connection: socket.socket) -> wire.Frame | None:
    """Wait for the command's end, or for the agent's: then kill the command."""
    loop = asyncio.get_running_loop()
    ended = asyncio.ensure_future(process.wait())
    gone = asyncio.ensure_future(loop.sock_recv(connection, 1))
    try:
        await asyncio.wait((ended, gone), return_when=asyncio.FIRST_COMPLETED)
        return {"code": ended.result()} if ended.done() else None
    finally:
        if not ended.done():
            with suppress(SandboxError):  # The pod is gone, and it with it.
                process.signal(signal.SIGKILL)
        for waiting in (ended, gone):
            waiting.cancel()
        await asyncio.gather(ended, gone, return_exceptions=True)


def _furnish(place: Path) -> socket.socket:
    """Make the agent and return the listening socket beside it."""
    remove_tree(place)
    place.mkdir(parents=True)
    agent = place / "agent"
    agent.write_text(f"#!{sys.executable} -IS\n{Path(remote_agent.__file__).read_text(encoding='utf-8')}")
    agent.chmod(0o755)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(place) as directory:
            server.bind(f"{directory}/socket")
        (place / "socket").chmod(0o666)  # The container may run as another user.
        server.listen(_BACKLOG)
        server.settimeout(0)
    except OSError:
        server.close()
        raise
    return server


@contextmanager
def _short(directory: Path) -> Iterator[str]:
    """Name a directory in few characters: addresses of sockets have 107 at most, and pods' directories are deep."""
    if sys.platform != "linux":
        yield str(directory)
        return
    opened = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{opened}"
    finally:
        os.close(opened)
