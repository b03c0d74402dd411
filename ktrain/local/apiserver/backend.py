"""What every verb works on: the store, what is served, the world, admission. One `Backend` for each server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ktrain.api.meta import Key

if TYPE_CHECKING:
    from datetime import datetime

    from ktrain.framework.env import Env
    from ktrain.local.apiserver.access.gate import Gate
    from ktrain.local.apiserver.admission import Chain
    from ktrain.local.apiserver.logs import LogSource
    from ktrain.local.apiserver.registry import Registry, ServedResource
    from ktrain.local.apiserver.requests import Parameters, Request
    from ktrain.local.apiserver.store import Collection, Item, Store


@dataclass(slots=True)
class NodeAgents:
    """Who runs containers, as far as anyone does: the kubelet fills this in."""

    logs: LogSource | None = None


@dataclass(frozen=True, slots=True)
class Backend:
    """The parts of a server that verbs, strategies and the server's own controllers share."""

    store: Store
    registry: Registry
    env: Env
    admission: Chain
    gate: Gate
    nodes: NodeAgents = field(default_factory=NodeAgents)

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
        """Namespace and name of the object the URL names."""
        return Key(self.namespace if self.resource.namespaced else "", self.name)

    def header(self, name: str) -> str:
        """Return a request header, empty when it is absent."""
        return self.request.headers.get(name, "")
