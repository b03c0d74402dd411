"""
A typed client over bytes.

A call is: path and query from the `Resource`, body by msgspec, the guard (may this process still write?), the transport
under a time-out, retries of answers that ask for it, the status check, and decoding into `resource.type`. Successful
writes are noted for read-your-own-writes (`ktrain.framework.writes`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from ktrain.api.meta import Json, Key, Resource
from ktrain.framework.errors import DecodeError, Gone, error_from
from ktrain.framework.metrics import Metrics
from ktrain.framework.metrics.client import ClientMetrics
from ktrain.framework.writes import Write, record

from .codec import UNFIT, accept_header, codec_for, metadata_of
from .retry import send_with_retries

if TYPE_CHECKING:
    from ktrain.framework.env import Env

    from .transport import Query, Response, Stream, Transport

T = TypeVar("T")

PAGE_SIZE = 500
JSON_TYPE = "application/json"
APPLY_TYPE = "application/apply-patch+yaml"

WriteGuard = Callable[[], float]
"""Seconds for which this process may still write; raises when it may not. Asked before every attempt to write."""


class PatchType(Enum):
    """How the API server reads a patch. STRATEGIC exists for built-in kinds only."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[T]):
    """A consistent list. Watch from its `resource_version`."""

    items: list[T]
    resource_version: str


class _Deleted(msgspec.Struct, gc=False):
    """The part of an answer to DELETE that tells which object it was: a Status, or the object itself."""

    class Details(msgspec.Struct, gc=False):
        uid: str = ""

    class Metadata(msgspec.Struct, gc=False):
        uid: str = ""

    details: Details | None = None
    metadata: Metadata | None = None


