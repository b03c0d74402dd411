"""
Whose pod a pod is: a Job controls what its owner reference says, adopts what its selector finds and nobody controls,
and lets go what no longer has its labels.

A pod that no living Job answers for would keep its tracking finalizer for ever, and could not be deleted. So a second
controller, over pods, takes the finalizer from those whose Job is gone, finished, or no longer theirs.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api.core import PODS, Pod
from ktrain.api.meta import Json, Key, owner_reference
from ktrain.api.selectors import LabelSelector
from ktrain.framework import Cache, Client, Controller, Env, Informer, PatchType
from ktrain.framework.errors import NotFound
from ktrain.framework.parallel import run_all

from .counting import is_tracked
from .types import JOBS, TRACKING_FINALIZER, Job

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ktrain.framework.metrics import Metrics

PARALLEL_CALLS: Final = 16
_BY_CONTROLLER: Final = "controller"
_UNCONTROLLED: Final = "uncontrolled"


class Claims:
    """The pods of Jobs."""

    def __init__(self, client: Client, jobs: Informer[Job], pods: Informer[Pod]) -> None:
        self._client = client
        self._jobs = jobs
        self._pods = pods
        pods.add_index(_BY_CONTROLLER, _controller_of)
        pods.add_index(_UNCONTROLLED, _namespace_if_uncontrolled)

    async def pods_of(self, job: Job) -> list[Pod]:
        """Return the Job's pods, after adopting and letting go."""
        selector = _selector(bytes(job.spec.selector))
        mine: list[Pod] = []
        strangers: list[Pod] = []
        for pod in self._pods.by_index(_BY_CONTROLLER, job.metadata.uid):
            fits = job.metadata.deletion_timestamp is not None or selector.matches(pod.metadata.labels)
            (mine if fits else strangers).append(pod)
        if job.metadata.deletion_timestamp is not None:
            return mine
        found = [pod for pod in self._uncontrolled(job.metadata.namespace) if selector.matches(pod.metadata.labels)]
        if not found and not strangers:
            return mine
        if found and not await self._is_alive(job):
            return mine
        await run_all([partial(self._let_go, job, pod) for pod in strangers], limit=PARALLEL_CALLS)
        await run_all([partial(self._adopt, job, pod, mine) for pod in found], limit=PARALLEL_CALLS)
        return mine

    def jobs_of(self, pod: Pod) -> Iterable[Key]:
        """Name the Job that controls the pod, or those that may adopt it."""
        owner = pod.metadata.controller
        if owner is not None:
            return [Key(pod.metadata.namespace, owner.name)] if owner.kind == "Job" else []
        labels = pod.metadata.labels
        return [
            job.key
            for job in self._jobs.list(pod.metadata.namespace)
            if not job.is_finished and _selector(bytes(job.spec.selector)).matches(labels)
        ]

    def left_behind(self, job: Job) -> Iterable[Key]:
        """Name the pods that still have the finalizer of a Job that is over or gone."""
        if self._answers(job.key, job.metadata.uid):
            return []
        return [pod.key for pod in self._pods.by_index(_BY_CONTROLLER, job.metadata.uid) if is_tracked(pod)]

    def answers_for(self, pod: Pod) -> bool:
        """Whether somebody will take the pod's finalizer away when it is counted."""
        owner = pod.metadata.controller
        if owner is None:
            return False
        if owner.kind != "Job":
            return True
        return self._answers(Key(pod.metadata.namespace, owner.name), owner.uid)

    def _answers(self, key: Key, uid: str) -> bool:
        job = self._jobs.get(key)
        return job is not None and job.metadata.uid == uid and not (job.is_ours and job.is_finished)

    async def release(self, pods: Iterable[Pod]) -> None:
        """Take the finalizer from pods that have it."""
        tracked = [partial(self._release, pod) for pod in pods if is_tracked(pod)]
        if tracked:
            await run_all(tracked, limit=PARALLEL_CALLS)

    def _uncontrolled(self, namespace: str) -> Iterable[Pod]:
        found = self._pods.by_index(_UNCONTROLLED, namespace)
        return [pod for pod in found if pod.metadata.deletion_timestamp is None]

    async def _is_alive(self, job: Job) -> bool:
        """Ask the server, not the cache: a Job that is being deleted must not take what its deletion just let go."""
        try:
            fresh = await self._client.get(JOBS, job.metadata.name, job.metadata.namespace)
        except NotFound:
            return False
        return fresh.metadata.uid == job.metadata.uid and fresh.metadata.deletion_timestamp is None

    async def _adopt(self, job: Job, pod: Pod, mine: list[Pod]) -> None:
        own = owner_reference("batch/v1", "Job", job.metadata.name, job.metadata.uid)
        others = [msgspec.to_builtins(ref) for ref in pod.metadata.owner_references]
        finalizers = [*pod.metadata.finalizers, *(() if is_tracked(pod) else (TRACKING_FINALIZER,))]
        adopted = await self._patch(pod, {"ownerReferences": [*others, own], "finalizers": finalizers})
        if adopted is not None:
            mine.append(adopted)

    async def _let_go(self, job: Job, pod: Pod) -> None:
        kept = [msgspec.to_builtins(ref) for ref in pod.metadata.owner_references if ref.uid != job.metadata.uid]
        finalizers = [name for name in pod.metadata.finalizers if name != TRACKING_FINALIZER]
        await self._patch(pod, {"ownerReferences": kept or None, "finalizers": finalizers or None})

    async def _release(self, pod: Pod) -> None:
        # By name, so it does not matter what else happened to the pod since it was read: its deletion, for one.
        metadata: Json = {"uid": pod.metadata.uid, "$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}
        with suppress(NotFound):
            await self._client.patch(PODS, pod.key, {"metadata": metadata}, type=PatchType.STRATEGIC)

    async def _patch(self, pod: Pod, metadata: Json) -> Pod | None:
        # The lists are written whole, so they must not have changed since they were read.
        precondition = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
        try:
            return await self._client.patch(
                PODS, pod.key, {"metadata": {**precondition, **metadata}}, type=PatchType.MERGE
            )
        except NotFound:
            return None


def make_orphan_controller(cache: Cache, env: Env, claims: Claims, metrics: Metrics | None = None) -> Controller:
    """Make the controller that takes the finalizer from pods for which no Job answers any more."""
    jobs, pods = cache.informer(JOBS), cache.informer(PODS)

    async def reconcile(key: Key) -> None:
        pod = pods.get(key)
        if pod is not None and is_tracked(pod) and not claims.answers_for(pod):
            await claims.release([pod])

    controller = Controller(
        "job-orphans", reconcile, env=env, cache=cache, max_concurrent_reconciles=4, metrics=metrics
    )
    controller.watches(pods, lambda pod: [pod.key] if is_tracked(pod) and not claims.answers_for(pod) else ())
    controller.watches(jobs, claims.left_behind)
    return controller


def _controller_of(pod: Pod) -> Iterable[str]:
    owner = pod.metadata.controller
    if owner is not None:
        yield owner.uid


def _namespace_if_uncontrolled(pod: Pod) -> Iterable[str]:
    if pod.metadata.controller is None:
        yield pod.metadata.namespace


@lru_cache(maxsize=1024)
def _selector(text: bytes) -> LabelSelector:
    return LabelSelector.from_object(msgspec.json.decode(text) or None)
