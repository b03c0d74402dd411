"""
Which kinds an API server serves, and under which names.

Since Kubernetes 1.27 two requests tell everything (aggregated discovery, KEP-3352). Older servers, and some that stand
between, answer with plain documents instead: then groups are known at once, what is in a group only when it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from ktrain.api.meta import Resource, Struct
from ktrain.framework.errors import DecodeError, NotFound

from .codec import UNFIT

if TYPE_CHECKING:
    from .client import Client
    from .transport import Response

T = TypeVar("T")

_ACCEPT: Final = {
    "Accept": ",".join(
        (
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
            "application/json",
        )
    )
}


@dataclass(frozen=True, slots=True)
class Served:
    """One kind in one version, as the API server names it."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    namespaced: bool

    def resource(self, type_: type[T]) -> Resource[T]:
        """Make it a resource whose objects decode to this type."""
        return Resource(self.group, self.version, self.kind, self.plural, self.namespaced, type_)

    def __str__(self) -> str:
        return f"{self.kind} ({self.group}/{self.version})" if self.group else f"{self.kind} ({self.version})"


@dataclass(slots=True)
class Catalog:
    """What is served. `contents` lacks the versions that were not read yet."""

    versions: dict[str, list[str]] = field(default_factory=dict)
    """Of each group, the preferred one first."""
    contents: dict[tuple[str, str], list[Served]] = field(default_factory=dict)

    def known(self) -> list[Served]:
        """Everything that was read so far."""
        return [served for found in self.contents.values() for served in found]


async def discover(client: Client) -> Catalog:
    """
    Read what is served: everything, or on old servers the groups and their versions.

    Raises:
        ApiError, TransportError, DecodeError: One of the two documents cannot be had.
    """
    catalog = Catalog()
    for root in ("/api", "/apis"):
        answer = _decode(await client.raw("GET", root, headers=_ACCEPT), _Root)
        for listed in answer.items:
            catalog.versions[listed.metadata.name] = [each.version for each in listed.versions]
            for each in listed.versions:
                key = (listed.metadata.name, each.version)
                catalog.contents[key] = [_aggregated(*key, entry) for entry in each.resources if entry.response_kind]
        if answer.versions:
            catalog.versions[""] = answer.versions
        for group in answer.groups:
            preferred = group.preferred_version.version
            catalog.versions[group.name] = sorted((v.version for v in group.versions), key=lambda v: v != preferred)
    return catalog


async def complete(client: Client, catalog: Catalog, group: str) -> None:
    """Read what is still missing of a group."""
    for version in catalog.versions.get(group, ()):
        key = (group, version)
        if key in catalog.contents:
            continue
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            found = _decode(await client.raw("GET", path), _Plain).resources
        except NotFound:
            found = ()  # it went away meanwhile
        catalog.contents[key] = [_plain(*key, entry) for entry in found if "/" not in entry.name]


class _Name(Struct, frozen=True):
    name: str = ""


class _Kind(Struct, frozen=True):
    kind: str = ""


class _AggregatedResource(Struct, frozen=True):
    resource: str
    response_kind: _Kind | None = None
    scope: str = ""
    singular_resource: str = ""
    short_names: tuple[str, ...] = ()


class _AggregatedVersion(Struct, frozen=True):
    version: str
    resources: tuple[_AggregatedResource, ...] = ()


class _AggregatedGroup(Struct, frozen=True):
    metadata: _Name = _Name()
    versions: tuple[_AggregatedVersion, ...] = ()


class _Version(Struct, frozen=True):
    version: str = ""


class _Group(Struct, frozen=True):
    name: str
    versions: tuple[_Version, ...] = ()
    preferred_version: _Version = _Version()


class _Root(Struct, frozen=True):
    """`/api` or `/apis` in any of its three forms."""

    items: tuple[_AggregatedGroup, ...] = ()
    versions: list[str] = []
    groups: tuple[_Group, ...] = ()


class _PlainResource(Struct, frozen=True):
    name: str
    kind: str = ""
    singular_name: str = ""
    short_names: tuple[str, ...] = ()
    namespaced: bool = False


class _Plain(Struct, frozen=True):
    resources: tuple[_PlainResource, ...] = ()


def _aggregated(group: str, version: str, entry: _AggregatedResource) -> Served:
    kind = entry.response_kind.kind if entry.response_kind else ""
    singular = entry.singular_resource or kind.lower()
    return Served(group, version, kind, entry.resource, singular, entry.short_names, entry.scope == "Namespaced")


def _plain(group: str, version: str, entry: _PlainResource) -> Served:
    singular = entry.singular_name or entry.kind.lower()
    return Served(group, version, entry.kind, entry.name, singular, entry.short_names, entry.namespaced)


def _decode(response: Response, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(response.body, type=type_)
    except UNFIT as error:
        raise DecodeError(f"what the API server serves cannot be read: {error}") from error
