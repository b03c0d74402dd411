"""Volumes whose plugins are gone, and files of a volume that are in each other's way."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver.access.quoting import quote
from ktrain.local.apiserver.builtins.pods.warnings.amounts import warn_of_fraction
from ktrain.local.apiserver.builtins.pods.warnings.limits import MOST_WARNINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json

_GONE: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_SHOWN_AS: Final = {"storageos": "storageOS"}
_SOURCES: Final = {"configMap": ("ConfigMap", "name"), "secret": ("Secret", "secretName"), "downwardAPI": ("", "")}


def warn_of_volumes(volumes: list[Json], field: str) -> Iterator[str]:
    """Yield warnings of volumes."""
    for index, volume in enumerate(volumes):
        here = f"{field}[{index}]"
        for kind in volume:
            if kind in _GONE:
                yield f"{here}.{_SHOWN_AS.get(kind, kind)}: {_GONE[kind]}"
        claim = (volume.get("ephemeral", {}).get("volumeClaimTemplate") or {}).get("spec") or {}
        for part in ("requests", "limits"):
            amounts = (claim.get("resources") or {}).get(part, {})
            yield from warn_of_fraction(
                amounts, "storage", f"{here}.ephemeral.volumeClaimTemplate.spec.resources.{part}"
            )
        yield from _warn_of_overlaps(volume)


def _warn_of_overlaps(volume: Json) -> Iterator[str]:
    name = quote(volume.get("name", ""))
    for kind, (shown, owner) in _SOURCES.items():
        if kind in volume:
            source = volume[kind]
            told = f"{shown} {quote(source.get(owner, ''))}" if shown else "DownwardAPI"
            paths = [(item.get("path", ""), "") for item in source.get("items", ())]
            yield from (f"volume {name} ({told}): overlapping paths: {text}" for text in _overlaps(paths))
    paths = []
    for source in volume.get("projected", {}).get("sources") or ():
        if not source:
            yield f"volume {name} (Projected) has no sources provided"
        paths += _projected_paths(source)
    yield from (f"volume {name} (Projected): overlapping paths: {text}" for text in _overlaps(paths))


def _projected_paths(source: Json) -> list[tuple[str, str]]:
    for kind, shown in (("configMap", "ConfigMap"), ("secret", "Secret"), ("downwardAPI", "DownwardAPI")):
        if "items" in source.get(kind, {}):
            told = shown if kind == "downwardAPI" else f"{shown} {quote(source[kind].get('name', ''))}"
            return [(item.get("path", ""), told) for item in source[kind]["items"]]
    if "serviceAccountToken" in source:
        return [(source["serviceAccountToken"].get("path", ""), "ServiceAccountToken")]
    return []


def _overlaps(paths: list[tuple[str, str]]) -> Iterator[str]:
    """Yield the pairs of paths, each with what it is of, where one is the other or leads through it."""
    for later, earlier in sorted(islice(_pairs([path.rstrip("/") for path, _ in paths]), MOST_WARNINGS)):
        (path, source), (other, whose) = paths[later], paths[earlier]
        yield f"{_shown(path.rstrip('/'), source)} with {_shown(other.rstrip('/'), whose)}"


def _pairs(paths: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the indexes of those pairs. Sorted, whatever a path leads through comes before it, with nothing between."""
    through: list[tuple[str, int]] = []
    for path, index in sorted((f"{path}/", index) for index, path in enumerate(paths) if path):
        while through and not path.startswith(through[-1][0]):
            through.pop()
        yield from ((max(index, other), min(index, other)) for _, other in through)
        through.append((path, index))


def _shown(path: str, source: str) -> str:
    return f"{quote(path)} ({source})" if source else quote(path)
