"""What every verb works on: the store, what is served, the world, admission. One `Backend` for each server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ktrain.api.meta import Key
from ktrain.local.apiserver import names
from ktrain.local.apiserver.documents.metrics import RequestCounts
from ktrain.local.apiserver.errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ktrain.api.meta import Json
    from ktrain.framework.env import Env
    from ktrain.local.apiserver.access.gate import Gate
    from ktrain.local.apiserver.admission.chain import Chain
    from ktrain.local.apiserver.conversion import Conversions
    from ktrain.local.apiserver.reading.logs import LogSource
    from ktrain.local.apiserver.registry import Registry, ServedResource
    from ktrain.local.apiserver.requests import Parameters, Request
    from ktrain.local.apiserver.storage.store import Collection, Item, Store
    from ktrain.local.apiserver.streams.connecting import StreamSource


class NodeAgent(Protocol):
    """The kubelet of one node, as far as the server asks it."""

    @property
    def logs(self) -> LogSource:
        """Reads what containers print."""

    @property
    def streams(self) -> StreamSource:
        """Runs commands in containers."""

    def processes(self, namespace: str, name: str) -> tuple[int, ...]:
        """Return the main processes of a pod's containers that run, as this machine numbers them."""


class NodeAgents:
    """Who runs the containers of which node: each kubelet registers itself, and `pods/log` and its like ask here."""

    def __init__(self) -> None:
        self._agents: dict[str, NodeAgent] = {}

    def register(self, node: str, agent: NodeAgent) -> None:
        """Let this agent answer for the pods that are bound to this node, instead of whoever did before."""
        self._agents[node] = agent

    def of(self, pod: Json) -> NodeAgent | None:
        """Return who runs this pod; None when it is not bound, or nobody does."""
        return self._agents.get(pod["spec"].get("nodeName", ""))


@dataclass(frozen=True, slots=True)
class Backend:
    """The parts of a server that verbs, strategies and the server's own controllers share."""

    store: Store
    registry: Registry
    env: Env
    admission: Chain
    conversions: Conversions
    gate: Gate
    nodes: NodeAgents = field(default_factory=NodeAgents)
    requests: RequestCounts = field(default_factory=RequestCounts)
    expositions: list[Callable[[], bytes]] = field(default_factory=list)
    """Further metrics as Prometheus text, whose names are not the server's own."""

    def now(self) -> datetime:
        """Return the wall time."""
        return self.env.clock.now()

    def collection(self, resource: ServedResource) -> Collection:
        """Return where a resource's objects are."""
        return self.store.collection(resource.collection)

    def find(self, group: str, version: str, plural: str, key: Key) -> Item | None:
        """Return an object of a resource that may not be served, or not exist."""
        resource = self.registry.find(group, version, plural)
        return self.collection(resource).get(key) if resource else None


@dataclass(slots=True)
class Call:
    """A request whose URL has been understood. `warnings` collects what goes into the answer's Warning headers."""

    request: Request
    parameters: Parameters
    resource: ServedResource
    namespace: str
    name: str
    subresource: str
    warnings: list[str] = field(default_factory=list)

    @property
    def key(self) -> Key:
        """
        Namespace and name of the object the URL names.

        Raises:
            StatusError: 400 for a name that no object can have.
        """
        if wrong := names.path_segment(self.name):
            raise bad_request(f'Name parameter invalid: "{self.name}": {wrong[0]}')
        return Key(self.namespace if self.resource.namespaced else "", self.name)

    def header(self, name: str) -> str:
        """Return a request header, empty when it is absent."""
        return self.request.headers.get(name, "")
