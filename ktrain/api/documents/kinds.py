"""The kinds that users' files may hold: built-in ones, ours, and those of CRDs in the same files."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

from .. import assets
from ..meta import Json, Resource
from ..schema import Schema, builtin, builtin_kinds

if TYPE_CHECKING:
    from collections.abc import Iterable

_UNTYPED: Final[type[Json]] = dict


class Kind:
    """One kind and version: where its objects live, and what they look like."""

    def __init__(self, resource: Resource[Json], crd_schema: Json | None = None) -> None:
        self.resource = resource
        self._crd_schema = crd_schema

    @cached_property
    def schema(self) -> Schema | None:
        """The schema; None for a CRD's version without one. Compiled when asked for."""
        if self._crd_schema is not None:
            return Schema.shared_from_crd(self._crd_schema)
        return builtin(self.resource.api_version, self.resource.kind)


Kinds = dict[tuple[str, str], Kind]
"""By apiVersion and kind."""


@lru_cache(maxsize=1)
def known_kinds() -> Kinds:
    """The built-in kinds and those of the shipped CRDs."""
    found: Kinds = {}
    for key, entry in builtin_kinds().items():
        api_version, _, kind = key.rpartition("/")
        if entry.plural:
            group, _, version = api_version.rpartition("/")
            resource = Resource(group, version, kind, entry.plural, entry.namespaced, _UNTYPED)
            found[api_version, kind] = Kind(resource)
    return found | kinds_of_crds(assets.crds())


def kinds_of_crds(crds: Iterable[Json]) -> Kinds:
    """The kinds that CRDs define, every version. What is malformed is left out: the CRD's own check reports it."""
    found: Kinds = {}
    for crd in crds:
        try:
            spec = crd["spec"]
            for version in spec["versions"]:
                names, namespaced = spec["names"], spec["scope"] == "Namespaced"
                resource = Resource(
                    spec["group"], version["name"], names["kind"], names["plural"], namespaced, _UNTYPED
                )
                found[resource.api_version, resource.kind] = Kind(resource, version["schema"]["openAPIV3Schema"])
        except (KeyError, TypeError):
            continue
    return found


def resource_of(obj: Json) -> Resource[Json]:
    """
    Where objects of this one's kind live.

    Raises:
        LookupError: If the kind is not known.
    """
    kind = known_kinds().get((obj.get("apiVersion", ""), obj.get("kind", "")))
    if kind is None:
        raise LookupError(f"unknown kind {obj.get('kind')!r} of {obj.get('apiVersion')!r}")
    return kind.resource


def is_namespaced(obj: Json) -> bool:
    """
    Whether objects of this one's kind live in namespaces.

    Raises:
        LookupError: If the kind is not known.
    """
    return resource_of(obj).namespaced
