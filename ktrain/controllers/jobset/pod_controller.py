"""
The pod controller of exclusive placement: followers that are not where their leader is start again.

A leader that was evicted and came to another domain leaves its followers behind in the old one. They are marked as
disrupted, so that no failure policy blames the Job, and deleted; those made in their place find the new leader.

Jobs on nodes labelled by hand have no leaders: their pods carry another selector and are where they should be.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ktrain.api.jobset import EXCLUSIVE_TOPOLOGY, JOBSET_PODS, JobSetPod
from ktrain.api.meta import format_time
from ktrain.framework import Controller
from ktrain.framework.client.options import PatchType
from ktrain.framework.controller.predicates import Matching
from ktrain.framework.errors import Conflict, FrameworkError, NotFound
from ktrain.framework.parallel import run_all

from .placement import Misplaced, domain_of, is_leader

if TYPE_CHECKING:
    from ktrain.api.meta import Json, Key
    from ktrain.framework import Cache, Client, Env
    from ktrain.framework.metrics import Metrics
    from ktrain.framework.telemetry.tracing import Tracing

    from .pods import JobSetPods

PARALLEL_CALLS: Final = 50


class TopologyUnknown(FrameworkError):
    """Nobody can tell where a leader is; tried again with back-off."""


def make_pod_controller(
    client: Client,
    cache: Cache,
    env: Env,
    pods: JobSetPods,
    *,
    metrics: Metrics | None = None,
    tracing: Tracing | None = None,
) -> Controller:
    """Make the controller, under upstream's name. Leaders wake it."""
    reconciler = PodReconciler(client, env, pods)
    controller = Controller("pod", reconciler.reconcile, env=env, cache=cache, metrics=metrics, tracing=tracing)
    controller.for_(pods.informer, predicate=Matching(is_leader))
    return controller


class PodReconciler:
    """Keeps the pods of one Job where their leader is."""

    def __init__(self, client: Client, env: Env, pods: JobSetPods) -> None:
        self._client = client
        self._env = env
        self._pods = pods

    async def reconcile(self, key: Key) -> None:
        """Delete the followers of a leader, if one of them is elsewhere: all, as they come back within seconds."""
        leader = self._pods.informer.get(key)
        if leader is None or not is_leader(leader) or not leader.spec.node_name:
            return
        if leader.metadata.deletion_timestamp is not None:
            return
        topology = leader.metadata.annotations[EXCLUSIVE_TOPOLOGY]
        followers = [
            pod
            for pod in self._pods.siblings(leader)
            if pod.metadata.uid != leader.metadata.uid and pod.metadata.deletion_timestamp is None
        ]
        if not followers:
            return
        try:
            domain = domain_of(self._pods.node(leader.spec.node_name), leader.spec.node_name, topology)
        except Misplaced as error:
            raise TopologyUnknown(f"pod {key}: {error}") from error
        if any(pod.spec.node_selector.get(topology) != domain for pod in followers):
            await run_all([partial(self._evict, pod) for pod in followers], limit=PARALLEL_CALLS)

    async def _evict(self, pod: JobSetPod) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "ExclusivePlacementViolation",
            "message": "Pod violated JobSet exclusive placement policy",
            "lastTransitionTime": format_time(self._env.clock.now()),
        }
        body: Json = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(JOBSET_PODS, pod.key, body, type=PatchType.STRATEGIC, subresource="status")
            await self._client.delete(JOBSET_PODS, pod.key, uid=pod.metadata.uid, propagation="Background")
        except (NotFound, Conflict):
            return  # it is gone, and another may be there by its name
