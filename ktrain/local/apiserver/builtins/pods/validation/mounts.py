"""Volume mounts of containers, in the API server's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.local.apiserver import causes, names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause


def validate_mounts(mounts: Iterable[Json], field: str, volumes: list[str]) -> Iterator[Cause]:
    """Yield what is wrong with the mounts of a container."""
    paths: set[str] = set()
    for index, mount in enumerate(mounts):
        name, path = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield causes.required(f"{field}[{index}].name")
        elif name not in volumes:
            yield causes.missing_reference(f"{field}[{index}].name", name)
        if not path:
            yield causes.required(f"{field}[{index}].mountPath")
        elif path in paths:
            yield causes.invalid(f"{field}[{index}].mountPath", path, "must be unique")
        paths.add(path)
        for text in names.descending_path(mount.get("subPath", "")):
            # Upstream leaves the index out.
            yield causes.invalid(f"{field}.subPath", mount["subPath"], text)
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                detail = "subPathExpr and subPath are mutually exclusive"
                yield causes.invalid(f"{field}[{index}].subPathExpr", mount["subPathExpr"], detail)
            for text in names.descending_path(mount["subPathExpr"]):
                yield causes.invalid(f"{field}.subPathExpr", mount["subPathExpr"], text)
