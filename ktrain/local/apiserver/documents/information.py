"""Everything that is no resource: discovery, OpenAPI, version, health, metrics, and the list of these."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Final

from ktrain.api.schema import kubernetes_version
from ktrain.local.apiserver import errors
from ktrain.local.apiserver.errors import PageNotFound, wrong_method
from ktrain.local.apiserver.forms.representation import pretty_wanted
from ktrain.local.apiserver.requests import Answer, Parameters

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.requests import Request

_TEXT: Final = (("content-type", "text/plain; charset=utf-8"),)
_HEALTH: Final = ("healthz", "livez", "readyz")
_EXACT: Final = frozenset({*_HEALTH, "metrics", "openapi"})
"""Below these a slash at the end makes another path."""
_CHECKS: Final = ("ping", "log", "store")
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def answer(backend: Backend, request: Request, segments: list[str]) -> Answer:
    """
    Answer a request for a path that is no resource's.

    Raises:
        PageNotFound: There is nothing there.
    """
    if request.method != "GET" and _is_of_api(backend, segments):
        raise wrong_method()
    if request.path.endswith("/") and segments[0] in _EXACT:
        raise PageNotFound
    match segments:
        case [""]:
            return _json({"paths": _paths(backend)}, request)
        case ["api"] | ["apis"] | ["api", _] | ["apis", _] | ["apis", _, _]:
            from ktrain.local.apiserver.documents import discovery

            return discovery.answer(backend.registry, request, segments)
        case ["openapi", *_]:
            return _openapi(backend, request, segments)
        case ["version"]:
            return _json(version(), request)
        case ["metrics"]:
            from ktrain.local.apiserver.documents import metrics

            own = metrics.exposition(backend.requests, backend.store)
            body = b"".join([own, *(read() for read in backend.expositions)])
            return Answer(200, body, (("content-type", metrics.CONTENT_TYPE),))
        case [name, *checks] if name in _HEALTH:
            return Answer(200, _health(name, checks, request), _TEXT)
    raise PageNotFound


def _is_of_api(backend: Backend, segments: list[str]) -> bool:
    """Whether a document is one of those that are served like resources, to GET alone; others take any method."""
    match segments:
        case ["version"] | ["api", *_]:
            return "/" + "/".join(segments) in _paths(backend)
        case ["apis", group, version]:
            found = backend.registry.of_group(group)
            return errors.is_built_in(found, group) and version in {resource.version for resource in found}
    return False


def _openapi(backend: Backend, request: Request, segments: list[str]) -> Answer:
    from ktrain.local.apiserver import openapi

    if segments[1:] == ["v2"]:
        return openapi.answer_v2(backend.registry, request)
    if segments[1:2] == ["v3"]:
        return openapi.answer(backend.registry, request, segments[2:])
    raise PageNotFound


def version() -> Json:
    """Return what `/version` says: the Kubernetes that the API is of, and that it is not Kubernetes itself."""
    kubernetes = kubernetes_version()
    major, minor, _ = kubernetes.removeprefix("v").split(".")
    machine = platform.machine().lower()
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{kubernetes}+ktrain",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": f"{platform.system().lower()}/{_ARCHITECTURES.get(machine, machine)}",
    }


def _json(document: Json, request: Request) -> Answer:
    from ktrain.local.apiserver.forms.representation import Format

    return Answer(200, Format(pretty=pretty_wanted(request)).encode(document))


def _paths(backend: Backend) -> list[str]:
    found = {"/api", "/apis", "/metrics", "/openapi/v2", "/openapi/v3", "/version"}
    found |= {f"/{name}" for name in _HEALTH} | {f"/{name}/{check}" for name in _HEALTH for check in _CHECKS}
    for resource in backend.registry:
        if resource.group:
            found |= {f"/apis/{resource.group}", f"/apis/{resource.api_version}"}
        else:
            found.add(f"/api/{resource.api_version}")
    return sorted(found)


def _health(name: str, checks: list[str], request: Request) -> bytes:
    """Answer for one check or all of them. Whoever gets an answer at all gets a good one."""
    if checks:
        if len(checks) > 1 or checks[0] not in _CHECKS:
            raise PageNotFound
        return b"ok"
    if "verbose" not in Parameters(request.query):
        return b"ok"
    excluded = {value for parameter, value in request.query if parameter == "exclude"}
    lines = [f"[+]{check} excluded: ok\n" if check in excluded else f"[+]{check} ok\n" for check in _CHECKS]
    return ("".join(lines) + f"{name} check passed\n").encode()
