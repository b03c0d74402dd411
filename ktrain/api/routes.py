"""Which kind, namespace, name and subresource the path of a URL means: `Resource.path` read backwards."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote


class Route(NamedTuple):
    """A path below `/api/v1` or `/apis/GROUP/VERSION`. Empty strings where the path has no such part."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str


def split(path: str) -> list[str]:
    """Split a percent-encoded path into segments, after decoding it; a slash at the end is tolerated."""
    return unquote(path).removeprefix("/").removesuffix("/").split("/")


def resource_route(segments: list[str]) -> Route | None:
    """Read a resource's path; None for everything else (discovery, health, OpenAPI)."""
    if segments[0] == "api" and len(segments) >= 3:
        group, version, rest = "", segments[1], segments[2:]
    elif segments[0] == "apis" and len(segments) >= 4:
        group, version, rest = segments[1], segments[2], segments[3:]
    else:
        return None
    namespace = ""
    # `namespaces/x` and its subresources are the namespace itself; `namespaces/x/pods` is a collection inside it.
    if rest[0] == "namespaces" and len(rest) >= 3 and not (group == "" and rest[2] in {"status", "finalize"}):
        namespace, rest = rest[1], rest[2:]
    plural, name, *below = (*rest, "")
    # What is too long, or a namespace inside another, is the path of a resource that nobody has.
    subresource = "/".join(below[:-1])
    if plural == "namespaces" and not group:
        plural, namespace = ("", namespace) if namespace else (plural, name)
    return Route(group, version, plural, namespace, name, subresource)
