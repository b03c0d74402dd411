"""
The scheduler's controller: whatever happens that may let a pod start, one pass looks at all that wait.

One key stands for the whole cluster, so events that come together make one pass. The cache shows a binding some time
after it was made; until then it is assumed, or two pods would be promised the same device.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ktrain.api.meta import Json, Key, find_condition, format_time
from ktrain.framework import Cache, Client, Controller, Env, EventRecorder, Informer, PatchType, Result
from ktrain.framework.errors import ApiError, Conflict, Forbidden, NotFound
from ktrain.framework.parallel import run_all

from .gangs import COSCHEDULING, KUBERNETES, VOLCANO
from .objects import (
    BUDGETS,
    CLAIMS,
    COSCHEDULING_GROUPS,
    DEFINITIONS,
    KUBERNETES_GROUPS,
    NAMESPACES,
    NODES,
    PODS,
    PREEMPTED,
    VOLCANO_GROUPS,
    Budget,
    Claim,
    Definition,
    Namespace,
    Node,
    Pod,
    PodGroup,
)
from .planning import OUR_NAME, Cluster, Eviction, Plan, Waiting, make_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ktrain.api.meta import Resource
    from ktrain.framework.metrics import Metrics

COMPONENT: Final = OUR_NAME
PARALLEL_CALLS: Final = 16
LOOK_AGAIN_S: Final = 30.0
"""A pass while pods wait, in case an event was lost on the way."""
_PASS: Final = Key("", "cluster")
_GROUPS: Final = {KUBERNETES: KUBERNETES_GROUPS, COSCHEDULING: COSCHEDULING_GROUPS, VOLCANO: VOLCANO_GROUPS}


def make_scheduler(
    client: Client,
    cache: Cache,
    env: Env,
    recorder: EventRecorder,
    *,
    has_pod_groups: bool = False,
    metrics: Metrics | None = None,
) -> Controller:
    """
    Make the scheduler. One worker: two pods must not be promised the same GPU.

    `has_pod_groups`: the server has those of scheduling.k8s.io (`serves_pod_groups`). Those of other gang schedulers
    are found when their definitions come.
    """
    view = View(cache)
    scheduler = Scheduler(client, env, recorder, view)
    controller = Controller("scheduler", scheduler.reconcile, env=env, cache=cache, metrics=metrics)
    wake = partial(controller.enqueue, _PASS)
    controller.watches(view.pods, _if_it_matters)
    view.pods.add_handler(_Gone(wake))
    controller.watches(view.nodes, lambda _node: [_PASS])
    controller.watches(view.claims, lambda _claim: [_PASS])
    controller.watches(view.namespaces, lambda _namespace: ())
    controller.watches(view.budgets, lambda _budget: ())
    view.definitions.add_handler(_Definitions(view, wake))
    if has_pod_groups:
        view.honour(KUBERNETES, wake)
    return controller


async def serves_pod_groups(client: Client) -> bool:
    """
    Ask the server whether it has PodGroups of its own; they are behind a feature gate.

    Raises:
        FrameworkError: It did not say.
    """
    try:
        await client.raw("GET", KUBERNETES_GROUPS.path(), query=[("limit", "1")])
    except (NotFound, Forbidden):
        return False
    return True


def _if_it_matters(pod: Pod) -> Iterable[Key]:
    """A pod that waits, and one that gives back what others may wait for."""
    if pod.is_waiting or pod.is_over or pod.metadata.deletion_timestamp is not None:
        return [_PASS]
    return ()


class _Definitions:
    """Honours the groups of a gang scheduler as soon as there are such. A handler of informers."""

    def __init__(self, view: View, wake: Callable[[], None]) -> None:
        self._view = view
        self._wake = wake

    def on_add(self, obj: Definition, *, initial: bool) -> None:
        """Honour it."""
        for api, kind in _GROUPS.items():
            if obj.is_served and obj.metadata.name == kind.qualified_name:
                self._view.honour(api, self._wake)

    def on_update(self, old: Definition, new: Definition) -> None:
        """Honour it."""
        self.on_add(new, initial=False)

    def on_delete(self, obj: Definition) -> None:
        """Its groups are gone, or going; their own events tell."""


class _Wake:
    """Asks for a pass when a group comes, changes or goes. A handler of informers."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def on_add(self, obj: PodGroup, *, initial: bool) -> None:
        """Look again."""
        self._wake()

    def on_update(self, old: PodGroup, new: PodGroup) -> None:
        """Look again."""
        if old.spec != new.spec:
            self._wake()

    def on_delete(self, obj: PodGroup) -> None:
        """Look again."""
        self._wake()


