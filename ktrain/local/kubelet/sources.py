"""The ConfigMaps and Secrets that a pod refers to, read when needed: no informer holds what pods do not use."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from ktrain.framework.errors import NotFound

from .environment import Sources
from .spec import CONFIG_MAPS, SECRETS

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine

    from ktrain.framework import Client

T = TypeVar("T")


async def fetch(client: Client, namespace: str, config_maps: Collection[str], secrets: Collection[str]) -> Sources:
    """
    Read these objects, at the same time. Those that do not exist are left out of the answer.

    Raises:
        FrameworkError: An object could not be read for another reason than not being there.
    """
    if not config_maps and not secrets:
        return Sources()
    maps, hidden = await asyncio.gather(
        asyncio.gather(*(_present(name, client.get(CONFIG_MAPS, name, namespace)) for name in sorted(config_maps))),
        asyncio.gather(*(_present(name, client.get(SECRETS, name, namespace)) for name in sorted(secrets))),
    )
    return Sources(dict(entry for entry in maps if entry), dict(entry for entry in hidden if entry))


async def _present(name: str, read: Coroutine[object, object, T]) -> tuple[str, T] | None:
    try:
        return name, await read
    except (NotFound, ValueError):  # ValueError: what cannot be a name is the name of nothing.
        return None
