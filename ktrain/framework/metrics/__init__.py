"""
Metrics under controller-runtime's names, so that existing dashboards and alerts work; ours begin with `ktrain_`.

    registry      `Metrics`: makes instruments in one prometheus registry, or ones that do nothing; bounds their series
    client, cache, queue, controller, election,
    events, webhook, loop                             which instruments each part of the framework has

There are no globals: two managers in one process have two registries, or share one `Metrics` on purpose.
"""

from .registry import Metrics as Metrics

__all__ = ["Metrics"]
