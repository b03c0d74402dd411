"""How a real API server shows JSON values in its complaints about patches: as Go's `%v` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrain.api.meta import JsonValue


def show(value: JsonValue) -> str:
    """Return a value as text: `map[a:1 b:[x y]]`, keys in order."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{show(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(show, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return "<nil>" if value is None else str(value)
