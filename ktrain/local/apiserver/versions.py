"""One object in two API versions, outside the store: what webhooks and policies for another version see."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.conversion import Conversions
    from ktrain.local.apiserver.registry import ServedResource


async def in_version(conversions: Conversions, wanted: ServedResource, given: ServedResource, obj: Json) -> Json:
    """
    Return an object of the version `given` as the version `wanted` has it.

    Raises:
        StatusError: The kind's conversion webhook failed.
    """
    head = {"kind": wanted.kind, "apiVersion": wanted.api_version}
    if wanted is given:
        return {**obj, **head}
    if not wanted.custom:
        return {**wanted.strategy.from_storage(given.strategy.to_storage(obj)), **head}
    (converted,) = await conversions.objects(wanted, [obj])
    return wanted.schema.default({**converted, **head})
