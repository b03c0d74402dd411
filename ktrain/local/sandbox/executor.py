"""
The seam between the kubelet and the operating system: an `Executor` makes a `Sandbox` per pod, and it starts processes.

The kubelet knows pods: order, restarts, probes, status. An executor knows processes: where they run, what they see,
how all of them die. Two of them exist, chosen by `probe.choose`:

- `ns`: network, mount, PID, UTS and IPC namespaces per pod, for root and for ordinary users of Linux. Names and ports
  are as in a cluster, and a pod is killed by the kernel, whole.
- `host`: the shared host, where namespaces are refused or do not exist. Peer names become 127.0.0.1 and ports become
  unique per attempt of a job, by rewriting what the process is given.

Neither is a security boundary: processes run with the rights of whoever runs ktrain.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from pathlib import Path

TERMINATION_LOG = "/dev/termination-log"
"""Default of `terminationMessagePath` (core/v1 Container)."""


class SandboxError(Exception):
    """A sandbox could not be made, or the process that holds the sandboxes is gone. The message is a sentence."""


class StartError(Exception):
    """
    The program could not be started: no such file, not executable, no working directory, a mount that cannot be made.

    `exit_code` is 128, as container runtimes report it with reason StartError; the message names the file. `errno` says
    why the program itself was refused (ENOENT, EACCES, ENOEXEC); None: it was something else.
    """

    def __init__(self, message: str, exit_code: int = 128, *, errno: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.errno = errno


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of this machine, shown at `target` (absolute). A missing target is made, for the pod only."""

    source: Path
    target: str
    read_only: bool = False
    optional: bool = False
    """The program can do without it, where it cannot be made (on a shared host)."""
    inside: str = ""
    """A path inside the source that is shown instead of all of it, made if it is missing; it cannot lead outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """What an executor must know about a pod before its first process."""

    uid: str
    """The pod's metadata.uid."""
    namespace: str
    """The pod's namespace. Peers are found by short names in the same namespace only."""
    name: str
    """The pod's name, for messages."""
    hostname: str
    """What gethostname() says: spec.hostname, else the pod's name."""
    subdomain: str = ""
    """spec.subdomain. Pods with the same namespace and subdomain find each other by `names`."""
    names: tuple[str, ...] = ()
    """Names its peers use for it; see `pod_names`. The newest living pod of a name has it."""
    attempt: str = ""
    """Same for all pods that talk to each other in one attempt of a job, different in the next one (JobSet UID and
    restart attempt, else the Job's UID). Host mode gives each attempt ports of its own; empty: the pod's uid."""
    root: Path
    """The pod's directory, existing and writable, below `Executor.directory`. The sandbox keeps its own files in it."""
    host_network: bool = False
    """Run in the host's network: the only way for a pod to reach the world outside in `ns` mode (downloads)."""
    in_memory: Mapping[Path, int | None] = field(default_factory=dict)
    """Directories that are file systems in memory for the pod, with their limits in bytes; not on a shared host."""
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Addresses and the names that this pod alone has for them (hostAliases); not on a shared host."""
    rewrites_names: bool = True
    """Host mode turns names of peers into 127.0.0.1, except where somebody else makes use of the names (MPI)."""
    mounts: tuple[Mount, ...] = ()
    """Mounts that all containers of the pod share. Those of one container belong in `ProcessSpec.mounts`."""


@dataclass(frozen=True, slots=True)
class Stdio:
    """Descriptors that a program gets for its own; whoever made them closes them once the program was started."""

    stdin: int
    stdout: int
    stderr: int
    terminal: bool = False
    """They are one terminal, which becomes the controlling terminal of the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """One program to start: a container's main process, or a command beside it (probe, hook, exec)."""

    argv: tuple[str, ...]
    """Program and arguments. A program without a slash is looked up in the PATH of `env`, inside the mounts."""
    env: Mapping[str, str]
    """The whole environment: nothing is inherited."""
    cwd: str
    """Working directory as the process sees it. Missing: StartError."""
    log: Path
    """File that stdout and stderr are appended to (O_APPEND, created if missing), unless there is `stdio`."""
    stdio: Stdio | None = None
    """What the program reads and writes instead of /dev/null and the log."""
    uid: int | None = None
    """runAsUser. As an ordinary user the process sees this uid, the files stay the user's; ignored in host mode."""
    gid: int | None = None
    """runAsGroup; as `uid`."""
    groups: tuple[int, ...] = ()
    """Supplementary groups; only root can give them."""
    mounts: tuple[Mount, ...] = ()
    """This container's mounts, in any order; parents are mounted first."""
    termination_log: Path | None = None
    """File that appears at `termination_path`. Must exist."""
    termination_path: str = TERMINATION_LOG
    """The container's terminationMessagePath."""
    memory_limit: int | None = None
    """Bytes that the process and its descendants may hold (PSS, sampled); above it all of them are killed and
    `oom_killed` is set. None: no limit. Not enforced in ns mode where /proc is masked (in some containers)."""


