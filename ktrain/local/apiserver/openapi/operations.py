"""
What can be done at which URL: the `paths` of a document.

Paths carry what clients look for: the kind of each operation, and that writes take `fieldValidation`. Operations are
named as upstream names them (`listCoreV1NamespacedPod`), because generators of clients make function names of that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver.documents.discovery import SUBRESOURCE_KINDS

from .schemas import group_version_kind, kind_name, option_reference, reference, subresource_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.registry import ServedResource


def _query(names: str, kind: str) -> dict[str, Json]:
    return {name: {"name": name, "in": "query", "schema": {"type": kind}} for name in names.split()}


_QUERY: Final = {
    **_query(
        "continue dryRun fieldManager fieldSelector fieldValidation labelSelector propagationPolicy resourceVersion"
        " resourceVersionMatch pretty container",
        "string",
    ),
    **_query(
        "allowWatchBookmarks force orphanDependents sendInitialEvents watch follow previous timestamps", "boolean"
    ),
    **_query("gracePeriodSeconds limit timeoutSeconds limitBytes sinceSeconds tailLines", "integer"),
}
_LISTING: Final = "continue fieldSelector labelSelector limit resourceVersion resourceVersionMatch timeoutSeconds"
_LIST: Final = f"allowWatchBookmarks {_LISTING} sendInitialEvents watch"
_WRITE: Final = "dryRun fieldManager fieldValidation"
_DELETE: Final = "dryRun gracePeriodSeconds orphanDependents propagationPolicy"
_LOG: Final = "container follow limitBytes previous sinceSeconds tailLines timestamps"
_MERGES: Final = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_TYPES: Final = ("application/json", "application/yaml")
_ACTIONS: Final = {"create": "post", "update": "put"}
# verb: method, first word of the operation's name, codes, parameters
_VERBS: Final = {
    "list": ("get", "list", (200,), _LIST),
    "create": ("post", "create", (200, 201, 202), _WRITE),
    "deletecollection": ("delete", "delete", (200,), f"{_LISTING} {_DELETE}"),
    "get": ("get", "read", (200,), ""),
    "update": ("put", "replace", (200, 201), _WRITE),
    "delete": ("delete", "delete", (200, 202), _DELETE),
    "patch": ("patch", "patch", (200, 201), f"{_WRITE} force"),
}
_OF_COLLECTION: Final = ("list", "create", "deletecollection")
_OF_OBJECT: Final = ("get", "update", "delete", "patch")
_PHRASES: Final = {200: "OK", 201: "Created", 202: "Accepted"}


def paths(resource: ServedResource) -> Json:
    """Return the paths of one resource and of its subresources."""
    prefix = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.api_version}"
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{prefix}{scope}/{resource.plural}"
    one = collection + "/{name}"
    found = {
        collection: _path(resource, collection, _served(resource.verbs, _OF_COLLECTION)),
        one: _path(resource, one, _served(resource.verbs, _OF_OBJECT)),
    }
    if resource.namespaced and "list" in resource.verbs:
        everywhere = f"{prefix}/{resource.plural}"
        found[everywhere] = _path(resource, everywhere, ["list"])
    for name, verbs in _subresources(resource).items():
        found[f"{one}/{name}"] = _path(resource, f"{one}/{name}", _served(verbs, _VERBS), subresource=name)
    return {path: operations for path, operations in found.items() if len(operations) > 1}


def _served(verbs: Iterable[str], among: Iterable[str]) -> list[str]:
    given = set(verbs)
    return [verb for verb in among if verb in given]


def _subresources(resource: ServedResource) -> dict[str, tuple[str, ...]]:
    shown = ("get", "update", "patch")
    found = dict(resource.subresources)
    if resource.has_status:
        found["status"] = shown
    if resource.scale is not None:
        found["scale"] = shown
    return found


def _path(resource: ServedResource, path: str, verbs: list[str], *, subresource: str = "") -> Json:
    found: Json = {}
    for verb in verbs:
        method = _VERBS[verb][0]
        found[method] = _operation(resource, path, verb, subresource)
    placed = [_in_path(name) for name in re.findall(r"\{(\w+)\}", path)]
    return {**found, "parameters": [*placed, _QUERY["pretty"]]}


def _in_path(name: str) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _operation(resource: ServedResource, path: str, verb: str, subresource: str) -> Json:
    _method, _word, codes, names = _VERBS[verb]
    kind, schema = _kind(resource, verb, subresource)
    connects = _connects(subresource)
    parameters = [_QUERY[name] for name in (_LOG if subresource == "log" else names).split()]
    if subresource == "log":
        schema = {"type": "string"}
    types = ("text/plain",) if subresource == "log" else ("*/*",) if connects else _TYPES
    content = {"schema": schema}
    responses = {str(code): {"description": _PHRASES[code], "content": dict.fromkeys(types, content)} for code in codes}
    operation: Json = {
        "tags": [f"{_camel(resource.group, lower=True)}_{resource.version}"],
        "operationId": _operation_id(resource, path, verb, subresource),
        "parameters": parameters,
        "responses": {**responses, "401": {"description": "Unauthorized"}},
        "x-kubernetes-action": "connect" if connects else _ACTIONS.get(verb, verb),
        "x-kubernetes-group-version-kind": kind,
    }
    if not connects and (body := _body(resource, verb, schema)):
        operation["requestBody"] = body
    return operation


def _body(resource: ServedResource, verb: str, schema: Json) -> Json | None:
    if verb in ("create", "update"):
        return {"content": {"*/*": {"schema": schema}}, "required": True}
    if verb in ("delete", "deletecollection"):
        return {"content": {"*/*": {"schema": option_reference("DeleteOptions")}}}
    if verb != "patch":
        return None
    types = _MERGES if resource.custom else (*_MERGES, _STRATEGIC)
    return {"content": {media: {"schema": option_reference("Patch")} for media in types}, "required": True}


def _kind(resource: ServedResource, verb: str, subresource: str) -> tuple[Json, Json]:
    """Return the kind that an operation is about, and a reference to the schema of its answer."""
    if other := SUBRESOURCE_KINDS.get(subresource):
        group, version, name = other
        kind = {"group": group, "version": version, "kind": name}
        return kind, subresource_schema(subresource) or {"type": "string"}
    kind = group_version_kind(resource, resource.kind)
    if verb in ("delete", "deletecollection") and not resource.strategy.answers_deleted_object:
        return kind, option_reference("Status")
    name = kind_name(resource)
    return kind, reference(f"{name}List" if verb == "list" else name)


def _connects(subresource: str) -> bool:
    """Whether it is a stream (exec, attach, portforward), which no body describes."""
    return subresource in SUBRESOURCE_KINDS and subresource_schema(subresource) is None


def _operation_id(resource: ServedResource, path: str, verb: str, subresource: str) -> str:
    everywhere = resource.namespaced and "{namespace}" not in path
    connects = _connects(subresource)
    parts = [
        "connect" if connects else _VERBS[verb][1],
        _camel(resource.group),
        _upper(resource.version),
        _upper(_VERBS[verb][0]) if connects else "",
        "Collection" if verb == "deletecollection" else "",
        "Namespaced" if resource.namespaced and not everywhere else "",
        resource.kind,
        "ForAllNamespaces" if everywhere else "",
        _upper(subresource),
    ]
    return "".join(parts)


def _camel(group: str, *, lower: bool = False) -> str:
    """Return `rbac.authorization.k8s.io` as `RbacAuthorization`; custom groups keep their whole domain."""
    words = re.split(r"[.-]", group.removesuffix(".k8s.io") or "core")
    joined = "".join(_upper(word) for word in words)
    return joined[0].lower() + joined[1:] if lower else joined


def _upper(word: str) -> str:
    return word[:1].upper() + word[1:]
