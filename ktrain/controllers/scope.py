"""
What an operator does without where it watches single namespaces only (`watchNamespaces`).

Then Roles in these namespaces are all that it has, and no Role can allow to read a kind that is in no namespace:
ClusterTrainingRuntimes, RuntimeClasses, PriorityClasses and Nodes are not watched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ktrain.api.meta import Resource
    from ktrain.framework import Cache

LIMITED: Final = "the operator watches single namespaces only (watchNamespaces) and may not read {}"


def is_watched(cache: Cache, resource: Resource[Any]) -> bool:
    """Whether an operator with this cache watches a kind that it needs."""
    return resource.namespaced or not cache.namespaces


def no_cluster_runtimes(name: str, namespace: str) -> str:
    """Say of a TrainJob's ClusterTrainingRuntime that it cannot be used, and what to do."""
    limited = LIMITED.format("ClusterTrainingRuntimes")
    return f'{limited}: create "{name}" as a TrainingRuntime in namespace {namespace}, and refer to that'
