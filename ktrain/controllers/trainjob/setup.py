"""Makes the controllers of TrainJobs: the reconciler, what it reads, and what wakes it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from ktrain.api import trainer as api
from ktrain.framework.controller.controller import Controller
from ktrain.framework.controller.predicates import Matching
from ktrain.framework.errors import Forbidden, FrameworkError, NotFound
from ktrain.framework.parallel import run_all
from ktrain.pipeline import Owned, Watch
from ktrain.plugins.jobset import JOB_SET_STATES

from ..scope import LIMITED, is_watched
from .indexes import Indexes
from .lookups import informers_of
from .metrics_observer import JobMetrics
from .missing import tell_of_missing
from .observe import RUNTIMES, SNAPSHOT_METADATA
from .reconciler import Reconciler
from .shared import Collector, SharedSnapshots, is_shared
from .waking import wake_by_changes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ktrain.api.meta import Json, Resource
    from ktrain.framework.cache.cache import Cache
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
NAMESPACES_AT_ONCE: Final = 16
"""So many namespaces are asked about one kind at a time."""
DISCOVERY_TIMEOUT_S: Final = 5.0
"""For the answer whether a kind may be listed."""
_NEVER: Final[Matching[Any]] = Matching(lambda _: False)


def make_controller(
    client: Client,
    cache: Cache,
    env: Env,
    recorder: EventRecorder,
    registry: Registry,
    *,
    config: Mapping[str, Json] | None = None,
    shared: SharedSnapshots | None = None,
    shows_state: bool = True,
    max_concurrent_reconciles: int = 16,
    metrics: Metrics | None = None,
    job_metrics: JobMetrics | None = None,
    tracing: Tracing | None = None,
) -> Controller:
    """
    Make the TrainJob controller. `config` holds the plugins' sections by plugin name; whoever made it may replace a
    section, and the next pass sees the new one. `shared` is also given to the collector (`make_collector`), if
    snapshots are to be shared. `shows_state` is the feature gate TrainJobState. `job_metrics` (`make_job_metrics`)
    learns the trace of each reconcile; it runs beside the controller.

    Every kind that *registry* watches must be served, or the controller waits for it: see `without_unserved`.

    Passes are short and mostly wait for the API server, so many run at once: one slow call must not hold up the rest.
    """
    if tracing is not None:
        registry.calls.tracing = tracing
    shared = shared or SharedSnapshots(client, cache, metrics=metrics)
    # Beside what plugins watch: jobs, runtimes, and snapshots by their metadata.
    kinds: tuple[Resource[Any], ...] = (api.TRAIN_JOBS, *RUNTIMES.values())
    kinds = tuple(kind for kind in kinds if is_watched(cache, kind))
    informers = informers_of(cache, kinds, (Watch(SNAPSHOT_METADATA, Owned()), *registry.watches))
    indexes = Indexes(informers, registry.indexes)
    reconciler = Reconciler(
        client,
        env,
        recorder,
        registry,
        informers,
        config=config or {},
        find=indexes.find,
        shared=shared,
        shows_state=shows_state,
        wake=lambda key, after_s: controller.enqueue(key, after_s=after_s),
        metrics=metrics,
    )
    reconcile = reconciler.reconcile
    controller = Controller(
        NAME,
        job_metrics.traced(reconcile, tracing) if job_metrics and tracing else reconcile,
        env=env,
        cache=cache,
        max_concurrent_reconciles=max_concurrent_reconciles,
        metrics=metrics,
        tracing=tracing,
        while_missing=partial(tell_of_missing, recorder, informers[api.TRAIN_JOBS]),
    )
    wake_by_changes(controller, reconciler, informers, shared, registry.watches, indexes)
    return controller


def make_job_metrics(metrics: Metrics | None, cache: Cache, env: Env) -> JobMetrics | None:
    """Make what keeps the metrics of TrainJobs, to be run while this process leads; None if no metrics are served."""
    return None if metrics is None or metrics.registry is None else JobMetrics(metrics, cache, env)


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


async def without_unserved(registry: Registry, client: Client, namespaces: Sequence[str] = ()) -> Registry:
    """
    Return the registry with nothing watched of kinds that the API server does not serve, or does not let us list.

    A plugin for a scheduler that this cluster does not have must not keep everybody's jobs from running, as a cache
    that never fills would. JobSets are not asked about: without them nothing runs. Asked once, at the start, for all
    kinds side by side, so that an API server that never answers costs `DISCOVERY_TIMEOUT_S` for each version of a kind.

    With *namespaces*, only these are asked for, and kinds that are in no namespace are left out. One that may be listed
    in some of them is not: it is followed there.
    """
    answers: dict[Resource[Any], str] = {JOB_SET_STATES: ""}

    async def ask(resource: Resource[Any]) -> None:
        answers[resource] = await _reason_to_leave_out(resource, client, namespaces)

    while unknown := dict.fromkeys(each for watch in registry.watches for each in _next_to_ask(watch, answers)):
        await run_all([partial(ask, resource) for resource in unknown], limit=len(unknown))
    for watch in registry.watches:
        reasons = [answers[version.resource] for version in watch.chain if version.resource in answers]
        if all(reasons):
            log.warning("plugin.kind_left_out", kind=watch.resource.qualified_name, reason="; ".join(reasons))
    return registry.without_kinds({resource for resource, reason in answers.items() if reason})


def _next_to_ask(watch: Watch, answers: Mapping[Resource[Any], str]) -> Iterator[Resource[Any]]:
    """Yield the first version of a kind that may be the one to watch, if it was not asked about yet."""
    first = next((one.resource for one in watch.chain if not answers.get(one.resource)), None)
    if first is not None and first not in answers:
        yield first


async def _reason_to_leave_out(resource: Resource[Any], client: Client, namespaces: Sequence[str]) -> str:
    """Return why nobody can watch a kind here; nothing if one can."""
    if namespaces and not resource.namespaced:
        return LIMITED.format(resource.qualified_name)

    refusals: list[Forbidden] = []

    async def ask(namespace: str) -> None:
        try:
            await client.raw("GET", resource.path(namespace), query=[("limit", "1")], timeout_s=DISCOVERY_TIMEOUT_S)
        except Forbidden as error:
            refusals.append(error)

    asked = namespaces or ("",)
    try:
        await run_all([partial(ask, namespace) for namespace in asked], limit=NAMESPACES_AT_ONCE)
    except NotFound as error:
        return f"{resource.api_version}: {error}"
    except FrameworkError as error:
        # No proof of absence; the cache waits for it, and says what it waits for.
        log.warning("plugin.kind_not_known", kind=resource.qualified_name, reason=str(error))
    return f"{resource.api_version}: {refusals[0]}" if len(refusals) == len(asked) else ""
