"""
The generated API of kubernetes_asyncio over our client: every kind of Kubernetes typed, for code that has it already.

    from kubernetes_asyncio.client import AppsV1Api

    apps = client.typed(AppsV1Api)
    deployment = await apps.read_namespaced_deployment("web", "shop")

Its models cost fifty times what a narrow Struct does (and the import 0.3 s and 60 MB, paid by who calls this), so
controllers read their caches; this is for the one call to a kind that nobody wants to write down.

Requests take the way of `Client.raw`, so they have what that has: credentials that renew themselves, time-outs,
retries, turns, metrics, spans, and the guard of a leader election. Writes are noted, so the next pass over the key
waits for them. What the package does by itself it does not do here: no session of its own, no second set of time-outs,
and no silence about an answer that is a refusal.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from ktrain.api.meta import Key, Object, Resource
from ktrain.api.routes import resource_route, split
from ktrain.framework.errors import ApiError, ConfigError

from .codec import UNFIT
from .recording import note_deletion, note_write

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from kubernetes_asyncio.client import ApiClient

    from .client import Client

_WRITTEN: Final = msgspec.json.Decoder(Object)
_OWNING: Final = ("POST", "PUT", "PATCH")
"""Methods that make somebody the owner of fields."""


def generated(client: Client) -> ApiClient:
    """
    Return an `ApiClient` for the classes of `kubernetes_asyncio.client`. It needs no closing.

    Its calls raise kubernetes_asyncio's `ApiException` for refusals, and ours where no answer came
    (`TransportError`, `ClientBusy`, `LeadershipLost`). `_request_timeout` in seconds is per attempt. Streams
    (`_preload_content=False`, `watch.Watch`) are refused: `Client.watch` and `read_log` are for those.
    """
    return _api_client(_Rest(client))


def offline() -> ApiClient:
    """Return an `ApiClient` that only serializes and deserializes."""
    return _api_client(None)


def _api_client(rest: _Rest | None) -> ApiClient:
    from kubernetes_asyncio.client import ApiClient, Configuration

    class OverClient(ApiClient):
        def __init__(self) -> None:
            configuration = Configuration()
            configuration.host = ""
            # The API server validates. What it stores is read also where the package's own rules are narrower.
            configuration.client_side_validation = False
            # Not its own constructor: that would open a session with pools and TLS settings that are never used.
            self.__dict__.update(
                configuration=configuration,
                rest_client=rest,
                default_headers={},
                cookie=None,
                pool_threads=1,
                client_side_validation=False,
            )

    return OverClient()


class _Rest:
    """What the generated code takes for its connections."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def request(
        self,
        method: str,
        url: str,
        query_params: Sequence[tuple[str, str]] | None = None,
        headers: Mapping[str, str] | None = None,
        body: object = None,
        post_params: object = None,  # of forms, which Kubernetes has none of
        _preload_content: bool = True,  # noqa: FBT001, FBT002 - its signature
        _request_timeout: float | None = None,
    ) -> Answer:
        from kubernetes_asyncio.client import ApiException

        if not _preload_content:
            raise ConfigError("the generated client cannot stream: use Client.watch, or read_log")
        query = list(query_params or ())
        if method in _OWNING and not any(name == "fieldManager" for name, _ in query):
            query.append(("fieldManager", self._client.field_manager))
        try:
            response = await self._client.raw(
                method,
                url,
                query=query,
                headers=dict(headers or {}),
                body=None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode(),
                timeout_s=_request_timeout,
            )
        except ApiError as error:
            raise ApiException(http_resp=cast("Any", _refusal(error))) from error
        if not any(name == "dryRun" for name, _ in query):
            _note(method, url, body, response.body, self._client.cluster)
        return Answer(response.status, "", response.headers, response.body)

    async def close(self) -> None:
        """Nothing is open."""

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Answer]]:
        """GET, POST, ... as the generated code calls them."""
        if name not in {"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"}:
            raise AttributeError(name)
        return lambda url, **arguments: self.request(name, url, **arguments)


class Answer:
    """An answer as the generated code reads it. `data` is bytes, until that has decoded it."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str], data: object) -> None:
        self.status = status
        self.reason = reason
        self.data = data
        self._headers = headers

    def getheaders(self) -> Mapping[str, str]:
        """All headers."""
        return self._headers

    def getheader(self, name: str, default: str | None = None) -> str | None:
        """One header."""
        return self._headers.get(name.lower(), default)


def _refusal(error: ApiError) -> Answer:
    body = msgspec.json.encode({"kind": "Status", "apiVersion": "v1", **msgspec.to_builtins(error.status)})
    return Answer(error.code, error.reason, {"content-type": "application/json"}, body)


def _note(method: str, path: str, sent: object, answer: bytes, cluster: str) -> None:
    """Note what a write did, if it was to one object and the answer is about it: a status is, a scale is not."""
    route = resource_route(split(path))
    if method == "GET" or route is None or route.subresource not in {"", "status"}:
        return
    resource = Resource(route.group, route.version, "", route.plural, namespaced=bool(route.namespace), type=Object)
    if method != "DELETE":
        # What has no readable version cannot be waited for; the caller has the answer in any case.
        with suppress(*UNFIT):
            note_write(resource, _WRITTEN.decode(answer), cluster=cluster)
    elif route.name:
        forced = isinstance(sent, dict) and sent.get("gracePeriodSeconds") == 0
        note_deletion(resource, Key(route.namespace, route.name), "", answer, forced=forced, cluster=cluster)
