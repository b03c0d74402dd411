"""Where a pod's containers run: what it shares with the other pods of its kubelet, and what it has for itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio.to_thread

from .environment import PodFacts
from .launch import Launcher, Machine, sandbox_spec
from .volumes import PodVolumes, memory_volumes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from ktrain.framework import Client, Env, EventRecorder
    from ktrain.local.sandbox.executor import Executor, Sandbox

    from .gpus import GpuSlots
    from .logs import LogStore
    from .remote import RemoteShell
    from .restarts import RestartPolicy
    from .spec import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all pods of a kubelet share."""

    client: Client
    env: Env
    executor: Executor
    recorder: EventRecorder
    logs: LogStore
    gpus: GpuSlots
    machine: Machine
    remote: RemoteShell
    restarts: RestartPolicy
    pods_directory: Path
    logs_directory: Path
    claims_directory: Path


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod's containers run, once there is such a place."""

    sandbox: Sandbox
    volumes: PodVolumes
    launcher: Launcher


async def make_place(
    pod: Callable[[], Pod], directory: Path, shared: Surroundings, gpus: Mapping[str, Sequence[str]]
) -> Place:
    """
    Make the sandbox of a pod, and what its volumes and containers need to know of it.

    Raises:
        SandboxError: The executor refused.
        OSError: The directory cannot be made.
    """
    first = pod()
    in_memory = memory_volumes(first, directory / "volumes")
    await anyio.to_thread.run_sync(_make_directories, (directory, *in_memory))
    sandbox = await shared.executor.create_sandbox(sandbox_spec(first, directory, in_memory))
    facts = PodFacts(shared.machine.node_name, shared.machine.host_ip, sandbox.ip, shared.machine.allocatable)
    volumes = PodVolumes(
        first,
        directory=directory / "volumes",
        claims=shared.claims_directory,
        client=shared.client,
        clock=shared.env.clock,
        facts=facts,
        rewrite=sandbox.rewrite,
        in_memory=not shared.machine.shared_host,
    )
    launcher = Launcher(
        pod,
        directory=directory,
        logs_directory=shared.logs_directory / first.uid,
        client=shared.client,
        facts=facts,
        volumes=volumes,
        machine=shared.machine,
        gpus=gpus,
        logs=shared.logs,
        agent=shared.remote.agent(first.uid),
    )
    return Place(sandbox, volumes, launcher)


def _make_directories(paths: Iterable[Path]) -> None:
    for path in paths:
        path.mkdir(parents=True, exist_ok=True)
