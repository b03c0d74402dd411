"""
The status server of the embedded control plane: `controllers.statusserver` where pods of this machine reach it.

Its sockets are bound before any pod starts, on the loopback and in the network of the pods, and it serves with the API
server's certificate. On a cluster it is behind a Service, whose name pods are told. Names of services lead nowhere
here, so the kubelet tells where this one is by its variables, and the URL in a pod template refers to those: it stays
true for pods on either network, and after a restart on another port.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from ktrain.api.trainer import TRAIN_JOBS
from ktrain.framework.webhook.certificates import KeyPair
from ktrain.plugins import trainjobstatus

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from ktrain.api.meta import Json
    from ktrain.controllers.statusserver import StatusServer
    from ktrain.framework import Cache, Client, Env
    from ktrain.framework.webhook.certificates import Use
    from ktrain.local.apiserver.front.certificates import ServerIdentity

    from .sockets import Sockets

SERVICE: Final = "kubeflow-trainer-controller-manager"
PORT: Final = 10443
"""In the network of the pods, as on a cluster. On this machine's own, a free one."""
_PREFIX: Final = f"{SERVICE.upper().replace('-', '_')}_SERVICE"
_URL: Final = f"https://$({_PREFIX}_HOST):$({_PREFIX}_PORT)"


@dataclass(frozen=True, slots=True)
class StatusService:
    """Where reports are taken, and by which certificate."""

    sockets: Sockets
    identity: ServerIdentity

    @property
    def config(self) -> dict[str, Json]:
        """The section of the plugin that tells pods."""
        section = {trainjobstatus.URL: _URL, trainjobstatus.CA: self.identity.certificate.decode()}
        return {trainjobstatus.TrainJobStatus.name: section}

    def server(self, client: Client, cache: Cache, env: Env) -> StatusServer:
        """Make the server; whoever runs it closes the sockets with it."""
        # With all of schema validation, and aiohttp's server: only those who take reports need them.
        from ktrain.controllers.statusserver import StatusServer, Tokens, Writer

        jobs = cache.informer(TRAIN_JOBS)
        pair = KeyPair(self.identity.certificate, self.identity.key)
        return StatusServer(
            jobs,
            Tokens(client, env),
            Writer(client, env, jobs),
            _Constant(pair),
            env,
            host=self.sockets.service.machine[0],
            sockets=self.sockets.all,
        )


class _Constant:
    """A certificate source that has one pair."""

    def __init__(self, pair: KeyPair) -> None:
        self._pair = pair

    async def run(self, use: Use, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Hand it over."""
        await use(self._pair)
        task_status.started()
        await anyio.sleep_forever()
