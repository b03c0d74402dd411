"""How one attempt of a container is started: everything a process needs, put together; and what it leaves behind."""

from __future__ import annotations

import math
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from ktrain.api import quantity
from ktrain.api.jobset import RESTART_ATTEMPT
from ktrain.local.sandbox.executor import ProcessSpec, SandboxSpec, pod_names

from . import mpi
from .environment import (
    command_line,
    container_variables,
    process_environment,
    referenced,
    service_variables,
)
from .files import VolumeError
from .kept_logs import log_name
from .logs import KEPT_ATTEMPTS, AttemptLog, LogStore, tail
from .sent_functions import writes_its_program
from .sources import fetch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ktrain.framework import Client

    from .environment import PodFacts
    from .service_address import ServiceAddress
    from .spec import Container, Pod
    from .status import ContainerRecord
    from .volumes import PodVolumes

# How much a container may say about its end (core/v1 Container, terminationMessagePolicy).
_MESSAGE_BYTES: Final = 4096
_FALLBACK_BYTES: Final = 2048
_FALLBACK_LINES: Final = 80
# What tells one attempt of a job from the next.
_JOBSET_UID: Final = "jobset.sigs.k8s.io/jobset-uid"
_JOB_UID: Final = "batch.kubernetes.io/controller-uid"


@dataclass(frozen=True, slots=True)
class Machine:
    """What is the same for all processes of a kubelet."""

    node_name: str
    host_ip: str
    allocatable: Mapping[str, str]
    """Quantities by resource name."""
    base_env: Mapping[str, str]
    cwd: str
    """Where processes start whose container names no workingDir."""
    has_gpus: bool
    shared_host: bool = False
    """Pods share the network and the host name of this machine."""
    services: Mapping[str, ServiceAddress] = field(default_factory=dict)
    """Where pods find what serves them, by name: `kubernetes`, if it has a socket."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a container: how to start it, and where it leaves its log and its last words."""

    process: ProcessSpec
    container: Container
    message: Path
    log: AttemptLog
    logs: LogStore

    async def last_words(self, exit_code: int) -> str:
        """Return the termination message."""
        return await anyio.to_thread.run_sync(self._message, exit_code)

    def _message(self, exit_code: int) -> str:
        text = tail(self.message, size=_MESSAGE_BYTES)
        if not text and exit_code and self.container.termination_message_policy == "FallbackToLogsOnError":
            text = tail(self.log.path, size=_FALLBACK_BYTES, lines=_FALLBACK_LINES)
        return text.decode("utf-8", "replace")


class Launcher:
    """Prepares the attempts of one pod's containers. Owned by its worker."""

    def __init__(
        self,
        pod: Callable[[], Pod],
        *,
        directory: Path,
        logs_directory: Path,
        client: Client,
        facts: PodFacts,
        volumes: PodVolumes,
        machine: Machine,
        gpus: Mapping[str, Sequence[str]],
        logs: LogStore,
        agent: Path,
    ) -> None:
        """`agent` is what an MPI launcher of this pod may call (`remote`)."""
        self._pod = pod
        self._agent = agent
        self._directory = directory
        self._logs_directory = logs_directory
        self._client = client
        self._facts = facts
        self._volumes = volumes
        self._machine = machine
        self._gpus = gpus
        self._logs = logs

    async def prepare(self, record: ContainerRecord) -> Attempt:
        """
        Put together the next attempt of a container.

        Raises:
            ConfigError: Something it refers to is missing; try again.
            VolumeError: A subPath or a file cannot be made; try again.
            FrameworkError: The API server did not answer; try again.
            StartError: It says nothing that could be started.
        """
        pod, container = self._pod(), record.container
        found = await fetch(self._client, pod.metadata.namespace, *referenced([container]))
        service = service_variables(self._machine.services, host_network=pod.spec.host_network)
        variables = container_variables(pod, container, self._facts, found, service)
        argv = command_line(container, {**service, **variables})
        gpus = self._gpus.get(container.name, ()) if self._machine.has_gpus else None
        mounts = await self._volumes.mounts(container, variables)
        name, number = container.name, record.attempts + 1
        message, path = self._directory / f"{name}.{number}.message", self._logs_directory / log_name(name, number)
        temporary = temporary_directory(self._directory)
        await anyio.to_thread.run_sync(_make_room, path, message, temporary)
        security, shared = container.security_context, pod.spec.security_context
        uid = shared.run_as_user if security.run_as_user is None else security.run_as_user
        as_root = os.geteuid() == 0 and (uid in {None, 0} or self._machine.shared_host)
        base = {
            **self._machine.base_env,
            "TMPDIR": str(temporary),
            **_threads(container),
            **service,
        } | mpi.launcher_variables(variables, str(self._agent), as_root=as_root, shared_host=self._machine.shared_host)
        process = ProcessSpec(
            argv=mpi.worker_command(argv, can_serve=as_root and not self._machine.shared_host and _exists(argv[0])),
            env=process_environment(base, pod, variables, gpus),
            cwd=container.working_dir or (str(temporary) if writes_its_program(argv) else self._machine.cwd),
            log=path,
            uid=uid,
            groups=(*filter(None, (shared.fs_group,)), *shared.supplemental_groups),
            gid=shared.run_as_group if security.run_as_group is None else security.run_as_group,
            mounts=mounts,
            termination_log=message,
            termination_path=container.termination_message_path,
            memory_limit=_memory_limit(container),
        )
        return Attempt(process, container, message, self._logs.begin(pod.key, container.name, path), self._logs)


