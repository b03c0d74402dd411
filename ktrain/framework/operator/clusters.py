"""
The API servers of an operator, and what it has for each.

All clients of controllers have the guard of the one election, which is in the operator's own cluster. What runs in
every replica has none, and neither have events: they are sent to the end, also when the lease has been given up.
"""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ktrain import __version__
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.election.election import LeaderElection
from ktrain.framework.events import EventRecorder

if TYPE_CHECKING:
    from ktrain.framework.client.transport import Transport
    from ktrain.framework.env import Env
    from ktrain.framework.metrics import Metrics
    from ktrain.framework.telemetry.tracing import Tracing

    from .settings import Settings


@dataclass(frozen=True, slots=True)
class Cluster:
    """
    One API server, as an operator works with it.

    Attributes:
        name: In readiness; empty for the operator's own cluster.
        client: For controllers: writes only while this process leads.
        unguarded: For what runs in every replica: writes always.
        cache: Its informers.
        recorder: Its events.
    """

    name: str
    client: Client
    unguarded: Client
    cache: Cache
    recorder: EventRecorder


class ClusterMaker:
    """
    Makes the clusters of one operator.

    Attributes:
        election: None without one, or before the first cluster.
    """

    def __init__(self, operator: str, settings: Settings, env: Env, metrics: Metrics, tracing: Tracing) -> None:
        self.election: LeaderElection | None = None
        self._operator = operator
        self._settings = settings
        self._env = env
        self._metrics = metrics
        self._tracing = tracing

    def cluster(self, name: str, transport: Transport, *, for_election: Transport | None = None) -> Cluster:
        """Make what one API server needs; with `for_election`, a transport of its own, the election first."""
        make = partial(
            Client,
            transport,
            self._env,
            field_manager=self._settings.field_manager or self._operator,
            metrics=self._metrics,
            tracing=self._tracing,
            cluster=name,
        )
        unguarded = make()
        recorder = EventRecorder(unguarded, self._env, component=self._operator, metrics=self._metrics)
        if for_election is not None and self._settings.leader_election:
            self.election = self._election(for_election, recorder)
        client = make(guard=self.election.guard if self.election else None)
        cache = Cache(client, self._env, metrics=self._metrics, namespaces=self._settings.watch_namespaces)
        return Cluster(name, client, unguarded, cache, recorder)

    def user_agent(self, role: str = "") -> str:
        """Name the operator, for audit logs and API priority and fairness."""
        return f"{self._operator}{role} ktrain/{__version__}"

    def _election(self, transport: Transport, recorder: EventRecorder) -> LeaderElection:
        settings = self._settings
        manager = settings.field_manager or self._operator
        # It waits for nobody's turn.
        client = Client(transport, self._env, field_manager=manager, max_in_flight=None)
        return LeaderElection(
            client,
            self._env,
            name=settings.leader_election,
            namespace=settings.namespace,
            identity=settings.identity or f"{socket.gethostname()}_{secrets.token_hex(8)}",
            timing=settings.timing,
            labels=settings.leader_election_labels,
            recorder=recorder,
            metrics=self._metrics,
        )
