"""How checks read a cluster: whole objects as JSON, because a doctor reads fields that no controller needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ktrain.api.core import LEASES, untyped
from ktrain.api.meta import Object, Resource
from ktrain.framework.errors import NotFound

if TYPE_CHECKING:
    from datetime import datetime

    from ktrain.api.core import Lease
    from ktrain.api.meta import Json
    from ktrain.framework.client.client import Client

    from .installation import Installation


def _kind(group: str, version: str, kind: str, plural: str) -> Resource[Json]:
    return untyped(Resource(group, version, kind, plural, namespaced=True, type=Object))


DEPLOYMENTS: Final = _kind("apps", "v1", "Deployment", "deployments")
ENDPOINT_SLICES: Final = _kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
LIMIT: Final = 500
"""Most objects that a check reads of a kind that users make: the rest is not looked at, and the finding says so."""


@dataclass(frozen=True)
class Cluster:
    """
    A cluster, and the installation that was found in it.

    All reads raise the client's errors; `examine` turns a refusal into a finding that names the missing right.
    """

    client: Client
    installation: Installation

    async def find(self, resource: Resource[Any], name: str, namespace: str = "") -> Json | None:
        """Return an object, None if it does not exist or its kind is not served."""
        try:
            return await self.client.get(untyped(resource), name, namespace)
        except NotFound:
            return None

    async def some(self, resource: Resource[Any], namespace: str = "", *, labels: str = "") -> list[Json]:
        """Return up to `LIMIT` objects; none if the kind is not served."""
        query = [("limit", str(LIMIT)), *([("labelSelector", labels)] if labels else [])]
        try:
            answer = await self.client.raw("GET", resource.path(namespace), query=query)
        except NotFound:
            return []
        items: list[Json] = msgspec.json.decode(answer.body)["items"]
        return items

    async def served(self, group: str, version: str) -> frozenset[str]:
        """Return the plurals of a group and version; none if it is not served."""
        try:
            answer = await self.client.raw("GET", f"/apis/{group}/{version}")
        except NotFound:
            return frozenset()
        return frozenset(one["name"] for one in msgspec.json.decode(answer.body)["resources"])

    async def holder(self, lease: Lease) -> str:
        """Return who holds a lease now; empty if nobody renewed it in time."""
        spec = lease.spec
        if spec.renew_time is None:
            return ""
        age_s = (self.now() - spec.renew_time).total_seconds()
        return spec.holder_identity if age_s < spec.lease_duration_seconds else ""

    async def leases(self, name: str, namespace: str = "") -> list[Lease]:
        """Return the leases of a name, in all namespaces unless one is given."""
        return list((await self.client.list(LEASES, namespace, field_selector=f"metadata.name={name}")).items)

    def now(self) -> datetime:
        """Return this machine's time."""
        return self.client.env.clock.now()

    @cached_property
    def is_installed(self) -> bool:
        """Whether an operator of ours was found."""
        return bool(self.installation.account)


def name_of(body: Json) -> str:
    """Return `namespace/name`, or the name of a cluster-scoped object."""
    metadata = body["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])
