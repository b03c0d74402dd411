"""
Subresources whose kind is not their parent's, as functions over a client, and the log of a pod.

`status`, `ephemeralcontainers` and `resize` have their parent's kind: use the verbs with `subresource=`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Unpack

from ktrain.api.core import PODS
from ktrain.api.meta import Json, Key, Object, Resource, Struct

from .options import delete_body

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from .client import Client
    from .options import DeleteOptions, WriteOptions


class ScaleSpec(Struct, frozen=True):
    """How many there should be."""

    replicas: int = 0


class ScaleStatus(Struct, frozen=True):
    """How many there are, and which."""

    replicas: int = 0
    selector: str = ""


class Scale(Object, frozen=True):
    """The size of anything that has one (autoscaling/v1)."""

    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


class TokenStatus(Struct, frozen=True):
    """A token, and when it ends. A secret: `repr` does not show it."""

    token: str = ""
    expiration_timestamp: datetime | None = None

    def __repr__(self) -> str:
        return f"TokenStatus(expiration_timestamp={self.expiration_timestamp!r})"


class TokenRequest(Object, frozen=True):
    """A token of a service account (authentication.k8s.io/v1)."""

    status: TokenStatus = TokenStatus()


_TOKENS: Final = Resource("", "v1", "ServiceAccount", "serviceaccounts", namespaced=True, type=TokenRequest)


async def read_scale(client: Client, resource: Resource[Any], key: Key) -> Scale:
    """Read how large an object is."""
    return await client.get(replace(resource, type=Scale), key.name, key.namespace, subresource="scale")


async def scale(
    client: Client, resource: Resource[Any], key: Key, replicas: int, **options: Unpack[WriteOptions]
) -> Scale:
    """Make an object so large, whatever it was before."""
    patch = {"spec": {"replicas": replicas}}
    return await client.patch(replace(resource, type=Scale), key, patch, subresource="scale", **options)


async def evict(client: Client, key: Key, *, uid: str | None = None, **options: Unpack[DeleteOptions]) -> None:
    """
    Delete a pod as a drain does: only if its disruption budgets allow it.

    With `uid`, only that pod; but the API server tries for 10 s before it says that it is another one, which is longer
    than a call may take by default.

    Raises:
        TooManyRequests: A budget does not allow it now.
        Conflict, TransportError: The pod is another one.
    """
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": _metadata(key),
        "deleteOptions": delete_body(options, uid=uid),
    }
    await client.create(_as_json(PODS), body, subresource="eviction")


async def bind(client: Client, key: Key, node: str, **options: Unpack[WriteOptions]) -> None:
    """Put a pod on a node, as schedulers do. Conflict if it is on one."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": _metadata(key), "target": target}
    await client.create(_as_json(PODS), body, subresource="binding", **options)


async def request_token(
    client: Client, key: Key, *, audiences: Sequence[str] = (), lasts_s: int = 3600
) -> TokenRequest:
    """Ask for a token of a service account. The server may let it last shorter or longer."""
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": _metadata(key),
        "spec": {"audiences": [*audiences], "expirationSeconds": lasts_s},
    }
    return await client.create(_TOKENS, body, subresource="token")


async def read_log(
    client: Client,
    key: Key,
    *,
    container: str = "",
    follow: bool = False,
    previous: bool = False,
    timestamps: bool = False,
    since_s: int | None = None,
    tail_lines: int | None = None,
    silence_s: float = 3600.0,
) -> AsyncGenerator[bytes, None]:
    """
    Read the log of a container, line by line, without the ends of lines.

    With `follow` it goes on until the container ends; leave it under `contextlib.aclosing`. A container may have
    nothing to say for long, and then nothing comes: after `silence_s` seconds that is a TransportError.
    """
    given = {
        "container": container,
        "follow": "true" if follow else "",
        "previous": "true" if previous else "",
        "timestamps": "true" if timestamps else "",
        "sinceSeconds": "" if since_s is None else str(since_s),
        "tailLines": "" if tail_lines is None else str(tail_lines),
    }
    query = [(name, value) for name, value in given.items() if value]
    # A log is text: only errors are JSON.
    opened = client.stream(PODS.path(*key, "log"), query=query, headers={"Accept": "*/*"}, idle_timeout_s=silence_s)
    async with opened as stream:
        async for line in stream.lines:
            yield line


def _metadata(key: Key) -> Json:
    return {"name": key.name, "namespace": key.namespace}


def _as_json(resource: Resource[Any]) -> Resource[Json]:
    """The answers are Statuses, which nobody needs: a refusal is raised."""
    return replace(resource, type=dict)
