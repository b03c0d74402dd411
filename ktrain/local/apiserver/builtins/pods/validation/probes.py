"""Probes of containers, in the API server's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins.pods.validation.handlers import PROBED_BY, validate_handler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_NUMBERS: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def validate_probes(container: Json, field: str, grace_s: int) -> Iterator[Cause]:
    """Yield what is wrong with the probes of a container in a pod that may take this long to end."""
    for name in PROBES:
        if name in container:
            yield from _validate_probe(container[name], f"{field}.{name}", grace_s)
            rule = _validate_readiness if name == "readinessProbe" else _validate_life
            yield from rule(container[name], f"{field}.{name}")


def _validate_probe(probe: Json, field: str, grace_s: int) -> Iterator[Cause]:
    yield from validate_handler(probe, field, PROBED_BY, grace_s)
    for name in _NUMBERS:
        yield from causes.non_negative(f"{field}.{name}", probe.get(name))
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield causes.invalid(f"{field}.terminationGracePeriodSeconds", grace, "must be greater than 0")


def _validate_readiness(probe: Json, field: str) -> Iterator[Cause]:
    """Nothing ends for not being ready."""
    if (grace := probe.get("terminationGracePeriodSeconds")) is not None:
        field = f"{field}.terminationGracePeriodSeconds"
        yield causes.invalid(field, grace, "must not be set for readinessProbes")


def _validate_life(probe: Json, field: str) -> Iterator[Cause]:
    """What has begun or lives, does so at the first success."""
    if (threshold := probe.get("successThreshold", 1)) != 1:
        yield causes.invalid(f"{field}.successThreshold", threshold, "must be 1")
