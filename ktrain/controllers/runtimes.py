"""
The runtimes' controllers: take the finalizer `resource-in-use` off, and nothing else.

Kubeflow Trainer 2.0 to 2.2 put it on every runtime in use. Since jobs run on snapshots, runtimes may go at any time,
and a finalizer that nobody removes would keep them for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ktrain.api import trainer as api
from ktrain.api.rbac import right
from ktrain.framework.controller.controller import Controller
from ktrain.framework.errors import Conflict, NotFound

from .scope import is_watched

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ktrain.api.meta import Key
    from ktrain.framework.cache.cache import Cache
    from ktrain.framework.cache.informer import Informer
    from ktrain.framework.client.client import Client
    from ktrain.framework.controller.controller import Reconcile
    from ktrain.framework.env import Env
    from ktrain.framework.metrics import Metrics
    from ktrain.framework.telemetry.tracing import Tracing

_WHY: Final = "runtimes; patched only to take off the finalizer of Kubeflow Trainer 2.0 to 2.2"
RIGHTS: Final = (
    right("watched", api.TRAINING_RUNTIMES, "list", "watch", "patch", reason=_WHY),
    right("cluster", api.CLUSTER_TRAINING_RUNTIMES, "list", "watch", "patch", reason=_WHY),
)
_NAMES: Final = (
    (api.TRAINING_RUNTIMES, "trainingruntime_controller"),
    (api.CLUSTER_TRAINING_RUNTIMES, "clustertrainingruntime_controller"),
)


def make_controllers(
    client: Client,
    cache: Cache,
    env: Env,
    *,
    concurrency: Mapping[str, int] | None = None,
    metrics: Metrics | None = None,
    tracing: Tracing | None = None,
) -> tuple[Controller, ...]:
    """Make a controller of each kind that is watched, under Go's name. `concurrency`: by `Kind.group`."""
    workers = concurrency or {}
    controllers = []
    for resource, name in _NAMES:
        if not is_watched(cache, resource):
            continue
        informer = cache.informer(resource)
        controller = Controller(
            name,
            _reconcile(client, informer),
            env=env,
            cache=cache,
            max_concurrent_reconciles=workers.get(f"{resource.kind}.{resource.group}", 1),
            metrics=metrics,
            tracing=tracing,
        )
        controller.for_(informer)
        controllers.append(controller)
    return tuple(controllers)


def _reconcile(client: Client, informer: Informer[Any]) -> Reconcile:
    async def reconcile(key: Key) -> None:
        runtime = informer.get(key)
        if runtime is None or api.IN_USE_FINALIZER not in runtime.metadata.finalizers:
            return
        left = [finalizer for finalizer in runtime.metadata.finalizers if finalizer != api.IN_USE_FINALIZER]
        # The resource version keeps a finalizer that somebody adds meanwhile.
        metadata = {"resourceVersion": runtime.metadata.resource_version, "finalizers": left or None}
        try:
            await client.patch(informer.resource, key, {"metadata": metadata})
        except (NotFound, Conflict):
            return  # it is gone, or its next event brings it here again

    return reconcile
