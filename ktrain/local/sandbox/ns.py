"""
The `ns` executor: each pod in namespaces of its own, on a bridge in a network that belongs to this runner alone.

Pods have addresses in 10.88.0.0/16, find each other by the names of the cluster, and all may listen on the same port.
They have no way out: no route leads from the private network to the world, for root and users alike. A pod that must
download runs with `host_network`. Nor do pods reach the loopback of this machine: what serves them uses `listen`.

For ordinary users the helper enters a user namespace first, in which the user keeps the own uid. Needs Linux with user
namespaces (or root), veth and bridge; `probe` finds out.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from ktrain.local.sandbox.executor import SandboxError
from ktrain.local.sandbox.hosts import HostsFile
from ktrain.local.sandbox.supervised import SupervisedExecutor, SupervisedSandbox

if TYPE_CHECKING:
    from pathlib import Path

    from ktrain.local.sandbox.executor import Mount, ProcessSpec, SandboxSpec
    from ktrain.local.sandbox.helper_client import Helper
    from ktrain.local.sandbox.wire import Frame

WireMount = tuple[str, str, bool, str]
# The kernel allows 1024 ports on a bridge (BR_MAX_PORTS); addresses are reused oldest first.
_ADDRESSES: Final = 1016
SERVICE_NAMES: Final = (
    "kubernetes.default.svc",
    "kubernetes.default",
    "kubernetes",
    "kubernetes.default.svc.cluster.local",
)
"""Names of the API server in the pods' network, where it listens at `gateway`."""


class NamespaceSandbox(SupervisedSandbox):
    """A pod in namespaces."""

    def __init__(self, spec: SandboxSpec, helper: Helper, key: int, ip: str, network: NamespaceExecutor) -> None:
        super().__init__(spec, helper, key, ip)
        self._network = network

    async def prepare(self, process: ProcessSpec) -> Frame:
        """Everything is mounted where the pod expects it; nothing is rewritten."""
        mounts = [_wire_mount(mount) for mount in process.mounts]
        if process.termination_log is not None:
            mounts.append((str(process.termination_log), process.termination_path, False, ""))
        return {
            "argv": process.argv,
            "env": dict(process.env),
            "cwd": process.cwd,
            "uid": process.uid,
            "gid": process.gid,
            "groups": process.groups,
            "mounts": mounts,
            "memory_limit": process.memory_limit,
            "terminal": process.stdio is not None and process.stdio.terminal,
            "stage": str(self.spec.root / ".stage"),
        }

    async def release(self) -> None:
        """Give the address and the names back."""
        self._network.forget(self)


class NamespaceExecutor(SupervisedExecutor):
    """Pods in namespaces, for root and for ordinary users of Linux."""

    name = "ns"
    gateway = "10.88.0.1"

    def __init__(self, helper: Helper, directory: Path) -> None:
        super().__init__(helper, directory)
        self._free = deque(f"10.88.{1 + n // 254}.{1 + n % 254}" for n in range(_ADDRESSES))
        self._hosts: dict[str, HostsFile] = {}

    async def create_sandbox(self, spec: SandboxSpec) -> NamespaceSandbox:
        """Fork the pod, connect it, name it; see `executor.Executor.create_sandbox`."""
        if not spec.host_network and not self._free:
            raise SandboxError(
                f"no address is left for pod {spec.namespace}/{spec.name}: {_ADDRESSES} pods are running"
            )
        ip = "127.0.0.1" if spec.host_network else self._free.popleft()
        key = next(self._keys)
        sandbox = NamespaceSandbox(spec, self._helper, key, ip, self)

        def setup() -> Frame:
            return {
                "host_network": spec.host_network,
                "hostname": spec.hostname,
                "interface": f"veth{key}",
                "ip": ip,
                "stage": str(spec.root / ".stage"),
                "memory": [(str(path), limit) for path, limit in spec.in_memory.items()],
                "mounts": [*self._admit(spec, ip), *(_wire_mount(mount) for mount in spec.mounts)],
            }

        await self._open(sandbox, setup)
        return sandbox

    def forget(self, sandbox: NamespaceSandbox) -> None:
        """Take back what `create_sandbox` gave."""
        if sandbox.spec.host_network or not self.directory.exists():
            return
        self._free.append(sandbox.ip)
        group = _group(sandbox.spec)
        hosts = self._hosts.get(group)
        if hosts is not None and not hosts.remove(sandbox.ip):
            hosts.path.unlink(missing_ok=True)
            del self._hosts[group]

    def _admit(self, spec: SandboxSpec, ip: str) -> list[WireMount]:
        """Enter the pod in the hosts file of its subdomain, and return the mount of that file."""
        if spec.host_network:
            return []
        group = _group(spec)
        if group not in self._hosts:
            self._hosts[group] = HostsFile(self.directory / f"hosts.{group}", {self.gateway: SERVICE_NAMES})
        hosts, path = self._hosts[group], self._hosts[group].path
        # The own hostname must resolve, or gloo binds to the loopback; peers may use the short name, too (MPI does).
        hosts.add(ip, (*spec.names, spec.hostname))
        if spec.aliases:
            path = spec.root / "hosts"
            hosts.copy(ip, path, spec.aliases)
        return [(str(path), "/etc/hosts", False, "")]


def _group(spec: SandboxSpec) -> str:
    return f"{spec.namespace}.{spec.subdomain}" if spec.subdomain else spec.uid


def _wire_mount(mount: Mount) -> WireMount:
    return (str(mount.source), mount.target, mount.read_only, mount.inside)
