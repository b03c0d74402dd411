"""CustomResourceDefinitions for a test: from files or objects to kinds that are served."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import yaml

from ktrain.api.core import CUSTOM_RESOURCE_DEFINITIONS, untyped
from ktrain.framework.errors import Conflict, NotFound

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.framework.client.client import Client
    from ktrain.framework.env import Env

Source = Path | str | Mapping[str, Any]
"""A file of JSON or YAML with any number of documents, a directory of such files, or the object itself."""

SERVED_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.1
_SUFFIXES: Final = (".json", ".yaml", ".yml")
_DEFINITIONS: Final = untyped(CUSTOM_RESOURCE_DEFINITIONS)


def read_crds(sources: Iterable[Source]) -> list[Json]:
    """
    Read definitions; other kinds of objects are skipped, and of two with one name the last one counts.

    Raises:
        FileNotFoundError: A path does not exist.
    """
    found = {
        document["metadata"]["name"]: document
        for source in sources
        for document in _documents(source)
        if document.get("kind") == CUSTOM_RESOURCE_DEFINITIONS.kind
    }
    return list(found.values())


async def serve_crds(client: Client, env: Env, definitions: Iterable[Json]) -> None:
    """
    Create or change definitions, and wait until all their versions are served.

    Raises:
        AssertionError: One was not served in half a minute; the message says which, and its conditions.
    """
    definitions = list(definitions)
    for definition in definitions:
        await _apply(client, definition)
    for definition in definitions:
        await _wait_served(client, env, definition)


async def _apply(client: Client, definition: Json) -> None:
    while True:
        try:
            await client.apply(_DEFINITIONS, definition)
        except Conflict:
            continue  # somebody else installs it at the same moment
        return


async def _wait_served(client: Client, env: Env, definition: Json) -> None:
    """Discovery knows a kind a moment after its definition is established, and its URL a moment later."""
    spec, name = definition["spec"], definition["metadata"]["name"]
    waiting = [version["name"] for version in spec["versions"] if version.get("served")]
    try:
        async with asyncio.timeout(SERVED_TIMEOUT_S):
            while waiting:
                if await _is_served(client, f"/apis/{spec['group']}/{waiting[-1]}", spec["names"]["plural"]):
                    waiting.pop()
                else:
                    await env.clock.sleep(_POLL_S)
    except TimeoutError:
        seen = await client.get(_DEFINITIONS, name)
        conditions = msgspec.json.encode(seen.get("status", {}).get("conditions", [])).decode()
        raise AssertionError(
            f"{name} {waiting[-1]} was not served after {SERVED_TIMEOUT_S:g} s; its conditions: {conditions}"
        ) from None


async def _is_served(client: Client, group_version: str, plural: str) -> bool:
    try:
        known = msgspec.json.decode((await client.raw("GET", group_version)).body)
        if plural not in {resource["name"] for resource in known.get("resources", [])}:
            return False
        await client.raw("GET", f"{group_version}/{plural}", query=[("limit", "1")])
    except NotFound:
        return False
    return True


def _documents(source: Source) -> Iterable[Json]:
    if isinstance(source, Mapping):
        return [dict(source)]
    path = Path(source)
    files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES) if path.is_dir() else [path]
    return [
        cast("Json", document)
        for file in files
        for document in yaml.safe_load_all(file.read_text())
        if isinstance(document, dict)
    ]
