"""
Stored objects as one version of the API shows them.

An object is stored in the form it was written in. Read through the same schema it is shown as it is, with JSON made
once; through another version, or after its CRD changed, it is pruned and defaulted for each reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.local.apiserver.storage.store import Item, encode_body

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.registry import ServedResource


def present(resource: ServedResource, item: Item) -> Json:
    """Return the object as this resource shows it. Not to be changed: it may be the stored one."""
    if item.schema is resource.schema:
        return item.obj
    shown = resource.strategy.from_storage(item.obj)
    shown = {**shown, "kind": resource.kind, "apiVersion": resource.api_version}
    if resource.custom:
        shown = resource.schema.default(resource.schema.prune(shown)[0])
    return shown


def present_item(resource: ServedResource, item: Item) -> Item:
    """Return the item as this resource shows it, under the same revision."""
    if item.schema is resource.schema:
        return item
    return Item(present(resource, item), item.revision, resource.schema)


async def shown(backend: Backend, resource: ServedResource, item: Item) -> Item:
    """
    Return a stored item as this resource shows it, converted by its webhook if it has one.

    Raises:
        StatusError: The webhook failed.
    """
    return present_item(resource, await backend.conversions.item(resource, item))


def body(resource: ServedResource, item: Item) -> bytes:
    """Return the object's JSON without kind and apiVersion, as lists of built-in kinds hold it."""
    return item.body if item.schema is resource.schema else encode_body(present(resource, item))


def whole(resource: ServedResource, item: Item) -> bytes:
    """Return the object's whole JSON."""
    return resource.head + body(resource, item)[1:]
