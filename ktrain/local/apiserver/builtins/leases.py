"""Leases: what leader election rests on. Times have exactly six digits, and an update always names its version."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend

_MICRO_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")
_SECONDS: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"


class LeaseStrategy(Strategy):
    """Leases."""

    has_generation = False
    qualified_finalizers = False
    unconditional_update = False
    create_on_update = True

    def check_types(self, obj: Json) -> str:
        """Check the times: a lenient server would hide a client that fails on a cluster."""
        spec = obj.get("spec") or {}
        return micro_time_error(spec.get("acquireTime")) or micro_time_error(spec.get("renewTime"))

    def default(self, obj: Json) -> None:
        """Write the times in UTC."""
        spec = obj.setdefault("spec", {})
        for name in ("acquireTime", "renewTime"):
            if isinstance(value := spec.get(name), str) and not value.endswith("Z"):
                spec[name] = _in_utc(value)

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Drop what is part of a feature that is off by default."""
        _drop_elections(obj["spec"])

    def prepare_update(self, obj: Json, old: Json, backend: Backend) -> None:
        """Drop what is part of a feature that is off by default."""
        _drop_elections(obj["spec"])

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check the numbers."""
        spec = obj.get("spec") or {}
        found = []
        duration = spec.get("leaseDurationSeconds")
        if duration is not None and duration <= 0:
            found.append(causes.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        return [*found, *causes.non_negative("spec.leaseTransitions", spec.get("leaseTransitions"))]


def _drop_elections(spec: Json) -> None:
    for name in ("strategy", "preferredHolder"):
        spec.pop(name, None)


def _in_utc(value: str) -> str:
    try:
        return datetime.fromisoformat(value).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except (ValueError, OverflowError):
        return value


def micro_time_error(value: object) -> str:
    """Return the decoder's complaint about a value that is no `metav1.MicroTime`, or nothing."""
    if not isinstance(value, str) or _MICRO_TIME.fullmatch(value):
        return ""
    rest, wanted = value, "2006"
    if _SECONDS.match(value):
        rest, wanted = value[19:], ".000000"
    return f'parsing time "{value}" as "{_LAYOUT}": cannot parse "{rest}" as "{wanted}"'
