"""
OpenAPI v3 documents: what `kubectl explain`, `apply`, `patch` and other clients read of the schemas.

One document for each group and version, at a URL that holds its hash, so that clients can keep it for ever. Paths carry
what clients look for: the kind of each operation, and that writes take `fieldValidation`. Strategic merge patch is not
listed among the patch types on purpose: kubectl then uses the merge keys that it was built with.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ktrain.api.schema import builtin_kinds, definitions
from ktrain.local.apiserver.errors import PageNotFound
from ktrain.local.apiserver.requests import JSON_TYPE, Answer, Parameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.registry import ServedResource
    from ktrain.local.apiserver.requests import Request

_PREFIXES: Final = {
    "meta.": "io.k8s.apimachinery.pkg.apis.",
    "api.resource.": "io.k8s.apimachinery.pkg.",
    "util.": "io.k8s.apimachinery.pkg.",
    "apiextensions.": "io.k8s.apiextensions-apiserver.pkg.apis.",
}
_BUILTIN_PREFIX: Final = "io.k8s.api."
_OBJECT_META: Final = "meta.v1.ObjectMeta"
_PARAMETERS: Final = tuple(
    {"name": name, "in": "query", "schema": {"type": kind}}
    for name, kind in (("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"))
)
_FORCE: Final = {"name": "force", "in": "query", "schema": {"type": "boolean"}}


def answer(resources: Iterable[ServedResource], request: Request, group_version: list[str]) -> Answer:
    """
    Answer a request for `/openapi/v3`, or for the document of a group and version (`["apis", G, V]` or `["api", V]`).

    Raises:
        PageNotFound: There is no such group and version.
    """
    by_path = _by_path(resources)
    if not group_version:
        paths = {path: {"serverRelativeURL": _url(path, found)} for path, found in by_path.items()}
        return Answer(200, _encode({"paths": paths}))
    path = "/".join(group_version)
    found = by_path.get(path)
    if found is None:
        raise PageNotFound
    parameters = Parameters(request.query)
    if "hash" not in parameters:
        return Answer(200, _encode(document(found)))
    current = _hash(found)
    if parameters.text("hash") != current:
        return Answer(301, b"", (("location", _url(path, found)),))
    headers = (("content-type", JSON_TYPE), ("cache-control", "public, immutable"), ("etag", f'"{current}"'))
    return Answer(200, _encode(document(found)), headers)


def document(resources: list[ServedResource]) -> Json:
    """Return the OpenAPI document of the resources of one group and version."""
    paths: Json = {}
    schemas: Json = {}
    for resource in resources:
        paths |= _paths(resource)
        name, schema = _schema(resource)
        schemas[name] = schema
        _add_referenced(schema, schemas)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _by_path(resources: Iterable[ServedResource]) -> dict[str, list[ServedResource]]:
    found: dict[str, list[ServedResource]] = {}
    for resource in resources:
        prefix = "apis" if resource.group else "api"
        found.setdefault(f"{prefix}/{resource.api_version}", []).append(resource)
    return found


def _url(path: str, resources: list[ServedResource]) -> str:
    return f"/openapi/v3/{path}?hash={_hash(resources)}"


def _hash(resources: list[ServedResource]) -> str:
    """Return a hash of all that the document is made of. Built-in schemas do not change while the server runs."""
    digest = hashlib.sha256()
    for resource in resources:
        shape = [resource.api_version, resource.kind, resource.plural, resource.namespaced, resource.json_schema]
        digest.update(msgspec.json.encode([*shape, sorted(resource.subresources), resource.has_status]))
    return digest.hexdigest().upper()


# --- paths ------------------------------------------------------------------------------------------------------------


def _paths(resource: ServedResource) -> Json:
    prefix = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.api_version}"
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{prefix}{scope}/{resource.plural}"
    one = collection + "/{name}"
    verbs = set(resource.verbs)
    on_all = {"get": "list", "post": "create"}
    on_one = {"get": "get", "put": "update", "patch": "patch", "delete": "delete"}
    paths: Json = {
        collection: _operations(resource, {m: v for m, v in on_all.items() if v in verbs}),
        one: _operations(resource, {m: v for m, v in on_one.items() if v in verbs}),
    }
    if resource.has_status:
        paths[f"{one}/status"] = _operations(resource, {"get": "get", "put": "update", "patch": "patch"})
    return {path: operations for path, operations in paths.items() if operations}


def _operations(resource: ServedResource, verbs: Mapping[str, str]) -> Json:
    return {method: _operation(resource, method, verb) for method, verb in verbs.items()}


def _operation(resource: ServedResource, method: str, verb: str) -> Json:
    operation: Json = {
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": {"create": "post", "update": "put"}.get(verb, verb),
        "x-kubernetes-group-version-kind": _kind(resource),
    }
    if method in ("post", "put", "patch"):
        operation["parameters"] = [*_PARAMETERS, _FORCE] if method == "patch" else list(_PARAMETERS)
    return operation


def _kind(resource: ServedResource) -> Json:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


# --- schemas ----------------------------------------------------------------------------------------------------------


def _schema(resource: ServedResource) -> tuple[str, Json]:
    """Return the name and schema of a kind, with references to `#/components/schemas/...`."""
    if resource.json_schema is None:
        internal = builtin_kinds()[f"{resource.api_version}/{resource.kind}"].definition
        name, schema = _public_name(internal), _published(definitions()[internal])
    else:
        name = ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])
        properties = {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            **resource.json_schema.get("properties", {}),
            "metadata": {"allOf": [{"$ref": _reference(_OBJECT_META)}]},
        }
        schema = {**resource.json_schema, "properties": properties}
    return name, {**schema, "x-kubernetes-group-version-kind": [_kind(resource)]}


def _public_name(name: str) -> str:
    prefix = next((full for short, full in _PREFIXES.items() if name.startswith(short)), _BUILTIN_PREFIX)
    return prefix + name


@lru_cache(maxsize=1)
def _internal_names() -> dict[str, str]:
    return {_public_name(name): name for name in definitions()}


def _reference(name: str) -> str:
    return f"#/components/schemas/{_public_name(name)}"


def _published(schema: Any) -> Any:  # noqa: ANN401 - a JSON schema
    """Return a built-in schema with references as OpenAPI has them: alone, or in an allOf beside other keywords."""
    if isinstance(schema, list):
        return [_published(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(target := schema.get("$ref"), str):
        rest = {key: _published(value) for key, value in schema.items() if key != "$ref"}
        reference = {"$ref": _reference(target)}
        return {"allOf": [reference], **rest} if rest else reference
    return {key: _published(value) for key, value in schema.items()}


def _add_referenced(schema: Any, schemas: Json) -> None:  # noqa: ANN401 - a JSON schema
    """Add all built-in schemas that a schema refers to, and those that they refer to."""
    if isinstance(schema, list):
        for item in schema:
            _add_referenced(item, schemas)
    elif isinstance(schema, dict):
        target = schema.get("$ref")
        if isinstance(target, str) and (name := target.rpartition("/")[2]) not in schemas:
            schemas[name] = _published(definitions()[_internal_names()[name]])
            _add_referenced(schemas[name], schemas)
        for value in schema.values():
            _add_referenced(value, schemas)


def _encode(value: Json) -> bytes:
    return msgspec.json.encode(value) + b"\n"
