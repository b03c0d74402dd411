"""Everything that is no resource: discovery, OpenAPI, version, health, metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver.errors import PageNotFound
from ktrain.local.apiserver.requests import Answer, Parameters

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.requests import Request

VERSION: Final[Json] = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0+ktrain",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_TEXT: Final = (("content-type", "text/plain; charset=utf-8"),)
_HEALTH: Final = ("healthz", "livez", "readyz")
_CHECKS: Final = ("ping", "log", "store")


def answer(backend: Backend, request: Request, segments: list[str]) -> Answer:
    """
    Answer a request for a path that is no resource's.

    Raises:
        PageNotFound: There is nothing there.
    """
    if request.method not in {"GET", "HEAD"}:
        raise PageNotFound
    match segments:
        case ["api"] | ["apis"] | ["api", _] | ["apis", _] | ["apis", _, _]:
            from ktrain.local.apiserver import discovery

            return discovery.answer(backend.registry, request, segments)
        case ["openapi", "v3", *group_version]:
            from ktrain.local.apiserver import openapi

            return openapi.answer(backend.registry, request, group_version)
        case ["version"]:
            from ktrain.local.apiserver.store import encode

            return Answer(200, encode(VERSION) + b"\n")
        case [name] if name in _HEALTH:
            return Answer(200, _health(name, Parameters(request.query)), _TEXT)
    raise PageNotFound


def _health(name: str, parameters: Parameters) -> bytes:
    if "verbose" not in parameters:
        return b"ok"
    return ("".join(f"[+]{check} ok\n" for check in _CHECKS) + f"{name} check passed\n").encode()
