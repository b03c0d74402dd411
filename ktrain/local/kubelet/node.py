"""The Node object: this machine as the scheduler sees it."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ktrain.api.core import NODES
from ktrain.api.meta import Json, Key, format_time
from ktrain.framework import PatchType
from ktrain.framework.errors import AlreadyExists

from .gpus import GPU

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from ktrain.framework import Client

_PODS: Final = 250
"""More pods than this would only wait for each other's imports."""


def allocatable(gpus: Sequence[str]) -> dict[str, str]:
    """Measure what this machine has to give, as quantities by resource name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024
    found = {"cpu": str(os.cpu_count() or 1), "memory": f"{memory}Ki", "pods": str(_PODS)}
    return found | ({GPU: str(len(gpus))} if gpus else {})


def node_status(resources: Mapping[str, str], *, host_ip: str, executor: str, now: datetime) -> Json:
    """Build the status of a node that is ready."""
    stamp = format_time(now)
    ready = {"status": "True", "reason": "KubeletReady", "message": f"pods run as processes ({executor})"}
    return {
        "capacity": dict(resources),
        "allocatable": dict(resources),
        "conditions": [{"type": "Ready", **ready, "lastHeartbeatTime": stamp, "lastTransitionTime": stamp}],
        "addresses": [{"type": "InternalIP", "address": host_ip}, {"type": "Hostname", "address": platform.node()}],
        "nodeInfo": {
            "architecture": platform.machine(),
            "bootID": "",
            "containerRuntimeVersion": f"process-{executor}://",
            "kernelVersion": platform.release(),
            "kubeProxyVersion": "",
            "kubeletVersion": "v1.36.0-ktrain",
            "machineID": "",
            "operatingSystem": platform.system().lower(),
            "osImage": platform.system(),
            "systemUUID": "",
        },
    }


async def register(client: Client, name: str, status: Json) -> None:
    """
    Make the Node exist with this status, whether it does already or not.

    Raises:
        FrameworkError: The API server refused or did not answer.
    """
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": platform.system().lower()}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}
    with suppress(AlreadyExists):
        await client.create(NODES, body)
    await client.patch(NODES, Key("", name), {"status": status}, type=PatchType.MERGE, subresource="status")
