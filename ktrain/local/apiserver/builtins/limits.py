"""LimitRanges as objects; admission is what keeps to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.local.apiserver import causes
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_TYPES: Final = frozenset({"Pod", "Container", "PersistentVolumeClaim"})
_AMOUNTS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_ORDERED: Final = (
    ("min", "max", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "default request value {} is greater than max value {}"),
    ("defaultRequest", "default", "defaultRequest", "default request value {} is greater than default limit value {}"),
    ("min", "default", "default", "min value {} is greater than default value {}"),
    ("default", "max", "default", "default value {} is greater than max value {}"),
)
"""Which amount may not be greater than which, where it is said, and how."""


class LimitRangeStrategy(Strategy):
    """LimitRanges."""

    has_generation = False
    create_on_update = True

    def default(self, obj: Json) -> None:
        """Write amounts canonically, and what a container gets that asks for nothing."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("limits", None)
        for limit in spec["limits"] or ():
            for name in _AMOUNTS:
                if name in limit:
                    limit[name] = {key: quantity.canonical(value) for key, value in limit[name].items()}
            if limit.get("type") == "Container":
                _fill(limit, "default", limit.get("max"))
                _fill(limit, "defaultRequest", limit.get("default"))
                _fill(limit, "defaultRequest", limit.get("min"))

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check types, and that no amount contradicts another."""
        found: list[Cause] = []
        seen: set[str] = set()
        for index, limit in enumerate((obj.get("spec") or {}).get("limits") or ()):
            field, kind = f"spec.limits[{index}]", limit.get("type", "")
            if kind not in _TYPES and "/" not in kind:
                detail = "must be a standard limit type or fully qualified"
                found.append(causes.invalid(f"{field}.type", kind, detail))
            if kind in seen:
                found.append(causes.duplicate(f"{field}.type", kind))
            seen.add(kind)
            found += _validate_limit(limit, field)
        return found


def _fill(limit: Json, name: str, source: Json | None) -> None:
    if source:
        limit[name] = {**source, **limit.get(name, {})}


def _validate_limit(limit: Json, field: str) -> Iterator[Cause]:
    if limit.get("type") == "Pod":
        for name in ("default", "defaultRequest"):
            if limit.get(name):
                yield causes.forbidden(f"{field}.{name}", "may not be specified when `type` is 'Pod'")
    for low, high, where, text in _ORDERED:
        lows, highs = limit.get(low) or {}, limit.get(high) or {}
        for name in sorted(lows.keys() & highs.keys()):
            if quantity.parse(lows[name]) > quantity.parse(highs[name]):
                shown = lows[name] if low == "min" and where != "defaultRequest" else limit[where][name]
                yield causes.invalid(f"{field}.{where}[{name}]", shown, text.format(lows[name], highs[name]))
    for name, ratio in (limit.get("maxLimitRequestRatio") or {}).items():
        if quantity.parse(ratio) < 1:
            yield causes.invalid(f"{field}.maxLimitRequestRatio[{name}]", ratio, f"ratio {ratio} is less than 1")
