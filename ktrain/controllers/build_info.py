"""The metric that says which build runs: its version, its Python and its plugins."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from ktrain import __version__

if TYPE_CHECKING:
    from ktrain.framework.metrics import Metrics
    from ktrain.pipeline import Registry


def expose_build(metrics: Metrics, registry: Registry) -> None:
    """Set `ktrain_build_info` to 1, with the build as its labels."""
    labels = {
        "version": __version__,
        "python": platform.python_version(),
        "plugins": ",".join(sorted(plugin.name for plugin in registry.plugins)),
    }
    metrics.gauge("ktrain_build_info", "Always 1; the labels say which build of ktrain runs.", labels)(1)