class Process(Protocol):
    """A started program. When it ends, what it left behind is killed: nothing outlives a container's main process."""

    pid: int
    """As seen by this machine (the runner's PID namespace)."""
    oom_killed: bool
    """Known after `wait`: killed for memory, by `memory_limit` or by the kernel."""

    async def wait(self) -> int:
        """
        Return the exit code, 128+n for death by signal n, once the process and its descendants are gone.

        Safe to cancel and to call again. A process whose sandbox was killed reports 137.
        """

    def signal(self, signum: int) -> None:
        """Send a signal to the main process only; SIGKILL ends its descendants too. Nothing happens after its end."""


class Sandbox(Protocol):
    """The place where one pod's processes run."""

    ip: str
    """The pod's address: status.podIP."""

    def rewrite(self, text: str) -> str:
        """
        Return a text (a mounted ConfigMap, a script) as processes of this sandbox must see it.

        Host mode: names of peers become 127.0.0.1, and ports beside them those of this attempt. ns mode: unchanged.
        `start` does the same to arguments and environment by itself.
        """

    async def start(self, process: ProcessSpec, *, beside: Process | None = None) -> Process:
        """
        Start a program; returns after its exec has succeeded.

        `beside` is a process that was started here: the program then runs in the same container, sees the same
        processes and files (`process.mounts` are there already), and dies with it at the latest.

        Cancelled: the program may have started; it dies with the sandbox.

        Raises:
            StartError: The program, its working directory or a mount is missing or refused; or `beside` has ended.
            SandboxError: The sandbox is dead.
        """

    async def connect(self, host: str, port: int, timeout_s: float) -> socket.socket:
        """
        Return a connected, non-blocking TCP socket in the pod's network, for probes.

        Raises:
            OSError: Refused, unreachable; TimeoutError after `timeout_s` seconds.
        """

    async def kill(self) -> None:
        """Kill everything in it at once and return when it is gone. Idempotent; safe to call while starting."""


class Executor(Protocol):
    """Makes sandboxes. One per runner; safe to use from one event loop only."""

    name: str
    """"ns" or "host"."""
    directory: Path
    """The runner's temporary directory, made by the executor and removed with it, also when the runner is killed with
    SIGKILL. Pod directories and logs belong below it; what must survive the runner does not."""
    gateway: str
    """Address at which pods reach sockets made by `listen`."""

    async def create_sandbox(self, spec: SandboxSpec) -> Sandbox:
        """
        Make the place for a pod: address, names, hostname, shared mounts.

        Cancelled or failed: nothing is left.

        Raises:
            SandboxError: The kernel refused, or the helper process is gone.
        """

    async def listen(self, port: int) -> socket.socket:
        """
        Return a listening, non-blocking TCP socket that pods reach at `gateway`; port 0 lets the kernel choose.

        In ns mode pods cannot reach the loopback of the host, so what serves them must listen here.
        """

    async def aclose(self) -> None:
        """Kill every sandbox; leave no process, mount, interface or directory. Idempotent."""


def pod_names(hostname: str, subdomain: str, namespace: str) -> tuple[str, ...]:
    """
    Return the DNS names of a pod behind a headless service, shortest first (Kubernetes DNS specification, 2.4.1).

    Without a subdomain a pod has no name but its own hostname.
    """
    if not subdomain:
        return ()
    short = f"{hostname}.{subdomain}"
    return (short, f"{short}.{namespace}", f"{short}.{namespace}.svc", f"{short}.{namespace}.svc.cluster.local")
