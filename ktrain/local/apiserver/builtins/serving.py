"""How a built-in kind is described as data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.local.apiserver.registry import ALL_VERBS, ServedResource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ktrain.local.apiserver.registry import Scale
    from ktrain.local.apiserver.strategy import Strategy


def served(
    api_version: str,
    kind: str,
    plural: str,
    strategy: Strategy,
    *,
    short: tuple[str, ...] = (),
    namespaced: bool = True,
    status: bool = False,
    categories: tuple[str, ...] = (),
    subresources: Mapping[str, tuple[str, ...]] | None = None,
    fields: Mapping[str, str] | None = None,
    storage: str = "",
    scale: Scale | None = None,
    deprecation: str = "",
    lacks: tuple[str, ...] = (),
) -> ServedResource:
    """Describe a kind. `fields`: its selectable fields and their dotted paths; `lacks`: verbs that it does not have."""
    group, _, version = api_version.rpartition("/")
    return ServedResource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        namespaced=namespaced,
        strategy=strategy,
        short_names=short,
        categories=categories,
        has_status=status,
        subresources=subresources or {},
        field_labels={name: tuple(path.split(".")) for name, path in (fields or {}).items()},
        storage=storage,
        scale=scale,
        deprecation=deprecation,
        verbs=tuple(verb for verb in ALL_VERBS if verb not in lacks),
        storage_version=version,
    )


def same(*names: str) -> dict[str, str]:
    """Return selectable fields whose names are their paths."""
    return {name: name for name in names}
