"""Connects the reconciler to informers: what is watched, and whose key a change concerns."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from ktrain.api import trainer as api
from ktrain.api.meta import Key, Resource
from ktrain.framework.controller.controller import Controller
from ktrain.framework.controller.predicates import Events, Matching
from ktrain.framework.errors import Forbidden, FrameworkError, NotFound
from ktrain.plugins.jobset import JOB_SET_STATES

from .lookups import informer_of
from .observe import SNAPSHOT_METADATA
from .reconciler import Reconciler
from .shared import Collector, SharedSnapshots, is_shared

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ktrain.api.meta import Json, Object
    from ktrain.framework.cache.cache import Cache
    from ktrain.framework.cache.informer import Informer
    from ktrain.framework.client.client import Client
    from ktrain.framework.controller.predicates import Predicate
    from ktrain.framework.env import Env
    from ktrain.framework.events import EventRecorder
    from ktrain.framework.metrics import Metrics
    from ktrain.framework.telemetry.tracing import Tracing
    from ktrain.pipeline import Registry
    from ktrain.pipeline.points import Watch

log = structlog.get_logger(__name__)

NAME: Final = "trainjob_controller"
"""Go's name; dashboards select by it."""
COMPONENT: Final = "trainer-trainjob-controller"
"""For the event recorder: who reports. Go's name, too."""
_BY_RUNTIME: Final = "waiting-for-runtime"
_SUSPENDED: Final = "suspended"
_ANYWHERE: Final = ""


