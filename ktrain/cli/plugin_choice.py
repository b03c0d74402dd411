"""The plugins that an operator's configuration asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from ktrain.pipeline import Registry
from ktrain.pipeline.loading import Choice
from ktrain.plugins.workload import Workload

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from .config import Configuration

log: FilteringBoundLogger = structlog.get_logger("ktrain.operator")


def registry_of(configuration: Configuration) -> Registry:
    """Return the installed plugins but for those that are not wanted; names that no plugin has are logged."""
    wanted = configuration.plugins
    registry = Registry.load(choice=Choice(wanted.disabled, wanted.allowed))
    known = {*registry.names, *wanted.disabled, *(failure.name for failure in registry.failures)}
    for field, names in (("allowed", wanted.allowed or ()), ("config", tuple(wanted.config))):
        if absent := sorted(set(names) - known):
            log.warning("plugin.not_installed", field=f"plugins.{field}", plugins=absent)
    return registry if configuration.has_native_gangs else registry.replacing(Workload(enabled=False))
