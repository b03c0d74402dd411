"""
From the name of a kind to its `Resource`, by asking the API server: for kinds that are known at run time only, and for
tools that take any manifest. Whoever knows a kind beforehand writes its `Resource` down and needs no mapper.

What is served is read on first use and kept. A name that is not found is looked for once more in a fresh copy, so a CRD
that was installed later works without a restart; but not twice within `COOL_DOWN_S`, so a misspelt name that is asked
for again and again costs the API server nothing.
"""

from __future__ import annotations

import asyncio
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from ktrain.framework.errors import NoMatch

from .discovery import Catalog, Served, complete, discover

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrain.api.meta import Json, Resource

    from .client import Client

T = TypeVar("T")

COOL_DOWN_S: Final = 2.0
"""Between two readings of what is served."""
NEAR_MISSES: Final = 5


class RestMapper:
    """
    Finds resources of one API server. Safe to use by many tasks; one of them reads, the others wait for it.

    Every method raises `NoMatch` if there is no such kind, or if several groups have it and none was named, and the
    errors of the client if the server cannot be asked.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._catalog: Catalog | None = None
        self._loaded_at_s = 0.0
        self._loading = asyncio.Lock()

    @overload
    async def for_kind(self, kind: str, *, group: str | None = None, version: str | None = None) -> Resource[Json]: ...

    @overload
    async def for_kind(
        self, kind: str, *, group: str | None = None, version: str | None = None, type: type[T]
    ) -> Resource[T]: ...

    async def for_kind(
        self,
        kind: str,
        *,
        group: str | None = None,
        version: str | None = None,
        type: type[Any] = dict,  # noqa: A002 - as in Resource
    ) -> Resource[Any]:
        """
        Find a kind, for example `Deployment`.

        Args:
            kind: Its name, in its own spelling.
            group: Empty for the core group; None if any will do, as long as only one has it.
            version: None for the group's preferred one.
            type: What objects decode to; plain dicts unless said otherwise.
        """
        found = await self._find(f"kind {kind}", lambda served: served.kind == kind, group, version)
        return found.resource(type)

    @overload
    async def for_name(self, name: str, *, group: str | None = None, version: str | None = None) -> Resource[Json]: ...

    @overload
    async def for_name(
        self, name: str, *, group: str | None = None, version: str | None = None, type: type[T]
    ) -> Resource[T]: ...

    async def for_name(
        self,
        name: str,
        *,
        group: str | None = None,
        version: str | None = None,
        type: type[Any] = dict,  # noqa: A002 - as in Resource
    ) -> Resource[Any]:
        """Find a resource by the name that URLs and kubectl use: `deployments`, `deployment` or `deploy`."""

        def matches(served: Served) -> bool:
            return name in {served.plural, served.singular, *served.short_names}

        found = await self._find(f"resource {name}", matches, group, version)
        return found.resource(type)

    async def for_object(self, obj: Json) -> Resource[Json]:
        """Find the resource of a manifest, by its `apiVersion` and `kind`."""
        group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
        return await self.for_kind(str(obj.get("kind", "")), group=group, version=version)

    async def _find(
        self, wanted: str, matches: Callable[[Served], bool], group: str | None, version: str | None
    ) -> Served:
        catalog = self._catalog or await self._load(None)
        found = await self._search(catalog, matches, group, version)
        if not found and self._client.env.clock.monotonic() - self._loaded_at_s >= COOL_DOWN_S:
            catalog = await self._load(catalog)
            found = await self._search(catalog, matches, group, version)
        if len(found) == 1:
            return found[0]
        asked = f"{wanted} in group {group or 'core'}" if group is not None else wanted
        if version:
            asked += f", version {version}"
        if found:
            raise NoMatch(f"{asked}: several groups have it, name one: {', '.join(map(str, found))}")
        near = _near(wanted.partition(" ")[2], catalog.known(), matches)
        hint = f"; there is {', '.join(near)}" if near else ""
        raise NoMatch(f"{asked}: the API server does not serve it{hint}. Is its CRD installed?")

    async def _search(
        self, catalog: Catalog, matches: Callable[[Served], bool], group: str | None, version: str | None
    ) -> list[Served]:
        """The first match of each group, in the order of its versions."""
        found = []
        for each in [group] if group is not None else list(catalog.versions):
            await complete(self._client, catalog, each)
            versions = [version] if version else catalog.versions.get(each, [])
            inside = (served for v in versions for served in catalog.contents.get((each, v), ()) if matches(served))
            if (first := next(inside, None)) is not None:
                found.append(first)
        return found

    async def _load(self, stale: Catalog | None) -> Catalog:
        async with self._loading:
            if self._catalog is stale or self._catalog is None:
                self._catalog = await discover(self._client)
                self._loaded_at_s = self._client.env.clock.monotonic()
            return self._catalog


def _near(name: str, known: list[Served], matches: Callable[[Served], bool]) -> list[str]:
    """What may have been meant: the same in another group or version, or a name that looks like it."""
    same = [served for served in known if matches(served)]
    spellings = {spelling.lower(): served for served in known for spelling in (served.kind, served.plural)}
    alike = [spellings[each] for each in get_close_matches(name.lower(), spellings, n=NEAR_MISSES, cutoff=0.75)]
    return list(dict.fromkeys(map(str, [*same, *alike])))[:NEAR_MISSES]
