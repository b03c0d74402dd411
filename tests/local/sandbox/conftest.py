"""Executors that are really running, and pods in them."""

from __future__ import annotations

import asyncio
import itertools
import os
import select
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ktrain.local.sandbox.executor import Executor, ProcessSpec, Sandbox, SandboxError, SandboxSpec, pod_names
from ktrain.local.sandbox.host import HostExecutor
from ktrain.local.sandbox.probe import choose

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

PATH = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"


@dataclass
class Pod:
    """One sandbox, and a short way to run things in it."""

    sandbox: Sandbox
    root: Path

    def spec(self, *argv: str, **rest) -> ProcessSpec:
        rest.setdefault("env", {"PATH": PATH})
        rest.setdefault("cwd", "/")
        rest.setdefault("log", self.root / "log")
        return ProcessSpec(argv=argv, **rest)

    async def start(self, *argv: str, **rest):
        return await self.sandbox.start(self.spec(*argv, **rest))

    async def run(self, *argv: str, **rest) -> tuple[int, str]:
        """Exit code and everything the log holds after it."""
        process = await self.start(*argv, **rest)
        return await process.wait(), self.log

    async def until_logged(self, text: str) -> str:
        """Wait for a line of the log."""
        tail = await asyncio.create_subprocess_exec(
            "tail", "-n+1", "-F", self.root / "log", stdout=PIPE, stderr=DEVNULL
        )
        try:
            async with asyncio.timeout(10):
                async for line in tail.stdout:
                    if text in line.decode():
                        return self.log
        finally:
            tail.kill()
            await tail.wait()
        raise AssertionError(f"{text!r} is not in the log: {self.log}")

    @property
    def log(self) -> str:
        return (self.root / "log").read_text()


class Maker:
    """Makes pods of an executor."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self._count = itertools.count()

    async def __call__(self, hostname: str = "tj-node-0-0", subdomain: str = "tj", namespace: str = "default", **rest):
        root = self.executor.directory / f"pod{next(self._count)}"
        root.mkdir()
        spec = SandboxSpec(
            uid=root.name,
            namespace=namespace,
            name=f"{hostname}-x",
            hostname=hostname,
            subdomain=subdomain,
            names=pod_names(hostname, subdomain, namespace),
            root=root,
            **rest,
        )
        return Pod(await self.executor.create_sandbox(spec), root)


async def namespaces() -> Executor:
    """The ns executor, or a skip with the reason of the machine."""
    try:
        return (await choose("ns")).executor
    except SandboxError as error:
        pytest.skip(str(error))


@pytest.fixture
async def ns_pod() -> AsyncIterator[Maker]:
    executor = await namespaces()
    yield Maker(executor)
    await executor.aclose()


@pytest.fixture
async def host_pod() -> AsyncIterator[Maker]:
    executor = await HostExecutor.start()
    yield Maker(executor)
    await executor.aclose()


@pytest.fixture(params=[pytest.param("ns", marks=pytest.mark.ns), "host"])
async def pod(request: pytest.FixtureRequest) -> AsyncIterator[Maker]:
    """A maker of pods, once with namespaces and once on the shared host."""
    executor = await namespaces() if request.param == "ns" else await HostExecutor.start()
    yield Maker(executor)
    await executor.aclose()


class Machine:
    """The machine outside of all pods."""

    def ends(self, pid: int, timeout_s: float = 10) -> bool:
        """Wait until a process is gone."""
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        try:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            return bool(poll.poll(timeout_s * 1000))
        finally:
            os.close(fd)

    def running(self, marker: str) -> list[int]:
        """PIDs of living processes with this text among their arguments, whatever namespace they are in."""
        return [pid for pid, arguments in self._arguments() if marker in arguments]

    def has(self, path: str) -> bool:
        """Whether something is at this path, were it a broken link."""
        return os.path.lexists(path)

    def _arguments(self) -> Iterator[tuple[int, str]]:
        for directory in Path("/proc").iterdir():
            if directory.name.isdigit():
                try:
                    yield int(directory.name), (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                except (OSError, UnicodeDecodeError):
                    continue


@pytest.fixture
def machine() -> Iterator[Machine]:
    """The machine. What a test of it leaves behind, for it failed, is not there for the next."""
    machine = Machine()
    yield machine
    for pid in machine.running("sleep 864"):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
