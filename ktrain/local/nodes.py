"""
The nodes of the embedded control plane: which there are, and a kubelet for each, all in this process.

They share the executor, the store of logs and the machine; each has its own share of the GPUs (`kubelet.node`).
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktrain.api.core import NODES, PODS, untyped
from ktrain.api.meta import Key, format_time
from ktrain.framework import PatchType

from .kubelet.restarts import RestartPolicy

if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from datetime import datetime

    from anyio.abc import TaskGroup

    from ktrain.framework import Cache, Client, Env, EventRecorder
    from ktrain.local.apiserver.backend import NodeAgents
    from ktrain.local.kubelet.service_address import ServiceAddress
    from ktrain.local.sandbox.executor import Executor

    from .node_options import NodeOptions

NODE_NAME: Final = "local"
RESTARTS: Final = RestartPolicy(first_s=1.0, longest_s=10.0)
"""A user waits for what failed to be tried again; ten seconds, doubling to minutes, protect a cluster."""


@dataclass(frozen=True, slots=True)
class NodeServices:
    """What the kubelets of one process share."""

    client: Client
    cache: Cache
    env: Env
    recorder: EventRecorder
    executor: Executor
    directory: Path
    """Where pods start whose containers name no working directory."""
    claims: Path | None = None
    """Where the data of PersistentVolumeClaims lies; default: with the executor, and gone with it."""
    logs: Path | None = None
    """Where what containers print is kept for the next start; default: with the executor, and gone with it."""
    services: Mapping[str, ServiceAddress] = field(default_factory=dict)
    """Where pods find what serves them, by name: `kubernetes`, unless it has no socket."""


async def start_kubelets(group: TaskGroup, agents: NodeAgents, services: NodeServices, options: NodeOptions) -> None:
    """
    Start a kubelet for every node; returns when all nodes are registered. Cancelling the group stops their pods.

    Raises:
        FrameworkError: A node could not be registered.
        OSError: The kept logs cannot be read.
    """
    from ktrain.local.kubelet.environment import base_environment
    from ktrain.local.kubelet.gpus import find_gpus
    from ktrain.local.kubelet.kept_logs import take_over
    from ktrain.local.kubelet.kubelet import Kubelet
    from ktrain.local.kubelet.logs import LogStore
    from ktrain.local.kubelet.node import divide
    from ktrain.local.kubelet.remote import RemoteShell

    logs = LogStore(services.env)
    group.start_soon(logs.run, name="logs")
    remote = RemoteShell(services.env, services.executor.directory / "rsh")
    base_env = base_environment(os.environ, Path(sys.executable))
    labels = [options.labels_of(number) for number in range(options.count or 1)]
    nodes = divide(
        find_gpus(os.environ), name=NODE_NAME, count=options.count, resources=options.resources, labels=labels
    )
    await remove_former(services.client, {node.name for node in nodes}, now=services.env.clock.now())
    if services.logs is not None:
        pods = {pod.metadata.uid: pod.key for pod in (await services.client.list(PODS)).items}
        await take_over(logs, services.logs, pods)
    for node in nodes:
        kubelet = Kubelet(
            services.client,
            services.cache,
            services.env,
            node=node,
            executor=services.executor,
            recorder=services.recorder,
            base_env=base_env,
            cwd=str(services.directory),
            claims=services.claims,
            logs=logs,
            logs_directory=services.logs,
            remote=remote,
            services=services.services,
            restarts=RESTARTS,
        )
        agents.register(node.name, kubelet)
        await group.start(kubelet.run, name=f"kubelet {node.name}")


async def remove_former(client: Client, names: Container[str], *, now: datetime) -> None:
    """
    Remove the nodes of an earlier start that are none now, and the pods that were on them.

    Objects may outlive the process (`--state`), and the next start may be told of fewer nodes. Pods there would wait
    for ever for a kubelet; they end as the garbage collector of pods ends them on a cluster.

    Raises:
        FrameworkError: The server refused, or did not answer.
    """
    from ktrain.local.kubelet.node import is_local

    former = {
        node["metadata"]["name"]
        for node in (await client.list(untyped(NODES))).items
        if node["metadata"]["name"] not in names and is_local(node)
    }
    if not former:
        return
    for name in former:
        await client.delete(NODES, Key("", name))
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
        "lastTransitionTime": format_time(now),
    }
    for pod in (await client.list(PODS)).items:
        if pod.spec.node_name not in former:
            continue
        if pod.status.phase not in ("Succeeded", "Failed"):
            status = {"status": {"phase": "Failed", "conditions": [condition]}}
            await client.patch(PODS, pod.key, status, type=PatchType.STRATEGIC, subresource="status")
        await client.delete(PODS, pod.key, grace_period_s=0)
