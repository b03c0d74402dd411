"""A fresh server for each test, and a client that shows whole answers."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from ktrain.api.meta import Resource
from ktrain.framework.env import Env, system_env
from ktrain.local.apiserver.server import ApiServer

from ...definitions import definition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ktrain.framework.client.transport import Transport

WIDGETS = Resource("ex.test", "v1", "Widget", "widgets", namespaced=True, type=dict)
WIDGET_SPEC = {
    "type": "object",
    "properties": {
        "mode": {"type": "string", "enum": ["A", "B"], "default": "A"},
        "image": {"type": "string"},
        "replicas": {"type": "integer", "minimum": 0, "default": 1},
    },
}


class Answer(NamedTuple):
    """An answer, decoded."""

    status: int
    body: Any
    warnings: str


class Api:
    """Requests in the words of the API; `namespace` is the one they go to."""

    MERGE = "application/merge-patch+json"
    APPLY = "application/apply-patch+yaml"

    def __init__(self, transport: Transport, namespace: str = "default") -> None:
        self.transport = transport
        self.namespace = namespace

    def path(self, plural: str, name: str = "", sub: str = "", api: str = "v1", *, cluster: bool = False) -> str:
        root = f"/apis/{api}" if "/" in api else f"/api/{api}"
        scope = "" if cluster else f"/namespaces/{self.namespace}"
        return "/".join([root + scope, plural, *filter(None, [name, sub])])

    async def send(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **query: str
    ) -> Answer:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        response = await self.transport.request(
            method, path, query=list(query.items()), headers={"Content-Type": content_type}, body=data
        )
        decoded = json.loads(response.body) if response.body.startswith(b"{") else response.body
        return Answer(response.status, decoded, response.headers.get("warning", ""))

    async def create(self, plural: str, body: Any, api: str = "v1", **query: str) -> Any:
        answer = await self.send("POST", self.path(plural, api=api), body, **query)
        assert answer.status == 201, answer
        return answer.body

    async def events(self, path: str, count: int, **query: str) -> list[Any]:
        """The first events of a watch."""
        async with self.watch(path, **query) as events:
            return [await anext(events) for _ in range(count)]

    @asynccontextmanager
    async def watch(self, path: str, **query: str) -> AsyncIterator[AsyncIterator[Any]]:
        parameters = [("watch", "true"), *query.items()]
        async with self.transport.stream(path, query=parameters, idle_timeout_s=5) as stream:

            async def decoded() -> AsyncIterator[Any]:
                async for line in stream.lines:
                    yield json.loads(line)

            yield decoded()

    async def gone(self, path: str) -> None:
        """Wait until the object is deleted, watching its collection."""
        collection, _, name = path.rpartition("/")
        listed = (await self.send("GET", collection)).body
        if name not in [item["metadata"]["name"] for item in listed["items"]]:
            return
        version = listed["metadata"]["resourceVersion"]
        async with self.watch(collection, resourceVersion=version) as events:
            async for event in events:
                if event["type"] == "DELETED" and event["object"]["metadata"]["name"] == name:
                    return

    # Bodies to send. They live here because conftest cannot be imported.

    @staticmethod
    def config_map(name: str, **metadata: Any) -> Any:
        return {"metadata": {"name": name, **metadata}, "data": {"k": "v"}}

    @staticmethod
    def owner(obj: Any, **more: Any) -> Any:
        meta = obj["metadata"]
        return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": meta["name"], "uid": meta["uid"], **more}

    @staticmethod
    def widget_crd(spec: Any = None, **version: Any) -> Any:
        schema = {"type": "object", "properties": {"spec": spec or WIDGET_SPEC, "status": {"type": "object"}}}
        schema["properties"]["status"]["x-kubernetes-preserve-unknown-fields"] = True
        return definition(WIDGETS, schema=schema, **{"subresources": {"status": {}}, **version})

    @staticmethod
    def widget(name: str, spec: Any = None, **metadata: Any) -> Any:
        body: Any = {"apiVersion": "ex.test/v1", "kind": "Widget", "metadata": {"name": name, **metadata}}
        return body if spec is None else {**body, "spec": spec}


@pytest.fixture
def env() -> Env:
    return system_env()


@pytest.fixture
async def server(env: Env) -> AsyncIterator[ApiServer]:
    server = ApiServer(env)
    async with server.running():
        yield server


@pytest.fixture
def api(server: ApiServer) -> Api:
    return Api(server.transport())