class Client:
    """
    Calls one API server as one identity.

    Every method raises the errors of `ktrain.framework.errors` (an `ApiError` for refusals, `TransportError` if no
    answer came, `DecodeError` if it cannot be read) and is safe to cancel; a cancelled write may have happened.

    Args:
        transport: Where bytes go.
        env: Time and randomness, for retries.
        field_manager: The name that owns the fields this client writes; also sent with plain updates.
        timeout_s: For one attempt of one call.
        retry_budget_s: How long a call may wait in total because the server asked it to come back later.
        guard: Fencing (see `ktrain.framework.election`); an attempt is cut short when the guard's time is over.
        metrics: Counts requests by method and code.
    """

    def __init__(
        self,
        transport: Transport,
        env: Env,
        *,
        field_manager: str,
        timeout_s: float = 10.0,
        retry_budget_s: float = 2.5,
        guard: WriteGuard | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.transport = transport
        self.field_manager = field_manager
        self._env = env
        self._timeout_s = timeout_s
        self._retry_budget_s = retry_budget_s
        self._guard = guard
        self._metrics = ClientMetrics.of(metrics or Metrics())

    # Reading

    async def get(self, resource: Resource[T], name: str, namespace: str = "", *, subresource: str = "") -> T:
        """Read one object from the API server. Controllers read their informers instead."""
        response = await self.raw("GET", resource.path(namespace, name, subresource), headers=accept_header(resource))
        return codec_for(resource).decode(response.body)

    async def list(
        self, resource: Resource[T], namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList[T]:
        """Read all objects in pages of 500; without a namespace, of all namespaces."""
        codec = codec_for(resource)
        path, headers = resource.path(namespace), accept_header(resource, many=True)
        selectors = selector_query(label_selector, field_selector)
        query = [("limit", str(PAGE_SIZE)), *selectors]
        items: list[T] = []
        while True:
            try:
                response = await self.raw("GET", path, query=query, headers=headers, timeout_s=3 * self._timeout_s)
            except Gone:
                if not items:
                    raise
                # The token of a later page expired, so the pages before it cannot be completed: all at once instead.
                items, query = [], selectors
                continue
            page = codec.decode_page(response.body)
            if page.bad:
                raise DecodeError(f"{resource.kind} {page.bad[0].key} cannot be read: {page.bad[0].reason}")
            items += page.items
            if not page.continue_token:
                return ObjectList(items, page.resource_version)
            query = [("limit", str(PAGE_SIZE)), ("continue", page.continue_token), *selectors]

    # Writing

    async def create(self, resource: Resource[T], body: Json, *, subresource: str = "") -> T:
        """Create an object in `body.metadata.namespace`; with a subresource, POST to that of `body.metadata.name`."""
        key = _key_in(body)
        path = resource.path(key.namespace, key.name if subresource else "", subresource)
        return await self._write("POST", path, resource, body, JSON_TYPE)

    async def update(self, resource: Resource[T], body: Json, *, subresource: str = "") -> T:
        """Replace an object. Its `metadata.resourceVersion` guards against changes made since it was read."""
        path = resource.path(*_key_in(body), subresource)
        return await self._write("PUT", path, resource, body, JSON_TYPE)

    async def apply(
        self,
        resource: Resource[T],
        body: Json,
        *,
        force: bool = True,
        field_manager: str | None = None,
        subresource: str = "",
    ) -> T:
        """
        Server-side apply: this manager owns exactly the fields in `body`.

        Raises:
            ApplyConflict: Not forced, and another manager owns a field with another value.
        """
        path = resource.path(*_key_in(body), subresource)
        query = [("force", "true")] if force else []
        return await self._write("PATCH", path, resource, body, APPLY_TYPE, query=query, field_manager=field_manager)

    async def patch(
        self,
        resource: Resource[T],
        key: Key,
        patch: Json | Sequence[Json],
        *,
        type: PatchType = PatchType.MERGE,  # noqa: A002 - the API's own word
        subresource: str = "",
    ) -> T:
        """Patch an object. A `metadata.resourceVersion` in a merge patch is a precondition."""
        return await self._write("PATCH", resource.path(*key, subresource), resource, patch, type.value)

    async def delete(
        self,
        resource: Resource[T],
        key: Key,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
        grace_period_s: int | None = None,
    ) -> None:
        """
        Delete an object; with `uid` or `resource_version`, only if it is still that one (Conflict if not).

        `propagation` is Background, Foreground or Orphan. Raises NotFound if there is none.
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options = {
            "preconditions": {k: v for k, v in preconditions.items() if v is not None} or None,
            "propagationPolicy": propagation,
            "gracePeriodSeconds": grace_period_s,
        }
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **{k: v for k, v in options.items() if v is not None}}
        response = await self.raw("DELETE", resource.path(*key), body=body)
        try:
            answer = msgspec.json.decode(response.body, type=_Deleted)
        except UNFIT as error:
            raise DecodeError(f"the answer to the deletion of {resource.kind} {key} cannot be read: {error}") from error
        found = (answer.details and answer.details.uid) or (answer.metadata and answer.metadata.uid) or uid or ""
        record(Write(resource.group, resource.plural, key, found, 0, {}))

    # The layer below

    async def raw(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | Json | Sequence[Json] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Response:
        """
        Send any request and return the answer if its status is below 400.

        Anything but GET counts as a write for the guard. `timeout_s` is per attempt.
        """
        data = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        sent = {"Accept": JSON_TYPE, **({"Content-Type": JSON_TYPE} if data is not None else {}), **(headers or {})}
        attempt = partial(self._attempt, method, path, query, sent, data, timeout_s or self._timeout_s)
        response = await send_with_retries(attempt, self._env, budget_s=self._retry_budget_s)
        if response.status >= 400:
            raise error_from(response.status, response.body, method=method, path=path)
        return response

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Query = (), headers: Mapping[str, str] | None = None, idle_timeout_s: float = 75.0
    ) -> AsyncIterator[Stream]:
        """
        Open a GET that answers line by line: a watch, or a log that is followed.

        Raises:
            ApiError: The server refused.
            TransportError: No connection, it broke, or no byte came for `idle_timeout_s` seconds.
        """
        sent = {"Accept": JSON_TYPE, **(headers or {})}
        async with self.transport.stream(path, query=query, headers=sent, idle_timeout_s=idle_timeout_s) as stream:
            self._metrics.requests("GET", str(stream.status))
            if stream.status >= 400:
                body = b"\n".join([line async for line in stream.lines])
                raise error_from(stream.status, body, method="GET", path=path)
            yield stream

    async def _attempt(
        self,
        method: str,
        path: str,
        query: Query,
        headers: Mapping[str, str],
        data: bytes | None,
        timeout_s: float,
    ) -> Response:
        if self._guard is not None and method != "GET":
            timeout_s = min(timeout_s, self._guard())
        response = await self.transport.request(
            method, path, query=query, headers=headers, body=data, timeout_s=timeout_s
        )
        self._metrics.requests(method, str(response.status))
        return response

    async def _write(
        self,
        method: str,
        path: str,
        resource: Resource[T],
        body: Json | Sequence[Json],
        content_type: str,
        *,
        query: Query = (),
        field_manager: str | None = None,
    ) -> T:
        query = [("fieldManager", field_manager or self.field_manager), *query]
        response = await self.raw(method, path, query=query, body=body, headers={"Content-Type": content_type})
        written = codec_for(resource).decode(response.body)
        meta = metadata_of(written)
        if meta.resource_version.isdecimal():
            version = int(meta.resource_version)
            record(Write(resource.group, resource.plural, meta.key, meta.uid, version, meta.labels))
        return written


def selector_query(label_selector: str, field_selector: str) -> list[tuple[str, str]]:
    """Query parameters for the selectors that are not empty."""
    pairs = [("labelSelector", label_selector), ("fieldSelector", field_selector)]
    return [(name, value) for name, value in pairs if value]


def _key_in(body: Json) -> Key:
    meta: Mapping[str, Any] = body.get("metadata") or {}
    return Key(meta.get("namespace", ""), meta.get("name", ""))
