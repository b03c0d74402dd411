"""Probes of containers, in the API server's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")


def validate_probe(probe: Json, field: str, *, readiness: bool) -> Iterator[Cause]:
    """Yield what is wrong with a probe; only of readiness more than one success may be asked for."""
    given = [name for name in _HANDLERS if name in probe]
    if not given:
        yield causes.required(field, "must specify a handler type")
    elif len(given) > 1:
        yield causes.forbidden(f"{field}.{given[1]}", "may not specify more than 1 handler type")
    for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        yield from causes.non_negative(f"{field}.{name}", probe.get(name))
    if not readiness and probe.get("successThreshold", 1) != 1:
        yield causes.invalid(f"{field}.successThreshold", probe["successThreshold"], "must be 1")
