"""
What the server serves: one `ServedResource` for each resource of each API version, and the table to find them in.

Versions of one custom resource share their storage (a collection of the store) and differ in schema. Built-in kinds are
described by data (`builtins/`) plus a `Strategy`; custom ones come and go with their CustomResourceDefinition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from ktrain.api.schema import Schema, builtin, builtin_kinds, empty_object
from ktrain.local.apiserver import causes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.strategy import Strategy

    Review = Callable[[Backend, Call], Awaitable[Json]]

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Scale:
    """Where a custom resource keeps what its scale subresource shows, as paths of keys."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...] = ()

    def validate(self, obj: Json) -> list[Cause]:
        """Return what is wrong with the counts of an object: its schema may allow more than a Scale can show."""
        found: list[Cause] = []
        for path in (self.spec_replicas, self.status_replicas):
            value: object = obj
            for name in path:
                value = value.get(name, 0) if isinstance(value, dict) else value
            found += causes.replicas("." + ".".join(path), value)
        return found


@dataclass(frozen=True, eq=False)
class ServedResource:
    """One resource in one API version. Compared by identity: a changed CRD makes new ones."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    strategy: Strategy
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    has_status: bool = False
    scale: Scale | None = None
    subresources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further subresources and their verbs, for example `{"log": ("get",)}`."""
    review: Review | None = None
    """Answers a POST of a kind that is never stored (TokenReview); such a kind has the verb `create` alone."""
    custom: bool = False
    storage: str = ""
    """Name of the store's collection; resources that are views of one storage share it."""
    storage_version: str = ""
    json_schema: Json | None = None
    """A custom resource's openAPIV3Schema; built-in kinds find theirs by name."""
    columns: tuple[Json, ...] = ()
    """A custom resource's additionalPrinterColumns."""
    field_labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Selectable fields besides metadata.name and metadata.namespace, and where their values are."""
    deprecation: str = ""
    """Warning of every request to a deprecated version; empty if it is not one."""
    conversion: Json | None = None
    """The webhook that converts a custom resource between its versions; None if they differ in apiVersion only."""
    terminating: bool = False
    """The CRD is being deleted: nothing may be created."""

    @property
    def api_version(self) -> str:
        """`group/version`, or just the version in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_name(self) -> str:
        """`plural.group`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def collection(self) -> str:
        """Name of the collection that holds the objects."""
        return self.storage or self.qualified_name

    @cached_property
    def schema(self) -> Schema:
        """The schema, compiled when first asked for; built-in ones are shared by all servers of the process."""
        if self.json_schema is not None:
            return Schema.shared_from_crd(self.json_schema)
        found = builtin(self.api_version, self.kind)
        if found is None:
            raise LookupError(f"no schema of {self.kind} in {self.api_version}")
        return found

    @cached_property
    def empty(self) -> Json:
        """What an object holds before anybody writes it: structs that Go's types always have. Not to be changed."""
        if self.custom:
            return {}
        structs = empty_object(builtin_kinds()[f"{self.api_version}/{self.kind}"].definition)
        return _merged(structs, self.strategy.empty)

    @cached_property
    def head(self) -> bytes:
        """How the JSON of an object begins, up to where the stored body's first field follows."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()

    @cached_property
    def names_of_list(self) -> tuple[str, str]:
        """Kind and apiVersion of a list."""
        return self.list_kind or f"{self.kind}List", self.api_version


class Registry:
    """All resources served now. `generation` changes with every change of them."""

    def __init__(self, resources: Iterable[ServedResource]) -> None:
        self._by_plural: dict[tuple[str, str, str], ServedResource] = {}
        self._by_kind: dict[tuple[str, str], ServedResource] = {}
        self.generation = 0
        for resource in resources:
            self.add(resource)

    def add(self, resource: ServedResource) -> None:
        """Serve a resource, in place of one of the same group, version and plural."""
        self._by_plural[resource.group, resource.version, resource.plural] = resource
        self._by_kind[resource.api_version, resource.kind] = resource
        self.generation += 1

    def remove(self, resource: ServedResource) -> None:
        """Stop serving a resource."""
        self._by_plural.pop((resource.group, resource.version, resource.plural), None)
        self._by_kind.pop((resource.api_version, resource.kind), None)
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> ServedResource | None:
        """Return the resource of a URL."""
        return self._by_plural.get((group, version, plural))

    def builtin(self, api_version: str, kind: str) -> ServedResource:
        """Return a built-in kind that every server serves."""
        return self._by_kind[api_version, kind]

    def by_kind(self, api_version: str, kind: str) -> ServedResource | None:
        """Return the resource that a reference by apiVersion and kind means."""
        return self._by_kind.get((api_version, kind))

    def of_group(self, group: str, version: str = "") -> list[ServedResource]:
        """Return the resources of a group, or of one of its versions."""
        return [r for r in self if r.group == group and version in {"", r.version}]

    def one_for_each_storage(self) -> dict[str, ServedResource]:
        """Return one resource for each collection, to walk all objects exactly once."""
        found: dict[str, ServedResource] = {}
        for resource in self:
            known = found.get(resource.collection)
            if known is None or resource.version == resource.storage_version:
                found[resource.collection] = resource
        return found

    def __iter__(self) -> Iterator[ServedResource]:
        return iter(tuple(self._by_plural.values()))


def _merged(structs: Json, more: Json) -> Json:
    """Return both; what only one has is shared with it."""
    both = {**structs, **more}
    for name in structs.keys() & more.keys():
        if isinstance(structs[name], dict) and isinstance(more[name], dict):
            both[name] = _merged(structs[name], more[name])
    return both
