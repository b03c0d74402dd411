"""
Who is woken by what: the TrainJobs that a change concerns.

- A job is woken by its own changes, but for those that its last pass wrote.
- A runtime wakes the jobs that may wait for it.
- A snapshot and a JobSet wake the job that owns them, but for what brings nothing new (`memories.py`); once gone, also
  the one that has their name, which they may have kept from having its own.
- A shared snapshot that is gone wakes the jobs that run on it.
- A change of another kind that a plugin watches wakes the jobs that the plugin's `Watch` says it concerns.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ktrain.api import trainer as api
from ktrain.api.meta import Key
from ktrain.framework.controller.predicates import Events, Matching
from ktrain.pipeline import Mapped, Owned, Suspended
from ktrain.plugins.jobset import JOB_SET_STATES

from .indexes import MappedKeys
from .observe import RUNTIMES, SNAPSHOT_METADATA
from .shared import is_shared

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ktrain.api.meta import Object, Resource
    from ktrain.framework.cache.informer import Informer
    from ktrain.framework.controller.controller import Controller
    from ktrain.pipeline import Watch

    from .indexes import Indexes
    from .reconciler import Reconciler
    from .shared import SharedSnapshots

_BY_RUNTIME: Final = "waiting-for-runtime"
_SUSPENDED: Final = "suspended"
_ANYWHERE: Final = ""
_GONE: Final[Events[Any]] = Events(added=lambda _: False, updated=lambda _old, _new: False)
_SHARED_GONE: Final = Matching(is_shared) & _GONE


def wake_by_changes(
    controller: Controller,
    reconciler: Reconciler,
    informers: Mapping[Resource[Any], Informer[Any]],
    shared: SharedSnapshots,
    watches: Iterable[Watch],
    indexes: Indexes,
) -> None:
    """Have changes wake the jobs that they concern; *informers* are of all that passes read, *watches* among it."""
    # First of all, before the handlers that wake the owner.
    memories = reconciler.memories
    shared.job_sets.add_handler(memories)
    jobs: Informer[api.TrainJob] = informers[api.TRAIN_JOBS]
    controller.watches(jobs, predicate=Events(updated=memories.is_news_of_job))
    _by_runtimes(controller, jobs, [informers[kind] for kind in RUNTIMES.values() if kind in informers])
    made_by_others: Events[Any] = Events(added=memories.is_news_of_child)
    of_job_sets: Events[Any] = Events(added=memories.is_news_of_child, updated=memories.is_news_of_job_set)
    predicates: Mapping[Resource[Any], Events[Any]] = {JOB_SET_STATES: of_job_sets, SNAPSHOT_METADATA: made_by_others}
    controller.owns(informers[SNAPSHOT_METADATA], owner=api.TRAIN_JOBS, predicate=made_by_others)
    controller.watches(shared.config_maps, partial(_on_shared, shared), predicate=_SHARED_GONE)
    for children in (shared.job_sets, informers[SNAPSHOT_METADATA]):
        controller.watches(children, partial(_with_name, jobs), predicate=_GONE)
    jobs.add_index(_SUSPENDED, _where_suspended)
    for watch in dict.fromkeys(watches):  # two plugins may want the same
        informer, known = informers[watch.resource], predicates.get(watch.resource)
        predicate = known & watch.predicate if known and watch.predicate else known or watch.predicate
        match watch.concerns:
            case Owned():
                controller.owns(informer, owner=api.TRAIN_JOBS, predicate=predicate)
            case Suspended():
                controller.watches(informer, partial(_suspended, jobs), predicate=watch.predicate)
            case Mapped() as mapped:
                controller.watches(informer, MappedKeys(mapped, indexes), predicate=watch.predicate)


def _by_runtimes(
    controller: Controller, jobs: Informer[api.TrainJob], informers: Iterable[Informer[api.Runtime]]
) -> None:
    jobs.add_index(_BY_RUNTIME, _runtime_waited_for)
    for runtimes in informers:
        controller.watches(runtimes, partial(_waiting, jobs))


def _runtime_waited_for(job: api.TrainJob) -> Iterable[str]:
    """
    Index jobs that may wait for their runtime: those without a sign of life.

    Go's Trainer looks again after its back-off only, up to 16 minutes after the missing runtime was created.
    """
    if job.status.jobs_status or job.is_finished:
        return ()
    return (job.runtime_id,)


def _waiting(jobs: Informer[api.TrainJob], runtime: Object) -> Iterable[Key]:
    return [job.key for job in jobs.by_index(_BY_RUNTIME, f"{runtime.kind}/{runtime.key}")]


def _on_shared(shared: SharedSnapshots, config_map: Object) -> Iterable[Key]:
    return [job_set.key for job_set in shared.job_sets_on(config_map.key)]


def _with_name(jobs: Informer[api.TrainJob], obj: Object) -> Iterable[Key]:
    """
    Wake the job whose JobSet or snapshot has the name of an object that is gone; it may have been of another TrainJob.

    One that was of nobody's wakes who has met it: see `Lookups`.
    """
    key = Key(obj.metadata.namespace, obj.metadata.name.removesuffix(api.SNAPSHOT_SUFFIX))
    return [key] if jobs.get(key) else []


def _where_suspended(job: api.TrainJob) -> Iterable[str]:
    """Index suspended jobs by their namespace, and all together."""
    return (job.metadata.namespace, _ANYWHERE) if job.is_suspended and not job.is_finished else ()


def _suspended(jobs: Informer[api.TrainJob], obj: Object) -> Iterable[Key]:
    return [job.key for job in jobs.by_index(_SUSPENDED, obj.metadata.namespace or _ANYWHERE)]