def make_controller(
    client: Client,
    cache: Cache,
    env: Env,
    recorder: EventRecorder,
    registry: Registry,
    *,
    config: Mapping[str, Json] | None = None,
    shared: SharedSnapshots | None = None,
    max_concurrent_reconciles: int = 16,
    metrics: Metrics | None = None,
    tracing: Tracing | None = None,
) -> Controller:
    """
    Make the TrainJob controller. `config` holds the plugins' sections by plugin name; whoever made it may replace a
    section, and the next pass sees the new one. `shared` is also given to the collector (`make_collector`), if
    snapshots are to be shared.

    Every kind that *registry* watches must be served, or the controller waits for it: see `without_unserved`.

    Passes are short and mostly wait for the API server, so many run at once: one slow call must not hold up the rest.
    """
    informers: dict[Resource[Any], Informer[Any]] = {}
    shared = shared or SharedSnapshots(client, cache)

    for resource in (api.TRAIN_JOBS, api.TRAINING_RUNTIMES, api.CLUSTER_TRAINING_RUNTIMES):
        informers[resource] = cache.informer(resource)
    informers[SNAPSHOT_METADATA] = shared.config_maps
    watches = tuple(dict.fromkeys(registry.watches))  # two plugins may want the same
    for watch in watches:
        informers.setdefault(watch.resource, informer_of(cache, watch))
    reconciler = Reconciler(
        client,
        env,
        recorder,
        registry,
        informers,
        config=config or {},
        shared=shared,
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
    jobs = informers[api.TRAIN_JOBS]
    jobs.add_index(_BY_RUNTIME, _runtime_waited_for)
    jobs.add_index(_SUSPENDED, _where_suspended)
    controller.watches(jobs, predicate=Events(updated=reconciler.is_news_of_job))
    for kind in (api.TRAINING_RUNTIMES, api.CLUSTER_TRAINING_RUNTIMES):
        controller.watches(informers[kind], lambda runtime: _waiting(jobs, runtime))
    made_by_others = Events(added=reconciler.is_news_of_child)
    controller.owns(shared.config_maps, owner=api.TRAIN_JOBS, predicate=made_by_others)
    # Before the handler that wakes the owner.
    shared.job_sets.add_handler(reconciler)
    controller.watches(shared.config_maps, partial(_on_shared, shared), predicate=_SHARED_GONE)
    named_like_jobs: tuple[Informer[Any], ...] = (shared.job_sets, shared.config_maps)
    for taken in named_like_jobs:
        controller.watches(taken, partial(_with_name, jobs), predicate=_GONE)
    for watch in watches:
        predicate = made_by_others if watch.resource in (JOB_SET_STATES, SNAPSHOT_METADATA) else None
        _follow(controller, watch, informers[watch.resource], jobs, predicate)
    return controller


def _follow(
    controller: Controller,
    watch: Watch,
    watched: Informer[Any],
    jobs: Informer[api.TrainJob],
    predicate: Predicate[Any] | None,
) -> None:
    """Have changes of a kind that a plugin watches wake the jobs that it says."""
    if watch.owned:
        controller.owns(watched, owner=api.TRAIN_JOBS, predicate=predicate)
    elif watch.keys:
        controller.watches(watched, watch.keys, predicate=predicate)
    elif watch.suspended:
        controller.watches(watched, lambda obj: _suspended(jobs, obj), predicate=predicate)


def make_collector(
    shared: SharedSnapshots,
    cache: Cache,
    env: Env,
    *,
    metrics: Metrics | None = None,
    tracing: Tracing | None = None,
) -> Controller:
    """Make the controller that deletes shared snapshots which nobody needs any more, one at a time."""
    reconcile = Collector(shared, cache, env).reconcile
    controller = Controller("snapshot_collector", reconcile, env=env, cache=cache, metrics=metrics, tracing=tracing)
    controller.for_(shared.config_maps, predicate=Matching(is_shared))
    # Until both are known completely, nobody can tell what is unused.
    controller.watches(shared.job_sets, predicate=_NEVER)
    controller.watches(cache.informer(api.TRAIN_JOBS), predicate=_NEVER)
    return controller


_NEVER: Final[Matching[Any]] = Matching(lambda _: False)
_GONE: Final[Events[Any]] = Events(added=lambda _: False, updated=lambda _old, _new: False)
_SHARED_GONE: Final = Matching(is_shared) & _GONE


def _on_shared(shared: SharedSnapshots, config_map: Object) -> Iterable[Key]:
    return [job_set.key for job_set in shared.job_sets_on(config_map.key)]


def _with_name(jobs: Informer[api.TrainJob], obj: Object) -> Iterable[Key]:
    """
    Wake the job whose JobSet or snapshot has the name of an object that is gone; it may have been of another TrainJob.

    What nobody holds wakes who has met it: see `Lookups`.
    """
    key = Key(obj.metadata.namespace, obj.metadata.name.removesuffix(api.SNAPSHOT_SUFFIX))
    return [key] if jobs.get(key) else []


async def without_unserved(registry: Registry, client: Client) -> Registry:
    """
    Return the registry with nothing watched of kinds that the API server does not serve, or does not let us list.

    A plugin for a scheduler that this cluster does not have must not keep everybody's jobs from running, as a cache
    that never fills would. JobSets are not asked about: without them nothing runs. Asked once, at the start.
    """
    answers: dict[Resource[Any], str] = {JOB_SET_STATES: ""}
    for watch in registry.watches:
        reasons: list[str] = []
        for version in watch.chain:
            if version.resource not in answers:
                answers[version.resource] = await _reason_to_leave_out(version.resource, client)
            reasons.append(answers[version.resource])
            if not reasons[-1]:
                break
        else:
            log.warning("plugin.kind_left_out", kind=watch.resource.qualified_name, reason="; ".join(reasons))
    return registry.without_kinds({resource for resource, reason in answers.items() if reason})


async def _reason_to_leave_out(resource: Resource[Any], client: Client) -> str:
    """Return why nobody can watch a kind here; nothing if one can."""
    try:
        await client.raw("GET", resource.path(), query=[("limit", "1")])
    except (NotFound, Forbidden) as error:
        return f"{resource.api_version}: {error}"
    except FrameworkError as error:
        # No proof of absence; the cache waits for it, and says what it waits for.
        log.warning("plugin.kind_not_known", kind=resource.qualified_name, reason=str(error))
    return ""


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


def _where_suspended(job: api.TrainJob) -> Iterable[str]:
    """Index suspended jobs by their namespace, and all together."""
    return (job.metadata.namespace, _ANYWHERE) if job.is_suspended and not job.is_finished else ()


def _suspended(jobs: Informer[api.TrainJob], obj: Object) -> Iterable[Key]:
    return [job.key for job in jobs.by_index(_SUSPENDED, obj.metadata.namespace or _ANYWHERE)]
