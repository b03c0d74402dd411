"""What an installation of ktrain puts into a cluster besides its CRDs: the shipped runtimes, and what SDKs look up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.api import assets
from ktrain.api.documents import load, resource_of

if TYPE_CHECKING:
    from ktrain.framework.client.client import Client


async def install(client: Client) -> None:
    """
    Create the objects, or bring them up to date.

    Raises:
        ApiError: The server refused one of them.
    """
    for document in load([*assets.runtime_files(), assets.public_file()]):
        await client.apply(resource_of(document.object), document.object)
