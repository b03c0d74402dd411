"""Fields that hold one of a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.local.apiserver import causes

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause


def enumerated(obj: Json, name: str, supported: tuple[str, ...], field: str) -> list[Cause]:
    """Return the complaint, if there is one, about a field that holds none of the words supported."""
    value = obj.get(name)
    if value is None or value in supported:
        return []
    return [causes.not_supported(f"{field}.{name}", value, supported)]
