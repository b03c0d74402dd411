"""What befalls a server: writes of every kind, reads of every kind, and what must hold afterwards."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .generating import NAMES, TEXTS, from_schema, junk, mutated, named, ordinary

if TYPE_CHECKING:
    import random

    from ktrain.local.apiserver.registry import ServedResource
    from ktrain.local.apiserver.server import ApiServer

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
ACCEPTS = (
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/yaml",
    "text/html",
    "",
)
SELECTORS = ("l=x", "l!=x", "l in (x,y)", "!l", "l>1", "l", "l=,", "=x", "metadata.name=o1", "status.phase!=x", "a.b=c")
OWN_TEXT = "Internal error occurred: "
"""How the server's answer to a defect of its own begins; other 500s are a real server's, too."""


def resources_of(server: ApiServer) -> list[ServedResource]:
    """What a server serves now."""
    return list(server._backend.registry)


class Defect(AssertionError):
    """A request that the server could not answer."""


class Chaos:
    """One client that does anything, with a seed."""

    def __init__(self, server: ApiServer, rng: random.Random) -> None:
        self._server = server
        self._transport = server.transport()
        self._rng = rng
        self._ordinary = ordinary()

    async def object(self, resources: list[ServedResource]) -> None:
        """Make one object and let some things happen to it."""
        rng = self._rng
        base = rng.choice(self._ordinary)
        of_base = [one for one in resources if (one.api_version, one.kind) == (base["apiVersion"], base["kind"])]
        if of_base and rng.random() < 0.5:
            resource = of_base[0]
            obj = named(rng, mutated(rng, base), resource)
        else:
            resource = rng.choice(resources)
            obj = from_schema(rng, resource)
        if rng.random() < 0.3:
            obj = mutated(rng, obj)
        collection = self._collection(resource)
        await self._send("POST", collection, obj, self._options())
        for _ in range(rng.randrange(5)):
            await rng.choice((self._put, self._patch, self._patch, self._apply, self._apply, self._delete, self._read))(
                resource, collection, obj
            )

    def _collection(self, resource: ServedResource) -> str:
        root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
        return f"{root}/namespaces/default/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"

    def _path(self, resource: ServedResource, collection: str) -> str:
        subresources = [*resource.subresources, *(["status"] if resource.has_status else []), "scale", ""]
        sub = self._rng.choice(subresources) if self._rng.random() < 0.3 else ""
        return "/".join(filter(None, (f"{collection}/{self._rng.choice(NAMES)}", sub)))

    def _options(self) -> str:
        rng = self._rng
        found = [f"fieldManager={quote(rng.choice((*NAMES, *TEXTS)))}"]
        if rng.random() < 0.3:
            found.append(f"fieldValidation={rng.choice(('Strict', 'Warn', 'Ignore', 'x'))}")
        if rng.random() < 0.1:
            found.append("dryRun=All")
        return "&".join(found)

    async def _put(self, resource: ServedResource, collection: str, obj: Any) -> None:
        path = self._path(resource, collection)
        current = await self._send("GET", path, None, "")
        body = self._rng.choice((current, obj, from_schema(self._rng, resource)))
        await self._send("PUT", path, mutated(self._rng, body) if self._rng.random() < 0.7 else body, self._options())

    async def _patch(self, resource: ServedResource, collection: str, obj: Any) -> None:
        rng = self._rng
        kind = rng.choice((MERGE, STRATEGIC, JSON_PATCH))
        part = mutated(rng, from_schema(rng, resource) if rng.random() < 0.5 else obj)
        body: Any = part
        if kind == JSON_PATCH:
            operations = ("add", "replace", "remove", "test", "copy", "move", "x")
            paths = (
                "",
                "/spec",
                "/metadata/labels/l",
                "/metadata/name",
                "/data",
                "/spec/containers/0",
                "/a/-",
                "x",
                "/~2",
            )
            body = [
                {"op": rng.choice(operations), "path": rng.choice(paths), "from": rng.choice(paths), "value": junk(rng)}
                for _ in range(rng.randrange(4))
            ]
        elif isinstance(part, dict) and rng.random() < 0.7:
            body = {name: child for name, child in part.items() if name not in ("metadata", "kind", "apiVersion")}
        await self._send("PATCH", self._path(resource, collection), body, self._options(), kind)

    async def _apply(self, resource: ServedResource, collection: str, obj: Any) -> None:
        rng = self._rng
        path = self._path(resource, collection)
        body = mutated(rng, obj) if rng.random() < 0.6 else from_schema(rng, resource)
        if isinstance(body, dict):
            names = path.removeprefix(f"{collection}/").split("/")
            body = {**body, "kind": resource.kind, "apiVersion": resource.api_version, "metadata": {"name": names[0]}}
        query = f"fieldManager={rng.choice('ab')}&force={rng.choice(('true', 'false'))}"
        await self._send("PATCH", path, body, query, APPLY)

    async def _delete(self, resource: ServedResource, collection: str, _obj: Any) -> None:
        rng = self._rng
        options = {
            "gracePeriodSeconds": rng.choice((0, 1, -1, None, "x")),
            "propagationPolicy": rng.choice(("Foreground", "Background", "Orphan", "x", None)),
            "preconditions": rng.choice((None, {"uid": "x"}, {"resourceVersion": "1"}, {})),
        }
        where = collection if rng.random() < 0.05 else self._path(resource, collection)
        await self._send("DELETE", where, options if rng.random() < 0.5 else None, "")

    async def _read(self, resource: ServedResource, collection: str, _obj: Any) -> None:
        rng = self._rng
        query = {
            "labelSelector": rng.choice((*SELECTORS, "")),
            "fieldSelector": rng.choice((*SELECTORS, "")),
            "limit": rng.choice(("", "1", "2", "-1", "x")),
            "resourceVersion": rng.choice(("", "", "0", "1", str(self._server.store.revision), "x")),
            "resourceVersionMatch": rng.choice(("", "", "", "Exact", "NotOlderThan", "x")),
            "continue": rng.choice(("", "", "", "x", "e30")),
            "pretty": rng.choice(("", "true")),
        }
        text = "&".join(f"{name}={quote(value)}" for name, value in query.items() if value and rng.random() < 0.4)
        where = collection if rng.random() < 0.7 else self._path(resource, collection)
        watch = rng.random() < 0.1
        await self._send("GET", where, None, f"{text}&watch=1" if watch else text, accept=rng.choice(ACCEPTS))

    async def _send(
        self, method: str, path: str, body: Any, query: str, media: str = "application/json", accept: str = ""
    ) -> Any:
        pairs = [(name, value) for name, _, value in (part.partition("=") for part in query.split("&")) if name]
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": media, "User-Agent": "chaos/1"} | ({"Accept": accept} if accept else {})
        if ("watch", "1") in pairs:
            async with self._transport.stream(path, query=pairs, headers=headers) as stream:
                status, text = stream.status, b""
        else:
            answer = await self._transport.request(method, path, query=pairs, headers=headers, body=data)
            status, text = answer.status, answer.body
        if status >= 500 and OWN_TEXT in text.decode("utf-8", "replace"):
            raise Defect(f"{method} {path}?{query} ({media}, {accept})\n{data!r}\n{text.decode()}")
        return json.loads(text) if text.startswith(b"{") and not accept else {}


async def check(server: ApiServer) -> int:
    """
    Hold the store against what must always be so; returns how many objects there are.

    What is stored can be read, is what its JSON says, and a client that puts back what it got changes nothing.
    """
    transport = server.transport()
    count = 0
    for name, collection in server.store.collections.items():
        entries = list(collection.entries())
        assert [key for key, _ in entries] == sorted(key for key, _ in entries), name
        for key, item in entries:
            count += 1
            meta = item.obj["metadata"]
            assert (meta.get("namespace", ""), meta["name"]) == (key.namespace, key.name)
            assert int(meta["resourceVersion"]) == item.revision <= server.store.revision
            rest = {field: value for field, value in item.obj.items() if field not in ("kind", "apiVersion")}
            assert json.loads(item.body) == rest, f"{name} {key}: its JSON is of another object"
    for resource in resources_of(server):
        # An Event of the older API need not be valid in the newer one.
        if not {"list", "update"} <= set(resource.verbs) or resource.group == "events.k8s.io":
            continue
        root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
        listed = await transport.request("GET", f"{root}/{resource.plural}")
        assert listed.status == 200, (resource, listed)
        for shown in json.loads(listed.body)["items"]:
            meta = shown["metadata"]
            scope = f"/namespaces/{meta['namespace']}" if resource.namespaced else ""
            path = f"{root}{scope}/{resource.plural}/{meta['name']}"
            whole = await transport.request("GET", path)
            put = await transport.request("PUT", path, headers={"Content-Type": "application/json"}, body=whole.body)
            version = json.loads(whole.body)["metadata"]["resourceVersion"]
            assert put.status == 200, f"{path}: what was read cannot be put back: {whole.body!r}\n{put.body!r}"
            assert json.loads(put.body)["metadata"]["resourceVersion"] == version, f"{path}: putting it back changed it"
    return count
