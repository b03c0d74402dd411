"""
The generated API of kubernetes_asyncio over our client: every kind of Kubernetes typed, for code that has it already.

    from kubernetes_asyncio.client import AppsV1Api

    apps = AppsV1Api(generated(client))
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
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import unquote

import msgspec

from ktrain.api.meta import Object, Resource
from ktrain.framework.errors import ApiError, ConfigError

from .codec import UNFIT
from .recording import note_write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kubernetes_asyncio.client import ApiClient

    from .client import Client
    from .transport import Response

_WRITTEN: Final = msgspec.json.Decoder(Object)
_WRITES: Final = ("POST", "PUT", "PATCH")


def generated(client: Client) -> ApiClient:
    """
    Return an `ApiClient` for the classes of `kubernetes_asyncio.client`. It needs no closing.

    Its calls raise kubernetes_asyncio's `ApiException` for refusals, and ours where no answer came
    (`TransportError`, `ClientBusy`, `LeadershipLost`). `_request_timeout` in seconds is per attempt. Streams
    (`_preload_content=False`, `watch.Watch`) are refused: `Client.watch` and `read_log` are for those.
    """
    # Imported here: see above. The classes below are made once per call for the same reason.
    from kubernetes_asyncio.client import ApiClient, ApiException, Configuration

    class Rest:
        """What the generated code takes for its connections."""

        async def request(
            self,
            method: str,
            url: str,
            query_params: Sequence[tuple[str, str]] | None = None,
            headers: Mapping[str, str] | None = None,
            body: object = None,
            post_params: object = None,  # noqa: ARG002 - of forms, which Kubernetes has none of
            _preload_content: bool = True,  # noqa: FBT001, FBT002 - its signature
            _request_timeout: float | None = None,
        ) -> Answer:
            if not _preload_content:
                raise ConfigError("the generated client cannot stream: use Client.watch, or read_log")
            query = list(query_params or ())
            names = {name for name, _ in query}
            if method in _WRITES and "fieldManager" not in names:
                query.append(("fieldManager", client.field_manager))
            try:
                response = await client.raw(
                    method,
                    url,
                    query=query,
                    headers=dict(headers or {}),
                    body=None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode(),
                    timeout_s=_request_timeout,
                )
            except ApiError as error:
                raise ApiException(http_resp=cast("Any", _refusal(error))) from error
            if method in _WRITES and "dryRun" not in names:
                _note(url, response.body, client.cluster)
            return _answer(response)

        async def close(self) -> None:
            """Nothing is open."""

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - GET, POST, ... as the generated code calls them
            if name not in {"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"}:
                raise AttributeError(name)
            return lambda url, **arguments: self.request(name, url, **arguments)

    class OverClient(ApiClient):
        def __init__(self) -> None:
            configuration = Configuration()
            configuration.host = ""
            # Not its own constructor: that would open a session with pools and TLS settings that nobody uses.
            self.__dict__.update(
                configuration=configuration,
                rest_client=Rest(),
                default_headers={},
                cookie=None,
                pool_threads=1,
                client_side_validation=False,
            )

    return OverClient()


class Answer:
    """An answer as the generated code reads it. `data` is bytes, until that has decoded it."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str], data: Any) -> None:  # noqa: ANN401
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


def _answer(response: Response) -> Answer:
    return Answer(response.status, "", response.headers, response.body)


def _refusal(error: ApiError) -> Answer:
    body = msgspec.json.encode({"kind": "Status", "apiVersion": "v1", **msgspec.to_builtins(error.status)})
    return Answer(error.code, error.reason, {"content-type": "application/json"}, body)


class _Place(NamedTuple):
    group: str
    version: str
    plural: str


def _note(path: str, body: bytes, cluster: str) -> None:
    """Note what a write stored, if the answer is about an object of the path's own kind."""
    place = _place(path)
    if place is None:
        return
    try:
        written = _WRITTEN.decode(body)
    except UNFIT:
        return
    resource = Resource(place.group, place.version, written.kind, place.plural, namespaced=True, type=Object)
    note_write(resource, written, cluster=cluster)


def _place(path: str) -> _Place | None:
    parts = [unquote(part) for part in path.strip("/").split("/")]
    head = {"api": 2, "apis": 3}.get(parts[0], 0)
    if not head or len(parts) <= head:
        return None
    rest = parts[head:]
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in {"status", "finalize"}:
        rest = rest[2:]
    if len(rest) > 2 and rest[2] != "status":
        return None  # of a subresource that answers with another kind
    return _Place(parts[1] if head == 3 else "", parts[head - 1], rest[0])
