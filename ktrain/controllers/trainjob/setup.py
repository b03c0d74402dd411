"""Connects the reconciler to informers: what is watched, and whose key a change concerns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import structlog

from ktrain.api import trainer as api
from ktrain.api.meta import Key, Resource
from ktrain.framework.controller.controller import Controller
from ktrain.framework.errors import Forbidden, FrameworkError, NotFound
from ktrain.plugins.jobset import JOB_SET_STATES

from .observe import SNAPSHOT_METADATA
from .reconciler import Reconciler

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ktrain.api.meta import Json, Object
    from ktrain.framework.cache.cache import Cache
    from ktrain.framework.cache.informer import Informer
    from ktrain.framework.client.client import Client
    from ktrain.framework.env import Env
    from ktrain.framework.events import EventRecorder
    from ktrain.framework.metrics import Metrics
    from ktrain.framework.telemetry.tracing import Tracing
    from ktrain.pipeline import Registry

log = structlog.get_logger(__name__)

NAME: Final = "trainjob_controller"
"""Go's name; dashboards select by it."""
COMPONENT: Final = "trainer-trainjob-controller"
"""For the event recorder: who reports. Go's name, too."""
_BY_RUNTIME: Final = "waiting-for-runtime"


def make_controller(
    client: Client,
    cache: Cache,
    env: Env,
    recorder: EventRecorder,
    registry: Registry,
    *,
    config: Mapping[str, Json] | None = None,
    max_concurrent_reconciles: int = 16,
    metrics: Metrics | None = None,
    tracing: Tracing | None = None,
) -> Controller:
    """
    Make the TrainJob controller. `config` holds the plugins' sections by plugin name; whoever made it may replace a
    section, and the next pass sees the new one.

    Every kind that *registry* watches must be served, or the controller waits for it: see `without_unserved`.

    Passes are short and mostly wait for the API server, so many run at once: one slow call must not hold up the rest.
    """
    informers: dict[Resource[Any], Informer[Any]] = {}

    def informer(resource: Resource[Any]) -> Informer[Any]:
        if resource not in informers:
            informers[resource] = cache.informer(resource)
        return informers[resource]

    reconciler = Reconciler(
        client,
        env,
        recorder,
        registry,
        informers,
        config=config or {},
        wake=lambda key, after_s: controller.enqueue(key, after_s=after_s),
    )
    controller = Controller(
        NAME,
        reconciler.reconcile,
        env=env,
        cache=cache,
        max_concurrent_reconciles=max_concurrent_reconciles,
        metrics=metrics,
        tracing=tracing,
    )
    jobs = informer(api.TRAIN_JOBS)
    jobs.add_index(_BY_RUNTIME, _runtime_waited_for)
    controller.watches(jobs)
    for runtimes in (informer(api.TRAINING_RUNTIMES), informer(api.CLUSTER_TRAINING_RUNTIMES)):
        controller.watches(runtimes, lambda runtime: _waiting(jobs, runtime))
    controller.owns(informer(SNAPSHOT_METADATA), owner=api.TRAIN_JOBS)
    for watch in registry.watches:
        if watch.owned:
            controller.owns(informer(watch.resource), owner=api.TRAIN_JOBS)
        elif watch.keys:
            controller.watches(informer(watch.resource), watch.keys)
        else:
            informer(watch.resource)
    return controller


async def without_unserved(registry: Registry, client: Client) -> Registry:
    """
    Return the registry with nothing watched of kinds that the API server does not serve, or does not let us list.

    A plugin for a scheduler that this cluster does not have must not keep everybody's jobs from running, as a cache
    that never fills would. JobSets are not asked about: without them nothing runs. Asked once, at the start.
    """
    unserved: set[Resource[Any]] = set()
    for resource in {watch.resource: None for watch in registry.watches if watch.resource != JOB_SET_STATES}:
        try:
            await client.raw("GET", resource.path(), query=[("limit", "1")])
        except (NotFound, Forbidden) as error:
            log.warning("plugin.kind_left_out", kind=resource.qualified_name, reason=str(error))
            unserved.add(resource)
        except FrameworkError as error:
            # No proof of absence; the cache waits for it, and says what it waits for.
            log.warning("plugin.kind_not_known", kind=resource.qualified_name, reason=str(error))
    return registry.without_kinds(unserved)


def _runtime_waited_for(job: api.TrainJob) -> Iterable[str]:
    """
    Index jobs that may wait for their runtime: those without a sign of life.

    Go's Trainer looks again after its back-off only, up to 16 minutes after the missing runtime was created.
    """
    if job.status.jobs_status or job.is_finished:
        return ()
    ref = job.spec.runtime_ref
    namespace = job.metadata.namespace if ref.kind == api.TRAINING_RUNTIMES.kind else ""
    return (f"{ref.kind}/{Key(namespace, ref.name)}",)


def _waiting(jobs: Informer[api.TrainJob], runtime: Object) -> Iterable[Key]:
    return [job.key for job in jobs.by_index(_BY_RUNTIME, f"{runtime.kind}/{runtime.key}")]
