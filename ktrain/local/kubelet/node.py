"""
The Node objects: this machine as the scheduler sees it, whole or as several nodes.

One machine may stand for a cluster (`divide`): N nodes share its processes, network and files, and its GPUs are dealt
out in blocks of the same size. What a node has is measured, or what the user said. Said is meant: then a scheduler
counts CPU and memory, too. Measured is advice (`ADVISORY`): a laptop has fewer cores than four pods ask for, and honest
accounts would leave a gang waiting for itself for ever.

A number of GPUs that the machine does not have is a simulation. Pods are placed by it, and find no device: programs
see the truth in CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.api.core import NODES
from ktrain.api.meta import Json, Key, format_time
from ktrain.framework import PatchType
from ktrain.framework.errors import AlreadyExists

from .gpus import GPU, GpuSlots

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from ktrain.framework import Client

ADVISORY: Final = "ktrain.local/advisory-resources"
"""Annotation of a Node: resources that are measured and not counted, comma separated."""
MEASURED: Final = ("cpu", "memory")
_OURS: Final = "-ktrain"
_VERSION: Final = f"v1.36.0{_OURS}"
_PODS: Final = 250
"""More pods than this would only wait for each other's imports."""
_ARCHITECTURES: Final = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64"}
_HEALTHY: Final = {
    "MemoryPressure": "KubeletHasSufficientMemory",
    "DiskPressure": "KubeletHasNoDiskPressure",
    "PIDPressure": "KubeletHasSufficientPID",
}


@dataclass(frozen=True, slots=True)
class LocalNode:
    """One node of this machine."""

    name: str
    allocatable: Mapping[str, str]
    """What it has to give, as quantities by resource name."""
    advisory: tuple[str, ...] = ()
    """Resources of which pods may ask for more than there is."""
    devices: tuple[str, ...] = ()
    """GPUs of this machine that belong to the node, by number or UUID."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Beside those that every node has."""

    @staticmethod
    def measured(name: str, devices: Sequence[str] = (), labels: Mapping[str, str] | None = None) -> LocalNode:
        """Make a node of all that this machine has, and of these devices."""
        return LocalNode(name, _measure(devices), MEASURED, tuple(devices), labels or {})

    @property
    def simulates_gpus(self) -> bool:
        """Whether it offers more GPUs than it has."""
        return quantity.parse(self.allocatable.get(GPU, "0")) > len(self.devices)

    @property
    def has_gpus(self) -> bool:
        """Whether its containers have to be told which GPUs are theirs, be it none."""
        return bool(self.devices) or self.simulates_gpus

    def gpu_slots(self) -> GpuSlots:
        """Make the account of its devices."""
        return GpuSlots(() if self.simulates_gpus else self.devices, simulated=self.simulates_gpus)

    def manifest(self, *, host_ip: str, executor: str, now: datetime) -> Json:
        """Build the Node object, ready."""
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": platform.system().lower(),
            "kubernetes.io/arch": _architecture(),
            **self.labels,
        }
        metadata: Json = {"name": self.name, "labels": labels}
        if self.advisory:
            metadata["annotations"] = {ADVISORY: ",".join(self.advisory)}
        status = _status(self, host_ip=host_ip, executor=executor, now=now)
        return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def divide(
    gpus: Sequence[str],
    *,
    name: str,
    count: int | None = None,
    resources: Mapping[str, str] | None = None,
    labels: Sequence[Mapping[str, str]] = (),
) -> tuple[LocalNode, ...]:
    """
    Make the nodes of this machine: one called `name`, or, with a count, that many called `name-0`, `name-1`, ….

    `resources` are what each of them has. What they do not name is measured, but for GPUs: each node gets an equal
    share of `gpus`, the rest is left over. `labels` are those of each node, in order.
    """
    share = len(gpus) // (count or 1)
    names = [name] if count is None else [f"{name}-{number}" for number in range(count)]
    nodes = []
    for number, node_name in enumerate(names):
        devices = tuple(gpus[number * share : (number + 1) * share])
        said = resources or {}
        if GPU in said and (asked := int(quantity.parse(said[GPU]))) <= share:
            devices = devices[:asked]
        advisory = tuple(resource for resource in MEASURED if resource not in said)
        own = labels[number] if labels else {}
        nodes.append(LocalNode(node_name, {**_measure(devices), **said}, advisory, devices, own))
    return tuple(nodes)


def _measure(devices: Sequence[str]) -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024
    found = {"cpu": str(os.cpu_count() or 1), "memory": f"{memory}Ki", "pods": str(_PODS)}
    return found | ({GPU: str(len(devices))} if devices else {})


def _architecture() -> str:
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def _status(node: LocalNode, *, host_ip: str, executor: str, now: datetime) -> Json:
    stamp = format_time(now)
    times = {"lastHeartbeatTime": stamp, "lastTransitionTime": stamp}
    conditions = [
        {"type": type_, "status": "False", "reason": reason, "message": "not watched", **times}
        for type_, reason in _HEALTHY.items()
    ]
    message = f"pods run as processes ({executor})"
    conditions.append({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": message, **times})
    return {
        "capacity": dict(node.allocatable),
        "allocatable": dict(node.allocatable),
        "conditions": conditions,
        "addresses": [{"type": "InternalIP", "address": host_ip}, {"type": "Hostname", "address": node.name}],
        "nodeInfo": {
            "architecture": _architecture(),
            "bootID": "",
            "containerRuntimeVersion": f"process-{executor}://",
            "kernelVersion": platform.release(),
            "kubeProxyVersion": "",
            "kubeletVersion": _VERSION,
            "machineID": "",
            "operatingSystem": platform.system().lower(),
            "osImage": platform.system(),
            "systemUUID": "",
        },
    }


def is_local(node: Json) -> bool:
    """Whether a Node was made by us, now or at an earlier start."""
    info = (node.get("status") or {}).get("nodeInfo") or {}
    return str(info.get("kubeletVersion", "")).endswith(_OURS)


async def register(client: Client, manifest: Json) -> None:
    """
    Make the Node exist with this status, whether it does already or not; what others wrote on it stays.

    Raises:
        FrameworkError: The API server refused or did not answer.
    """
    key = Key("", manifest["metadata"]["name"])
    try:
        await client.create(NODES, manifest)
    except AlreadyExists:
        await client.patch(NODES, key, {"metadata": manifest["metadata"]}, type=PatchType.MERGE)
    await client.patch(NODES, key, {"status": manifest["status"]}, type=PatchType.MERGE, subresource="status")
