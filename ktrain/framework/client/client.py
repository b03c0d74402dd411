"""
A typed client over bytes.

A call is: path and query from the `Resource` and the options, body by msgspec, the way to the server and back
(`sending.py`), and decoding into `resource.type`; `dict` is a type, too, for whoever wants objects whole. What a write
stored is noted for read-your-own-writes (`ktrain.framework.writes`).

A subresource that answers with a kind of its own is another resource: `replace(PODS, type=Scale)`, see `subresources`.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

import msgspec

from ktrain.api.meta import Json, Key, Resource
from ktrain.framework.metrics import Metrics
from ktrain.framework.telemetry.tracing import Tracing

from .codec import accept_header, codec_for
from .fairness import MAX_IN_FLIGHT
from .generated import generated
from .models import Model, document, key_in
from .options import (
    APPLY_TYPE,
    JSON_TYPE,
    DeleteOptions,
    PatchType,
    WriteOptions,
    delete_body,
    override,
    selector_query,
    write_query,
)
from .reading import PAGE_SIZE, ObjectList, WatchEvent, follow, read_list, read_pages
from .recording import note_deletion, note_write
from .sending import Sender, WriteGuard

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from kubernetes_asyncio.client import ApiClient

    from ktrain.framework.env import Env

    from .transport import Query, Response, Stream, Transport

A = TypeVar("A")
T = TypeVar("T")

ATTEMPT_TIMEOUT_S: Final = 9.5
"""An object whose write is never answered is late by ten seconds at the most: this, and the pass after it."""

__all__ = ["APPLY_TYPE", "PAGE_SIZE", "Client", "ObjectList", "PatchType", "WriteGuard", "selector_query"]


class Client:
    """
    Calls one API server as one identity.

    Every method raises the errors of `ktrain.framework.errors` (an `ApiError` for refusals, `TransportError` if no
    answer came, `ClientBusy` if no turn came, `DecodeError` if the answer cannot be read) and is safe to cancel; a
    cancelled write may have happened. A name or namespace that is missing, or can be none, is a ValueError before
    anything is sent.

    Args:
        transport: Where bytes go.
        env: Time and randomness, for retries.
        field_manager: The name that owns the fields this client writes; also sent with plain updates.
        timeout_s: For one attempt of one call; also the longest wait for a turn before it.
        retry_budget_s: How long after its first attempt a call may begin another one.
        max_in_flight: Calls at once, watches not counted; None for a leader election, which must never wait.
        guard: Fencing (see `ktrain.framework.election`); an attempt is cut short when the guard's time is over.
        metrics: Counts attempts, by code and method.
        detailed_metrics: Also durations and sizes, by method.
        tracing: A span for each call.
        cluster: Tells several API servers apart: in metrics, and which cache has to show the writes of which client.
    """

    def __init__(
        self,
        transport: Transport,
        env: Env,
        *,
        field_manager: str,
        timeout_s: float = ATTEMPT_TIMEOUT_S,
        retry_budget_s: float = 2.5,
        max_in_flight: int | None = MAX_IN_FLIGHT,
        guard: WriteGuard | None = None,
        metrics: Metrics | None = None,
        detailed_metrics: bool = False,
        tracing: Tracing | None = None,
        cluster: str = "",
    ) -> None:
        self.transport = transport
        self.cluster = cluster
        self.env = env
        self.timeout_s = timeout_s
        self._options = WriteOptions(field_manager=field_manager)
        self._namespace = ""
        self._sender = Sender(
            transport,
            env,
            timeout_s=timeout_s,
            retry_budget_s=retry_budget_s,
            max_in_flight=max_in_flight,
            guard=guard,
            metrics=metrics or Metrics(),
            detailed_metrics=detailed_metrics,
            tracing=tracing or Tracing(),
        )

    @property
    def field_manager(self) -> str:
        """The name that owns the fields this client writes."""
        return self._options.get("field_manager") or ""

    def with_options(self, *, namespace: str = "", **options: Unpack[WriteOptions]) -> Client:
        """
        Return a client with other options for all its writes, or for one namespace only, over the same connections.

        With a namespace, calls about namespaced kinds go there; one that names another raises ValueError.
        """
        other = copy.copy(self)
        other._options = override(self._options, options)  # noqa: SLF001 - it is this class
        other._namespace = namespace or self._namespace  # noqa: SLF001 - as above
        return other

    # Reading

    async def get(self, resource: Resource[T], name: str, namespace: str = "", *, subresource: str = "") -> T:
        """Read one object from the API server; NotFound if there is none. Controllers read their informers instead."""
        path = self._path_of_one(resource, Key(namespace, name), subresource)
        response = await self.raw("GET", path, headers=accept_header(resource))
        return codec_for(resource).decode(response.body)

    async def list(
        self, resource: Resource[T], namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList[T]:
        """
        Read all objects in pages of 500; without a namespace, of all namespaces.

        When a later page has expired meanwhile, everything is read again at once.
        """
        path = self._path(resource, namespace)
        return await read_list(self._sender, resource, path, selectors=selector_query(label_selector, field_selector))

    def pages(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = PAGE_SIZE,
    ) -> AsyncGenerator[ObjectList[T], None]:
        """
        Read all objects with the memory of one page. All pages are of one moment.

            async for page in client.pages(PODS): ...

        Raises:
            Gone: The caller took so long (minutes) that the next page has expired. What was read so far was consistent.
        """
        path = self._path(resource, namespace)
        selectors = selector_query(label_selector, field_selector)
        return read_pages(self._sender, resource, path, selectors=selectors, page_size=page_size)

    def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        bookmarks: bool = False,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """
        Follow what happens after a version, for ever, also across broken connections and a server that is busy.

        Without a version it begins with everything there is, as ADDED. Leave it under `contextlib.aclosing`, so that
        the connection is closed at once:

            async with aclosing(client.watch(PODS, resource_version=pods.resource_version)) as events:
                async for event in events: ...

        Raises:
            Gone: The version is too old; list again.
            ApiError: The server refused for another reason.
            DecodeError: An object does not fit the type.
        """
        path = self._path(resource, namespace)
        selectors = selector_query(label_selector, field_selector)
        return follow(
            self._sender,
            resource,
            path,
            selectors=selectors,
            resource_version=resource_version,
            bookmarks=bookmarks,
        )

    # Writing

    async def create(
        self, resource: Resource[T], body: Json | Model, *, subresource: str = "", **options: Unpack[WriteOptions]
    ) -> T:
        """
        Create an object in `body.metadata.namespace`; with a subresource, POST to that of `body.metadata.name`.

        Raises:
            AlreadyExists: There is one of that name.
        """
        key = key_in(body := document(resource, body))
        path = self._path_of_one(resource, key, subresource) if subresource else self._path_of_new(resource, key)
        return await self._write("POST", path, resource, body, JSON_TYPE, options)

    async def update(
        self, resource: Resource[T], body: Json | Model, *, subresource: str = "", **options: Unpack[WriteOptions]
    ) -> T:
        """Replace an object; Conflict if it has changed since its `metadata.resourceVersion`, when that is given."""
        path = self._path_of_one(resource, key_in(body := document(resource, body)), subresource)
        return await self._write("PUT", path, resource, body, JSON_TYPE, options)

    async def apply(
        self,
        resource: Resource[T],
        body: Json | Model,
        *,
        force: bool = True,
        subresource: str = "",
        **options: Unpack[WriteOptions],
    ) -> T:
        """
        Server-side apply: this manager owns exactly the fields in `body`.

        Raises:
            ApplyConflict: Not forced, and another manager owns a field with another value.
        """
        path = self._path_of_one(resource, key_in(body := document(resource, body)), subresource)
        query = [("force", "true")] if force else []
        return await self._write("PATCH", path, resource, body, APPLY_TYPE, options, query)

    async def patch(
        self,
        resource: Resource[T],
        key: Key,
        patch: Json | Sequence[Json],
        *,
        type: PatchType = PatchType.MERGE,  # noqa: A002 - the API's own word
        subresource: str = "",
        **options: Unpack[WriteOptions],
    ) -> T:
        """
        Patch an object. A list of operations needs `PatchType.JSON`; only built-in kinds take STRATEGIC.

        Raises:
            Conflict: A merge patch has a `metadata.resourceVersion`, which is not that of the object any more.
            Invalid: A `test` of a JSON patch fails, or the outcome breaks a rule.
        """
        path = self._path_of_one(resource, key, subresource)
        return await self._write("PATCH", path, resource, patch, type.value, options)

    async def delete(
        self,
        resource: Resource[T],
        key: Key,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        **options: Unpack[DeleteOptions],
    ) -> None:
        """
        Delete an object; with `uid` or `resource_version`, only if it is still that one (Conflict if not).

        An object with finalizers, and a pod with a grace period, is only marked. Raises NotFound if there is none.
        """
        path = self._path_of_one(resource, key)
        dry_run = options.setdefault("dry_run", self._options.get("dry_run", False))
        response = await self.raw("DELETE", path, body=delete_body(options, uid=uid, resource_version=resource_version))
        if not dry_run:
            forced = options.get("grace_period_s") == 0
            note_deletion(
                resource, self._placed(resource, key), uid or "", response.body, forced=forced, cluster=self.cluster
            )

    async def delete_collection(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        **options: Unpack[DeleteOptions],
    ) -> None:
        """
        Delete all objects that the selectors match. The server does it one by one; an error leaves the rest.

        The next pass of a reconciler does not wait until its cache shows this: nobody says which objects it were.
        """
        options.setdefault("dry_run", self._options.get("dry_run", False))
        await self.raw(
            "DELETE",
            self._path(resource, namespace),
            query=selector_query(label_selector, field_selector),
            body=delete_body(options),
        )

    def typed(self, api: Callable[[ApiClient], A]) -> A:
        """Return an API of `kubernetes_asyncio.client`, such as `CoreV1Api`, over this client: see `generated`."""
        return api(generated(self))

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

        Anything but GET is a write to the guard. `timeout_s` is per attempt. The client's options do not apply.
        """
        data = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        sent = {"Accept": JSON_TYPE, **({"Content-Type": JSON_TYPE} if data is not None else {}), **(headers or {})}
        return await self._sender.send(method, path, query=query, headers=sent, body=data, timeout_s=timeout_s)

    def stream(
        self, path: str, *, query: Query = (), headers: Mapping[str, str] | None = None, idle_timeout_s: float = 75.0
    ) -> AbstractAsyncContextManager[Stream]:
        """
        Open a GET that answers line by line: a watch, or a log that is followed.

        Raises:
            ApiError: The server refused.
            TransportError: No connection, it broke, or no byte came for `idle_timeout_s` seconds.
        """
        sent = {"Accept": JSON_TYPE, **(headers or {})}
        return self._sender.open(path, query=query, headers=sent, idle_timeout_s=idle_timeout_s)

    async def _write(
        self,
        method: str,
        path: str,
        resource: Resource[T],
        body: Json | Sequence[Json],
        content_type: str,
        options: WriteOptions,
        query: Query = (),
    ) -> T:
        options = override(self._options, options)
        headers = {"Content-Type": content_type}
        response = await self.raw(method, path, query=[*write_query(options), *query], body=body, headers=headers)
        written = codec_for(resource).decode(response.body)
        if not options.get("dry_run"):
            note_write(resource, written, cluster=self.cluster)
        return written

    def _path(self, resource: Resource[T], namespace: str) -> str:
        return resource.path(self._placed(resource, Key(namespace, "")).namespace)

    def _path_of_new(self, resource: Resource[T], key: Key) -> str:
        return resource.path(_one_namespace(resource, self._placed(resource, key)))

    def _path_of_one(self, resource: Resource[T], key: Key, subresource: str = "") -> str:
        key = self._placed(resource, key)
        if not _is_segment(key.name):
            # Without a name it would be the path of all objects; DELETE would delete them all.
            raise ValueError(f"{key.name!r} cannot be the name of a {resource.kind}")
        return resource.path(_one_namespace(resource, key), key.name, subresource)

    def _placed(self, resource: Resource[T], key: Key) -> Key:
        """Put a key into the namespace this client is for."""
        if not self._namespace or not resource.namespaced:
            return key
        if key.namespace not in {"", self._namespace}:
            raise ValueError(f"{resource.kind} {key}: this client is for the namespace {self._namespace} only")
        return Key(self._namespace, key.name)


def _one_namespace(resource: Resource[Any], key: Key) -> str:
    if resource.namespaced and not _is_segment(key.namespace):
        what = "needs a namespace" if not key.namespace else f"cannot be in a namespace {key.namespace!r}"
        raise ValueError(" ".join(filter(None, (resource.kind, key.name, what))))
    return key.namespace


def _is_segment(name: str) -> bool:
    """Whether it is one part of a path once it is quoted, which dots survive: names may come from anybody's objects."""
    return name not in {"", ".", ".."}
