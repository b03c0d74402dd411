"""
The pod controller of exclusive placement: followers that are not where their leader is start again.

A leader that was evicted and came to another domain leaves its followers behind in the old one. They are marked as
disrupted, so that no failure policy blames the Job, and deleted; those made in their place find the new leader.

Jobs on nodes labelled by hand have no leaders: their pods carry another selector and are where they should be.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ktrain.api.core import NODES
from ktrain.api.jobset import EXCLUSIVE_TOPOLOGY, JOB_KEY, JOBSET_NAME, PLACED_PODS, PlacedPod
from ktrain.api.meta import Key, format_time
from ktrain.framework import Controller
from ktrain.framework.client.options import PatchType
from ktrain.framework.controller.predicates import Matching
from ktrain.framework.errors import Conflict, FrameworkError, NotFound
from ktrain.framework.parallel import run_all

from .placement import Misplaced, domain_of, is_leader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ktrain.api.meta import Json, Object
    from ktrain.framework import Cache, Client, Env
    from ktrain.framework.metrics import Metrics
    from ktrain.framework.telemetry.tracing import Tracing

PARALLEL_CALLS: Final = 50
BY_JOB: Final = "exclusive-job"
"""Index of pods: job key and UID of the Job that controls them."""
BY_JOBSET: Final = "exclusive-jobset"
"""Index of pods: namespace and name of the JobSet."""


class TopologyUnknown(FrameworkError):
    """Nobody can tell where a leader is; tried again with back-off."""


class PlacedPods:
    """JobSets' pods and the nodes they are on, from caches: what placement looks up. One for each cache."""

    def __init__(self, cache: Cache) -> None:
        self.pods = cache.informer(PLACED_PODS, label_selector=JOBSET_NAME)
        self.pods.add_index(BY_JOB, _job)
        self.pods.add_index(BY_JOBSET, _jobset)
        self._nodes = cache.informer(NODES)

    def pods_of(self, namespace: str, jobset: str) -> Iterable[PlacedPod]:
        """Return the pods labelled as those of a JobSet."""
        return self.pods.by_index(BY_JOBSET, f"{namespace}/{jobset}")

    def siblings(self, pod: PlacedPod) -> Iterable[PlacedPod]:
        """Return the pods of the same Job object; job keys alone could be those of an earlier one."""
        for job in _job(pod):
            yield from self.pods.by_index(BY_JOB, job)

    def node(self, name: str) -> Object | None:
        """Return a node."""
        return self._nodes.get(Key("", name))


def _job(pod: PlacedPod) -> Iterable[str]:
    owner = pod.metadata.controller
    if owner is not None and JOB_KEY in pod.metadata.labels:
        yield f"{pod.metadata.labels[JOB_KEY]} {owner.uid}"


def _jobset(pod: PlacedPod) -> Iterable[str]:
    yield f"{pod.metadata.namespace}/{pod.metadata.labels.get(JOBSET_NAME, '')}"


def make_pod_controller(
    client: Client,
    cache: Cache,
    env: Env,
    placed: PlacedPods,
    *,
    metrics: Metrics | None = None,
    tracing: Tracing | None = None,
) -> Controller:
    """Make the controller, under upstream's name. Leaders wake it."""
    reconciler = PodReconciler(client, env, placed)
    controller = Controller("pod", reconciler.reconcile, env=env, cache=cache, metrics=metrics, tracing=tracing)
    controller.for_(placed.pods, predicate=Matching(is_leader))
    return controller


class PodReconciler:
    """Keeps the pods of one Job where their leader is."""

    def __init__(self, client: Client, env: Env, placed: PlacedPods) -> None:
        self._client = client
        self._env = env
        self._placed = placed

    async def reconcile(self, key: Key) -> None:
        """Delete the followers of a leader, if one of them is elsewhere: all, as they come back within seconds."""
        leader = self._placed.pods.get(key)
        if leader is None or leader.metadata.deletion_timestamp is not None or not leader.spec.node_name:
            return
        topology = leader.metadata.annotations[EXCLUSIVE_TOPOLOGY]
        followers = [pod for pod in self._placed.siblings(leader) if pod.metadata.uid != leader.metadata.uid]
        if not followers:
            return
        try:
            domain = domain_of(self._placed.node(leader.spec.node_name), leader.spec.node_name, topology)
        except Misplaced as error:
            raise TopologyUnknown(f"pod {key}: {error}") from error
        if any(pod.spec.node_selector.get(topology) != domain for pod in followers):
            await run_all([partial(self._evict, pod) for pod in followers], limit=PARALLEL_CALLS)

    async def _evict(self, pod: PlacedPod) -> None:
        if pod.metadata.deletion_timestamp is not None:
            return
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "ExclusivePlacementViolation",
            "message": "Pod violated JobSet exclusive placement policy",
            "lastTransitionTime": format_time(self._env.clock.now()),
        }
        body: Json = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(PLACED_PODS, pod.key, body, type=PatchType.STRATEGIC, subresource="status")
            await self._client.delete(PLACED_PODS, pod.key, uid=pod.metadata.uid, propagation="Background")
        except (NotFound, Conflict):
            return  # it is gone, and another may be there by its name