def temporary_directory(pod_directory: Path) -> Path:
    """
    Where a pod's programs put temporary files: theirs alone, and gone with the pod, also when they are killed.

    Short, because programs put sockets there, whose paths may be 107 bytes long.
    """
    return pod_directory.parent.parent / "tmp" / pod_directory.name[:8]


def sandbox_spec(pod: Pod, directory: Path, in_memory: Mapping[Path, int | None]) -> SandboxSpec:
    """Tell the executor about a pod; its directory, and those that are to be `in_memory`, must exist."""
    labels = pod.metadata.labels
    restart = (labels[key] for key in (_JOBSET_UID, RESTART_ATTEMPT) if key in labels)
    return SandboxSpec(
        uid=pod.uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        hostname=pod.hostname,
        subdomain=pod.spec.subdomain,
        names=pod_names(pod.hostname, pod.spec.subdomain, pod.metadata.namespace),
        attempt="-".join(restart) or labels.get(_JOB_UID, ""),
        root=directory,
        host_network=pod.spec.host_network,
        in_memory=in_memory,
        aliases={alias.ip: alias.hostnames for alias in pod.spec.host_aliases},
        rewrites_names=not mpi.launches(pod),
    )


def _threads(container: Container) -> dict[str, str]:
    """Keep numerical libraries from starting a thread for each core where the container may use fewer."""
    limit = container.resources.limits.get("cpu")
    return {} if limit is None else {"OMP_NUM_THREADS": str(max(1, math.ceil(quantity.parse(limit))))}


def _exists(program: str) -> bool:
    return shutil.which(program) is not None


def _memory_limit(container: Container) -> int | None:
    limit = container.resources.limits.get("memory")
    return None if limit is None else int(quantity.parse(limit))


def _make_room(log: Path, message: Path, temporary: Path) -> None:
    """Make an attempt's files and its pod's temporary directory; delete what the last but one left."""
    try:
        with suppress(FileExistsError):  # It is the pod's, and there since the first attempt.
            temporary.mkdir(parents=True)
            temporary.chmod(0o1777)
        for path in (log, message):
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        # The container may run as another user.
        message.chmod(0o666)
    except OSError as error:
        raise VolumeError(f"cannot prepare {message.parent}: {os.strerror(error.errno or 0)}") from error
    for path in (log, message):
        container, number, suffix = path.name.rsplit(".", 2)
        if (former := int(number) - KEPT_ATTEMPTS) > 0:
            with suppress(OSError):  # It goes with its pod at the latest.
                path.with_name(f"{container}.{former}.{suffix}").unlink()
