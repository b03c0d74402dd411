"""Connects the reconciler to informers: what is watched, and whose key a change concerns."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api.core import PERSISTENT_VOLUME_CLAIMS, SERVICES
from ktrain.api.jobset import CHILD_JOBS, GROUP, JOBSET_NAME, JOBSETS, JobSet
from ktrain.framework import Controller
from ktrain.framework.controller.predicates import GENERATION_CHANGED

from .admission import default_jobset
from .gates import OFF, Gates
from .metrics import JobSetMetrics
from .pod_controller import make_pod_controller
from .pods import JobSetPods, jobset_of
from .reconciler import BY_JOBSET, Informers, JobSetReconciler

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ktrain.api.meta import Key, Object
    from ktrain.framework import Cache, Client, Env, EventRecorder, Informer
    from ktrain.framework.metrics import Metrics
    from ktrain.framework.telemetry.tracing import Tracing

COMPONENT: Final = "jobset"
"""For the event recorder: who reports. Upstream's name, as that of the controller."""
FIELD_MANAGER: Final = "manager"
"""Owner of the fields that are written; upstream's name, too."""
CONCURRENCY: Final = 16
"""Passes mostly wait for the API server, one call at a time: so many keep it busy. Each may take a connection."""
PATIENCE_S: Final = 0.05
"""In a cluster: whoever made a JobSet is told of it before its Jobs come, and bursts of changes are one."""
BATCH_S_PER_JOB: Final = 1e-4
"""The Jobs of a JobSet change together. Each change seen alone would cost a write of the status, and a look at all of
them: about this long."""
MAX_BATCH_S: Final = 0.05


def make_controllers(
    client: Client,
    cache: Cache,
    env: Env,
    recorder: EventRecorder,
    *,
    gates: Gates = OFF,
    max_concurrent_reconciles: int = CONCURRENCY,
    patience_s: float = 0.0,
    pods: JobSetPods | None = None,
    defaults: bool = False,
    metrics: Metrics | None = None,
    tracing: Tracing | None = None,
) -> tuple[Controller, ...]:
    """
    Make the JobSet controller, and the one for pods of exclusive placement.

    The first watches JobSets, and the Jobs and Services they control. Of claims, only those labelled as a JobSet's are
    cached; one made by hand under the right name is found by posting. `pods` may be shared with the webhooks, and
    `patience_s` is how long a change of a JobSet waits for others. `defaults`: no webhook gives JobSets their defaults,
    so the controller reads them as if it had.
    """
    pods = pods or JobSetPods(cache)
    informers = Informers(
        # The TrainJob controller holds the same kinds by the few fields that it reads.
        jobsets=cache.informer(JOBSETS, overlaps=True, transform=_with_defaults if defaults else None),
        jobs=cache.informer(CHILD_JOBS, holds=_is_of_job_sets, overlaps=True),
        services=cache.informer(SERVICES, holds=_is_of_job_sets),
        claims=cache.informer(PERSISTENT_VOLUME_CLAIMS, label_selector=JOBSET_NAME),
        pods=pods,
    )
    informers.jobs.add_index(BY_JOBSET, _controlling_jobset)
    reconciler = JobSetReconciler(client, env, recorder, informers, gates=gates, metrics=JobSetMetrics(metrics))
    controller = Controller(
        "jobset",
        reconciler.reconcile,
        env=env,
        cache=cache,
        max_concurrent_reconciles=max_concurrent_reconciles,
        metrics=metrics,
        tracing=tracing,
    )
    controller.for_(informers.jobsets, predicate=GENERATION_CHANGED, batch_s=patience_s)
    # What users change has its pass at once; what this controller itself wrote of the Jobs waits for more of them.
    batch_s = partial(_batch_s, informers.jobsets, patience_s)
    controller.watches(informers.jobsets, predicate=~GENERATION_CHANGED, batch_s=batch_s)
    controller.owns(informers.jobs, owner=JOBSETS, batch_s=batch_s)
    controller.owns(informers.services, owner=JOBSETS)
    if gates.in_place_restart:
        controller.watches(pods.informer, lambda pod: (jobset_of(pod),))
    return controller, make_pod_controller(client, cache, env, pods, metrics=metrics, tracing=tracing)


def _with_defaults(jobset: JobSet) -> JobSet:
    """Return a stored JobSet with the webhook's defaults: without them pods have neither indexes nor host names."""
    body = msgspec.json.decode(msgspec.json.encode(jobset))
    return msgspec.json.decode(msgspec.json.encode(default_jobset(body)), type=JobSet)


def _batch_s(jobsets: Informer[JobSet], patience_s: float, key: Key) -> float:
    """How long a change of a Job waits for others: the longer, the more Jobs its JobSet has."""
    jobset = jobsets.get(key)
    jobs = 0 if jobset is None else sum(rj.replicas for rj in jobset.spec.replicated_jobs)
    return max(patience_s, min(jobs * BATCH_S_PER_JOB, MAX_BATCH_S))


def _controlling_jobset(child: Object) -> Iterable[str]:
    owner = child.metadata.controller
    if owner is not None and owner.kind == JOBSETS.kind and owner.api_version.startswith(f"{GROUP}/"):
        yield owner.uid


def _is_of_job_sets(child: Object) -> bool:
    """Of other people's Jobs and Services only the names matter."""
    return any(_controlling_jobset(child))
