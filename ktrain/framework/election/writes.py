"""
How a candidate writes a Lease: over the record that it has seen, and over no other.

A patch keeps what is not ours (preferredHolder, strategy) and needs no read. Roles made for operators in Go let a
candidate update, and not patch: from the first such refusal on the whole object is read and written.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ktrain.api.core import EVENTS, LEASES, Lease
from ktrain.api.meta import Json, Key, Resource
from ktrain.api.rbac import Right, right
from ktrain.framework.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ktrain.framework.client.client import Client

_WHOLE: Final[Resource[Json]] = Resource(
    LEASES.group, LEASES.version, LEASES.kind, LEASES.plural, namespaced=True, type=dict
)


def rights(lease: str) -> tuple[Right, ...]:
    """Return the rights of a candidate for the Lease of a name, which is the only one that it may read or change."""
    why = "the lease of the election"
    return (
        right("own", LEASES, "create", reason=why),
        right("own", LEASES, "get", "list", "watch", "patch", names=(lease,), reason=why),
        right("own", EVENTS, "create", "patch", reason="events of the election"),
    )


class LeaseWrites:
    """Writes one lease, with labels of ours."""

    def __init__(self, client: Client, key: Key, labels: Mapping[str, str]) -> None:
        self._client = client
        self._key = key
        self._labels = dict(labels)
        self._updates = False
        """Whether patches are forbidden."""

    async def create(self, spec: Json) -> Lease:
        """
        Create the lease.

        Raises:
            Conflict: There is one.
            FrameworkError: The API server refused, or could not be reached.
        """
        meta: Json = {"name": self._key.name, "namespace": self._key.namespace}
        if self._labels:
            meta["labels"] = self._labels
        body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": meta, "spec": spec}
        return await self._client.create(LEASES, body)

    async def change(self, spec: Json, version: str) -> Lease:
        """
        Write over the record of a version.

        Raises:
            Conflict: It is another one by now.
            FrameworkError: The API server refused, or could not be reached.
        """
        meta: Json = {"resourceVersion": version}
        if self._labels:
            meta["labels"] = self._labels
        if not self._updates:
            try:
                return await self._client.patch(LEASES, self._key, {"metadata": meta, "spec": spec})
            except Forbidden as refusal:
                # Neither is allowed: the first refusal names the right that this way of writing asks for.
                with suppress(Forbidden):
                    lease = await self._update(meta, spec)
                    self._updates = True
                    return lease
                raise refusal from None
        try:
            return await self._update(meta, spec)
        except Forbidden:
            self._updates = False
            raise

    async def _update(self, meta: Json, spec: Json) -> Lease:
        whole = await self._client.get(_WHOLE, self._key.name, self._key.namespace)
        labels = whole["metadata"].get("labels", {}) | self._labels
        metadata = whole["metadata"] | meta | ({"labels": labels} if labels else {})
        return await self._client.update(LEASES, whole | {"metadata": metadata, "spec": whole.get("spec", {}) | spec})
