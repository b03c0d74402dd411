"""
OpenAPI documents: what `kubectl explain`, `apply`, `patch` and other clients read of the schemas.

Version 3 has one document for each group and version, at a URL that holds its hash, so that clients can keep it for
ever; version 2, which older clients and generators read, is all of them in one, converted (`swagger.py`).

    schemas.py      kinds, their lists, and all that they refer to, as `components.schemas`
    operations.py   what can be done at which URL, as `paths`
    swagger.py      the same in OpenAPI v2
    protobuf.py     and that in the encoding in which kubectl reads it

Documents are made when they are asked for and not kept: a client asks once for each hash.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain import __version__
from ktrain.api.schema import kubernetes_version
from ktrain.local.apiserver.errors import PageNotFound, not_acceptable
from ktrain.local.apiserver.requests import JSON_TYPE, Answer, Parameters

from . import operations, protobuf, schemas, swagger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.registry import ServedResource
    from ktrain.local.apiserver.requests import Request

_TOKEN: Final[Json] = {
    "type": "apiKey",
    "description": "Bearer Token authentication",
    "name": "authorization",
    "in": "header",
}


def answer(resources: Iterable[ServedResource], request: Request, group_version: list[str]) -> Answer:
    """
    Answer a request for `/openapi/v3`, or for the document of a group and version (`["apis", G, V]` or `["api", V]`).

    Raises:
        PageNotFound: There is no such group and version.
        StatusError: 406: documents of version 3 are JSON alone.
    """
    by_path = _by_path(resources)
    if not group_version:
        paths = {path: {"serverRelativeURL": _url(path, found)} for path, found in by_path.items()}
        return Answer(200, _encode({"paths": paths}))
    path = "/".join(group_version)
    found = by_path.get(path)
    if found is None:
        raise PageNotFound
    _negotiate(request, (JSON_TYPE,))
    current = _hash(found)
    headers: tuple[tuple[str, str], ...]
    headers = (("content-type", JSON_TYPE), ("etag", f'"{current}"'), ("vary", "Accept"))
    parameters = Parameters(request.query)
    if "hash" in parameters:
        if parameters.text("hash") != current:
            return Answer(301, b"", (("location", _url(path, found)), *headers))
        headers = (*headers, ("cache-control", "public, immutable"))
    if request.headers.get("if-none-match") == f'"{current}"':
        return Answer(304, b"", headers)
    return Answer(200, _encode(document(found)), headers)


def answer_v2(resources: Iterable[ServedResource], request: Request) -> Answer:
    """
    Answer a request for `/openapi/v2`.

    Raises:
        StatusError: 406.
    """
    media = _negotiate(request, (JSON_TYPE, *protobuf.ACCEPTED))
    by_path = _by_path(resources)
    etag = f'"{_hash([resource for found in by_path.values() for resource in found])}"'
    headers = (("content-type", JSON_TYPE), ("etag", etag), ("vary", "Accept"))
    if request.headers.get("if-none-match") == etag:
        return Answer(304, b"", headers)
    if request.method == "HEAD":
        return Answer(200, b"", headers)
    documents = (document(found) for found in by_path.values())
    if media == JSON_TYPE:
        return Answer(200, b"", headers, swagger.as_json(documents))
    headers = (("content-type", protobuf.CONTENT_TYPE), *headers[1:])
    return Answer(200, b"", headers, swagger.as_protobuf(documents))


def _negotiate(request: Request, served: tuple[str, ...]) -> str:
    """Return the first of the media types served that the client accepts."""
    for part in request.headers.get("accept", "*/*").split(","):
        media = part.partition(";")[0].strip()
        if media in served:
            return media
        if media in {"", "*/*", "application/*"}:
            return served[0]
    raise not_acceptable(f"only the following media types are accepted: {', '.join(served)}")


def document(resources: list[ServedResource]) -> Json:
    """Return the OpenAPI v3 document of these resources."""
    paths: Json = {}
    for resource in resources:
        paths |= operations.paths(resource)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": kubernetes_version().removeprefix("v")},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": schemas.components(resources), "securitySchemes": {"BearerToken": _TOKEN}},
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
    """Return a hash of all that the document is made of: kubectl keeps documents on disk, beyond this server's life."""
    digest = hashlib.sha256(f"{__version__} {kubernetes_version()}".encode())
    for resource in resources:
        shape = [resource.api_version, resource.kind, resource.plural, resource.namespaced, resource.json_schema]
        verbs = [list(resource.verbs), sorted(resource.subresources.items()), resource.has_status, bool(resource.scale)]
        digest.update(msgspec.json.encode([*shape, *verbs]))
    return digest.hexdigest().upper()


def _encode(value: Json) -> bytes:
    return msgspec.json.encode(value) + b"\n"
