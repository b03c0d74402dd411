"""Volumes whose files come from several sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins.pods.validation.volumes.downward import validate_told
from ktrain.local.apiserver.builtins.pods.validation.volumes.paths import validate_items, validate_mode, validate_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_SOURCES: Final = ("secret", "configMap", "downwardAPI", "serviceAccountToken")
_LEAST_S: Final = 600
_MOST_S: Final = 2**32


def validate_projected(volume: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a projected volume: of no two sources may files have the same path."""
    yield from validate_mode(volume, "defaultMode", field)
    taken: set[str] = set()
    for index, source in enumerate(volume.get("sources") or ()):
        here = f"{field}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if kind in source:
                yield from _validate_object(source[kind], f"{here}.{kind}")
                name = source[kind].get("name", "")
                yield from _take([(item.get("path"), name) for item in source[kind].get("items", ())], taken, field)
        for item in source.get("downwardAPI", {}).get("items", ()):
            yield from validate_told(item, f"{here}.downwardAPI")
            yield from _take([(item.get("path"), item.get("path", ""))], taken, field)
        if "serviceAccountToken" in source:
            yield from _validate_token(source["serviceAccountToken"], here, field)
        if sum(kind in source for kind in _SOURCES) > 1:
            yield causes.forbidden(here, "may not specify more than 1 volume type per source")


def _validate_object(source: Json, field: str) -> Iterator[Cause]:
    if not source.get("name"):
        yield causes.required(f"{field}.name")
    yield from validate_items(source.get("items", ()), f"{field}.items")


def _take(paths: list[tuple[str | None, str]], taken: set[str], field: str) -> Iterator[Cause]:
    """Yield a cause for every path that is taken; what the cause shows comes with the path."""
    for path, shown in paths:
        if path and path in taken:
            yield causes.invalid(field, shown, "conflicting duplicate paths")
        taken.add(path or "")


def _validate_token(token: Json, field: str, volume: str) -> Iterator[Cause]:
    lifetime, path = token.get("expirationSeconds", _LEAST_S), token.get("path", "")
    here = f"{field}.serviceAccountToken.expirationSeconds"
    if lifetime < _LEAST_S:
        yield causes.invalid(here, lifetime, "may not specify a duration less than 10 minutes")
    if lifetime > _MOST_S:
        yield causes.invalid(here, lifetime, "may not specify a duration larger than 2^32 seconds")
    # Of the path, upstream names the volume.
    if path:
        yield from validate_path(path, f"{volume}.path")
    else:
        yield causes.required(f"{volume}.path")
