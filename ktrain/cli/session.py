"""Where a run happens: a control plane of its own on this machine, or a cluster. The rest of `run` cannot tell."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ktrain.framework import Client

from .feature_gates import FeatureGates
from .submit import FIELD_MANAGER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from ktrain.framework.env import Env
    from ktrain.local.node_options import NodeOptions
    from ktrain.local.plane import PodMode


@dataclass(frozen=True, slots=True)
class Session:
    """A connection to run on. `notes` are for the user to read first."""

    client: Client
    is_local: bool
    notes: tuple[str, ...] = ()
    kubeconfig: Path | None = None
    """A kubeconfig for this control plane, when it also serves others (`--keep`)."""
    kill: Callable[[], Awaitable[None]] | None = None
    """Kills all pods of this control plane at once; None on a cluster, whose pods are not ours to kill."""


@asynccontextmanager
async def local_session(
    env: Env, *, pods: PodMode, serve: bool, nodes: NodeOptions | None = None, gates: FeatureGates | None = None
) -> AsyncIterator[Session]:
    """Start a control plane with pods as local processes; everything is gone at the end."""
    from ktrain.local.plane import ControlPlane

    gates = gates or FeatureGates()
    control_plane = ControlPlane(
        env,
        pods=pods,
        listen=("127.0.0.1", 0) if serve or gates.train_job_status else None,
        nodes=nodes,
        gates=gates.jobsets,
        takes_reports=gates.train_job_status,
        native_gangs=gates.generic_workload,
        shows_state=gates.train_job_state,
    )
    async with control_plane.running() as plane:
        client = Client(plane.transport, env, field_manager=FIELD_MANAGER)
        notes = (*plane.notes, "Images are not pulled: pods run this environment's programs in the current directory.")
        yield Session(client, is_local=True, notes=notes, kubeconfig=plane.kubeconfig, kill=plane.kill)


@asynccontextmanager
async def cluster_session(env: Env, *, kubeconfig: str | None, context: str | None) -> AsyncIterator[Session]:
    """Connect to a cluster."""
    from ktrain.framework.client.http import connect

    transport = await connect(kubeconfig=kubeconfig, context=context)
    try:
        yield Session(Client(transport, env, field_manager=FIELD_MANAGER), is_local=False)
    finally:
        await transport.aclose()
