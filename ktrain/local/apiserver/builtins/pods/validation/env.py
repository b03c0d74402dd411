"""Environment variables of containers, in the API server's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.local.apiserver import causes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause


def validate_env(variables: Iterable[Json], field: str) -> Iterator[Cause]:
    """Yield what is wrong with the variables of a container."""
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if not name:
            yield causes.required(f"{field}[{index}].name")
        elif "=" in name:
            detail = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            yield causes.invalid(f"{field}[{index}].name", name, detail)
        source = variable.get("valueFrom")
        if source is not None and variable.get("value"):
            yield causes.invalid(f"{field}[{index}].valueFrom", "", "may not be specified when `value` is not empty")
        elif source is not None and not source:
            detail = (
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            )
            yield causes.invalid(f"{field}[{index}].valueFrom", "", detail)
