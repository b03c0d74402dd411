"""
Discovery: which groups, versions and resources there are, for clients that map kinds to URLs.

Modern clients ask `/api` and `/apis` once for everything (aggregated discovery, KEP-3352); older ones walk the plain
documents. Both are answered from the registry, with an ETag, because clients ask often and little changes.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.local.apiserver import errors
from ktrain.local.apiserver.errors import PageNotFound
from ktrain.local.apiserver.forms.representation import negotiate, pretty_wanted
from ktrain.local.apiserver.requests import JSON_TYPE, Answer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.registry import ServedResource
    from ktrain.local.apiserver.requests import Request

AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_AGGREGATED_PARAMETERS: Final = {"g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"}
_STATUS_VERBS: Final = ("get", "patch", "update")
SUBRESOURCE_KINDS: Final = {
    "scale": ("autoscaling", "v1", "Scale"),
    "attach": ("", "v1", "PodAttachOptions"),
    "binding": ("", "v1", "Binding"),
    "exec": ("", "v1", "PodExecOptions"),
    "portforward": ("", "v1", "PodPortForwardOptions"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}
"""Kinds of subresources that do not have their parent's."""
_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STABILITY: Final = {None: 2, "beta": 1, "alpha": 0}


def answer(resources: Iterable[ServedResource], request: Request, segments: list[str]) -> Answer:
    """
    Answer a request for `/api`, `/apis`, or a group or version below them.

    Raises:
        PageNotFound: There is no such group.
        StatusError: There is no such version of a built-in group, or no form that the client accepts.
    """
    served = list(resources)
    if len(segments) == 1 and _asks_aggregated(request.headers.get("accept", "")):
        core = segments == ["api"]
        return _cacheable(request, aggregated([r for r in served if (r.group == "") is core]), AGGREGATED)
    document = _document(served, request, segments)
    fmt = negotiate(request.headers.get("accept", ""), pretty=pretty_wanted(request), forms=False)
    return Answer(200, fmt.encode(document), (("content-type", fmt.content_type), ("vary", "Accept")))


def _document(served: list[ServedResource], request: Request, segments: list[str]) -> Json:
    match segments:
        case ["api"]:
            return _core_versions(request.headers.get("host", ""))
        case ["apis"]:
            groups = [_group(found) for found in _by_group(served).values() if found[0].group]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["api", version]:
            return _resource_list(served, "", version)
        case ["apis", group, version] if group:
            return _resource_list(served, group, version)
        case ["apis", group] if found := [r for r in served if group and r.group == group]:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(found)}
    raise PageNotFound


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sort key of API versions, best last: GA before beta before alpha, then the higher number; others by name."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (-1, 0, 0, version)
    return (_STABILITY[match[2]], int(match[1]), int(match[3] or 0), version)


def aggregated(resources: Iterable[ServedResource]) -> Json:
    """Return the aggregated document (`apidiscovery.k8s.io/v2`) of these resources."""
    items = []
    for group, found in _by_group(resources).items():
        versions = [
            {
                "version": version,
                "resources": [_aggregated_resource(r) for r in _of_version(found, version)],
                "freshness": "Current",
            }
            for version in _versions(found)
        ]
        items.append({"metadata": {"name": group} if group else {}, "versions": versions})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_resource(resource: ServedResource) -> Json:
    entry: Json = {
        "resource": resource.plural,
        "responseKind": _kind(resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": _singular(resource),
        "verbs": sorted(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    subresources = [
        {"subresource": name, "responseKind": _kind(*_subresource_kind(resource, name)), "verbs": list(verbs)}
        for name, verbs in _subresources(resource)
    ]
    if subresources:
        entry["subresources"] = subresources
    return entry


def _resource_list(served: list[ServedResource], group: str, version: str) -> Json:
    found = [r for r in served if (r.group, r.version) == (group, version)]
    if not found:
        raise errors.resource_not_found() if errors.is_built_in(served, group) else PageNotFound
    entries: list[Json] = []
    for resource in sorted(found, key=lambda r: r.plural):
        entries.append(_plain_resource(resource))
        entries.extend(_plain_subresource(resource, name, verbs) for name, verbs in _subresources(resource))
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries}


def _plain_resource(resource: ServedResource) -> Json:
    entry: Json = {
        "name": resource.plural,
        "singularName": _singular(resource),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": sorted(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    stored_as = f"{resource.group}/{resource.storage_version or resource.version}/{resource.kind}"
    entry["storageVersionHash"] = base64.b64encode(hashlib.sha256(stored_as.encode()).digest()[:8]).decode()
    return entry


def _plain_subresource(resource: ServedResource, name: str, verbs: Iterable[str]) -> Json:
    group, version, kind = _subresource_kind(resource, name)
    entry: Json = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced}
    if (group, version) != (resource.group, resource.version):
        entry |= {"group": group, "version": version}
    return {**entry, "kind": kind, "verbs": list(verbs)}


def _subresources(resource: ServedResource) -> list[tuple[str, tuple[str, ...]]]:
    found = dict(resource.subresources)
    if resource.has_status:
        found["status"] = _STATUS_VERBS
    if resource.scale is not None:
        found["scale"] = _STATUS_VERBS
    return sorted(found.items())


def _subresource_kind(resource: ServedResource, name: str) -> tuple[str, str, str]:
    return SUBRESOURCE_KINDS.get(name, (resource.group, resource.version, resource.kind))


def _kind(group: str, version: str, kind: str) -> Json:
    return {"group": group, "version": version, "kind": kind}


def _singular(resource: ServedResource) -> str:
    return resource.singular or resource.kind.lower()


def _by_group(resources: Iterable[ServedResource]) -> dict[str, list[ServedResource]]:
    groups: dict[str, list[ServedResource]] = {}
    for resource in resources:
        groups.setdefault(resource.group, []).append(resource)
    return groups


def _versions(resources: Iterable[ServedResource]) -> list[str]:
    return sorted({r.version for r in resources}, key=version_rank, reverse=True)


def _of_version(resources: Iterable[ServedResource], version: str) -> list[ServedResource]:
    return sorted((r for r in resources if r.version == version), key=lambda r: r.plural)


def _group(resources: list[ServedResource]) -> Json:
    name = resources[0].group
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in _versions(resources)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _core_versions(host: str) -> Json:
    address = {"clientCIDR": "0.0.0.0/0", "serverAddress": host}
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}


def _asks_aggregated(accept: str) -> bool:
    for alternative in accept.split(","):
        media_type, *parameters = (part.strip() for part in alternative.split(";"))
        if media_type == JSON_TYPE and set(parameters) >= _AGGREGATED_PARAMETERS:
            return True
    return False


def _cacheable(request: Request, document: Json, content_type: str) -> Answer:
    body = msgspec.json.encode(document) + b"\n"
    etag = f'"{hashlib.sha256(body).hexdigest().upper()}"'
    headers = (("content-type", content_type), ("etag", etag), ("vary", "Accept"))
    if request.headers.get("if-none-match") == etag:
        return Answer(304, b"", headers)
    return Answer(200, body, headers)