class _Gone:
    """Asks for a pass when a pod is gone, also one that was killed at once while it ran. A handler of informers."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def on_add(self, obj: Pod, *, initial: bool) -> None:
        """Nothing is free yet."""

    def on_update(self, old: Pod, new: Pod) -> None:
        """Nor now: of a pod that ends, `_if_it_matters` tells."""

    def on_delete(self, obj: Pod) -> None:
        """Look again."""
        self._wake()


class View:
    """What the scheduler sees of the cluster."""

    def __init__(self, cache: Cache) -> None:
        self.pods: Informer[Pod] = cache.informer(PODS)
        self.nodes: Informer[Node] = cache.informer(NODES)
        self.claims: Informer[Claim] = cache.informer(CLAIMS)
        self.namespaces: Informer[Namespace] = cache.informer(NAMESPACES)
        self.budgets: Informer[Budget] = cache.informer(BUDGETS)
        self.definitions: Informer[Definition] = cache.informer(DEFINITIONS)
        self._groups: dict[str, Informer[PodGroup]] = {}
        self._cache = cache

    def honour(self, api: str, wake: Callable[[], None]) -> None:
        """Follow the groups of one API from now on. Not before it is served: a cache would wait for it, and say so."""
        if api not in self._groups:
            self._groups[api] = self._cache.informer(_GROUPS[api])
            self._groups[api].add_handler(_Wake(wake))

    def cluster(self, assumed: Mapping[str, str], awaited: Mapping[str, frozenset[str]]) -> Cluster:
        """Return all of it, pods that are bound but not shown so (`assumed`: node by UID) on their nodes."""
        served = {api: informer for api, informer in self._groups.items() if informer.synced}
        return Cluster(
            pods=[_on(pod, assumed.get(pod.metadata.uid)) for pod in self.pods.list()],
            nodes=self.nodes.list(),
            groups={api: {group.key: group for group in informer.list()} for api, informer in served.items()},
            namespaces={n.metadata.name: n.metadata.labels for n in self.namespaces.list()},
            claims=frozenset(claim.key for claim in self.claims.list()),
            budgets=self.budgets.list(),
            awaited=awaited,
        )


class Scheduler:
    """Binds pods, or stores why not."""

    def __init__(self, client: Client, env: Env, recorder: EventRecorder, view: View) -> None:
        self._client = client
        self._env = env
        self._recorder = recorder
        self._view = view
        # UID of a pod that was bound -> its node, for as long as the cache shows the pod without one.
        self._assumed: dict[str, str] = {}
        # UID of a pod that waits -> those of the pods that were evicted for it.
        self._awaited: dict[str, frozenset[str]] = {}

    async def reconcile(self, key: Key) -> Result | None:
        """Run one pass over all pods that wait."""
        waiting = {pod.metadata.uid for pod in self._view.pods.list() if pod.is_waiting}
        self._assumed = {uid: node for uid, node in self._assumed.items() if uid in waiting}
        if not waiting - self._assumed.keys():
            return None
        plan = make_plan(self._view.cluster(self._assumed, self._awaited))
        self._awaited = {uid: known for uid, known in self._awaited.items() if uid in waiting}
        self._awaited |= {entry.pod.metadata.uid: entry.victims for entry in plan.explain if entry.victims}
        # First what others may run on, then the explanations, and the promises before what they cost.
        await run_all([partial(self._bind, pod, node) for pod, node in plan.bind], limit=PARALLEL_CALLS)
        await self._tell(plan)
        await run_all([partial(self._evict, eviction) for eviction in plan.evict], limit=PARALLEL_CALLS)
        return Result(requeue_after_s=LOOK_AGAIN_S) if plan.explain else None

    async def _bind(self, pod: Pod, node: str) -> None:
        body: Json = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid},
            "target": {"kind": "Node", "name": node},
        }
        self._assumed[pod.metadata.uid] = node
        try:
            await self._client.raw("POST", PODS.path(*pod.key, "binding"), body=body)
        except (NotFound, Conflict):
            return  # deleted, or bound by somebody else: either way its next event tells
        except ApiError:
            del self._assumed[pod.metadata.uid]
            raise
        self._event(pod, "Normal", "Scheduled", f"Successfully assigned {pod.key} to {node}")

    async def _tell(self, plan: Plan) -> None:
        calls = [partial(self._explain, waiting) for waiting in plan.explain]
        calls += [
            partial(self._judge, gang.group, problem)
            for gang, problem in plan.gangs
            if gang.name.api == KUBERNETES and gang.group is not None
        ]
        await run_all(calls, limit=PARALLEL_CALLS)

    async def _explain(self, waiting: Waiting) -> None:
        pod, reason, message = waiting.pod, waiting.reason, waiting.message
        known = find_condition(pod.status.conditions, "PodScheduled")
        is_told = known is not None and (known.reason, known.message) == (reason, message)
        has_moved = waiting.node is not None and waiting.node != pod.status.nominated_node_name
        if is_told and not has_moved:
            return
        status: Json = {"conditions": [self._condition("PodScheduled", "False", reason, message)]}
        if has_moved:
            status["nominatedNodeName"] = waiting.node or None
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        is_stored = await self._patch_status(PODS, pod.key, patch, PatchType.STRATEGIC)
        if is_stored and not is_told and reason != "SchedulingGated":
            self._event(pod, "Warning", "FailedScheduling", message)

    async def _evict(self, eviction: Eviction) -> None:
        """Stop a pod that has to make room; its own time of grace holds."""
        victim = eviction.victim
        why = f"{OUR_NAME}: preempting to accommodate a higher priority pod"
        condition = self._condition("DisruptionTarget", "True", PREEMPTED, why)
        patch = {"metadata": {"uid": victim.metadata.uid}, "status": {"conditions": [condition]}}
        if not await self._patch_status(PODS, victim.key, patch, PatchType.STRATEGIC):
            return
        with suppress(NotFound, Conflict):  # gone by itself, or another of that name
            await self._client.delete(PODS, victim.key, uid=victim.metadata.uid)
        told = f"Preempted by pod {eviction.pod.metadata.uid} on node {eviction.node}"
        self._recorder.event(
            PODS, victim, reason="Preempted", message=told, action="Preempting", related=(PODS, eviction.pod)
        )

    async def _judge(self, group: PodGroup, problem: str) -> None:
        """Say of a group whether it has been scheduled, as the scheduler of its API does."""
        status, reason = ("False", "Unschedulable") if problem else ("True", "Scheduled")
        known = find_condition(group.status.conditions, "PodGroupScheduled")
        if known is not None and (known.status, known.message) == (status, problem):
            return
        condition = self._condition("PodGroupScheduled", status, reason, problem)
        patch = {"metadata": {"uid": group.metadata.uid}, "status": {"conditions": [condition]}}
        await self._patch_status(KUBERNETES_GROUPS, group.key, patch, PatchType.MERGE)

    def _condition(self, type_: str, status: str, reason: str, message: str) -> Json:
        time = format_time(self._env.clock.now())
        return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": time}

    async def _patch_status(self, resource: Resource[Any], key: Key, patch: Json, type_: PatchType) -> bool:
        try:
            await self._client.patch(resource, key, patch, type=type_, subresource="status")
        except (NotFound, Conflict):
            return False
        return True

    def _event(self, pod: Pod, type_: str, reason: str, message: str) -> None:
        self._recorder.event(PODS, pod, type=type_, reason=reason, message=message)


def _on(pod: Pod, node_name: str | None) -> Pod:
    if node_name is None:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name))
