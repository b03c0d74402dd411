"""
The scheduler for a cluster of one node: bind what may run, and say why the rest may not.

CPU and memory are advisory: a laptop has fewer cores than four pods request, and honest accounting would leave a gang
waiting for itself for ever. Extended resources (`nvidia.com/gpu`) are counted strictly, first come, first served.

The cache shows a binding some time after it was made. Until then the scheduler assumes it: the next pod is judged as if
the pod were on its node already, or both would be promised the same device.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api import quantity
from ktrain.api.core import PERSISTENT_VOLUME_CLAIMS
from ktrain.api.meta import Condition, Json, Key, Object, Resource, Struct, find_condition, format_time
from ktrain.framework import Cache, Client, Controller, Env, Informer, PatchType, Result
from ktrain.framework.errors import ApiError, Conflict, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RETRY_S = 5.0
ADVISORY = ("cpu", "memory", "ephemeral-storage", "pods")


class Requirements(Struct, frozen=True):
    """A container's `resources`."""

    limits: dict[str, str | int] = {}
    requests: dict[str, str | int] = {}


class Container(Struct, frozen=True):
    """A container, by what it asks for."""

    resources: Requirements = Requirements()


class Gate(Struct, frozen=True):
    """A scheduling gate."""

    name: str = ""


class ClaimSource(Struct, frozen=True):
    """`volumes[].persistentVolumeClaim`."""

    claim_name: str = ""


class Volume(Struct, frozen=True):
    """A volume, by the claim it needs."""

    persistent_volume_claim: ClaimSource | None = None


class PodSpec(Struct, frozen=True):
    """The part of a pod's spec that decides whether it may run."""

    node_name: str = ""
    scheduling_gates: tuple[Gate, ...] = ()
    containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()


class PodStatus(Struct, frozen=True):
    """The part of a pod's status that the scheduler reads."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Pod(Object, frozen=True):
    """A pod as the scheduler reads it."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_over(self) -> bool:
        """Whether it has ended and holds nothing of its node any more."""
        return self.status.phase in ("Succeeded", "Failed")


class NodeStatus(Struct, frozen=True):
    """What a node has to give."""

    allocatable: dict[str, str | int] = {}


class Node(Object, frozen=True):
    """A node."""

    status: NodeStatus = NodeStatus()


PODS: Final = Resource("", "v1", "Pod", "pods", namespaced=True, type=Pod)
NODES: Final = Resource("", "v1", "Node", "nodes", namespaced=False, type=Node)


def make_scheduler(client: Client, cache: Cache, env: Env) -> Controller:
    """Make the scheduler. One worker: two pods must not be promised the same GPU."""
    pods, nodes = cache.informer(PODS), cache.informer(NODES)
    claims = cache.informer(PERSISTENT_VOLUME_CLAIMS)
    scheduler = Scheduler(client, env, pods, nodes, claims)
    controller = Controller("scheduler", scheduler.reconcile, env=env, cache=cache)
    controller.watches(pods, lambda pod: [pod.key, *(_waiting(pods) if _frees(pod) else ())])
    controller.watches(nodes, lambda _node: _waiting(pods))
    controller.watches(claims, lambda claim: _waiting(pods, claim.metadata.namespace))
    return controller


def _waiting(pods: Informer[Pod], namespace: str = "") -> Iterable[Key]:
    return [pod.key for pod in pods.list(namespace) if not pod.spec.node_name]


def _frees(pod: Pod) -> bool:
    """Whether the end of this pod gives others what they may wait for."""
    return (pod.is_over or pod.metadata.deletion_timestamp is not None) and bool(_extended(pod))


class Scheduler:
    """Binds one pod, or stores why not."""

    def __init__(
        self, client: Client, env: Env, pods: Informer[Pod], nodes: Informer[Node], claims: Informer[Object]
    ) -> None:
        self._client = client
        self._env = env
        self._pods = pods
        self._nodes = nodes
        self._claims = claims
        # UID of a pod that was bound -> its node, for as long as the cache shows the pod without one.
        self._assumed: dict[str, str] = {}

    async def reconcile(self, key: Key) -> Result | None:
        """Run one pass over a pod that has no node yet."""
        pod = self._pods.get(key)
        if pod is None or pod.spec.node_name or pod.metadata.deletion_timestamp is not None:
            return None
        if pod.spec.scheduling_gates:
            await self._explain(pod, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
            return None
        nodes = self._nodes.list()
        problem = self._missing_claim(pod)
        if problem is None:
            shortages: Counter[str] = Counter()
            others = self._others(pod)
            for node in nodes:
                lacking = shortage(pod, node, others)
                if lacking is None:
                    await self._bind(pod, node)
                    return None
                shortages[lacking] += 1
            reasons = ", ".join(f"{count} Insufficient {name}" for name, count in sorted(shortages.items()))
            problem = f"0/{len(nodes)} nodes are available" + (f": {reasons}." if reasons else ".")
        await self._explain(pod, "Unschedulable", problem)
        # A pod that is removed by force ends without an event that says so before.
        return Result(requeue_after_s=RETRY_S)

    def _others(self, pod: Pod) -> list[Pod]:
        """Return all other pods, each on the node that it has or is about to have."""
        pods = [other for other in self._pods.list() if other.metadata.uid != pod.metadata.uid]
        # A pod that is deleted without a node was never bound; one that the cache lacks is gone.
        unbound = {p.metadata.uid for p in pods if not p.spec.node_name and p.metadata.deletion_timestamp is None}
        self._assumed = {uid: node for uid, node in self._assumed.items() if uid in unbound}
        return [_on(other, self._assumed.get(other.metadata.uid)) for other in pods]

    def _missing_claim(self, pod: Pod) -> str | None:
        for volume in pod.spec.volumes:
            source = volume.persistent_volume_claim
            if source and self._claims.get(Key(pod.metadata.namespace, source.claim_name)) is None:
                return f'persistentvolumeclaim "{source.claim_name}" not found'
        return None

    async def _bind(self, pod: Pod, node: Node) -> None:
        body: Json = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid},
            "target": {"kind": "Node", "name": node.metadata.name},
        }
        self._assumed[pod.metadata.uid] = node.metadata.name
        try:
            await self._client.raw("POST", PODS.path(*pod.key, "binding"), body=body)
        except (NotFound, Conflict):
            return  # deleted, or bound by somebody else: either way its next event tells
        except ApiError:
            del self._assumed[pod.metadata.uid]
            raise

    async def _explain(self, pod: Pod, reason: str, message: str) -> None:
        known = find_condition(pod.status.conditions, "PodScheduled")
        if known is not None and (known.reason, known.message) == (reason, message):
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": format_time(self._env.clock.now()),
        }
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(PODS, pod.key, patch, type=PatchType.STRATEGIC, subresource="status")
        except NotFound:
            return


def _on(pod: Pod, node_name: str | None) -> Pod:
    if node_name is None:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name))


def shortage(pod: Pod, node: Node, pods: list[Pod]) -> str | None:
    """Return the extended resource of which the node has too little left for the pod, or None."""
    used: Counter[str] = Counter()
    for other in pods:
        if other.spec.node_name == node.metadata.name and not other.is_over:
            used.update(_extended(other))
    for name, amount in _extended(pod).items():
        if used[name] + amount > quantity.parse(str(node.status.allocatable.get(name, "0"))):
            return name
    return None


def _extended(pod: Pod) -> Mapping[str, Fraction]:
    total: dict[str, Fraction] = {}
    for container in pod.spec.containers:
        asked = {**container.resources.limits, **container.resources.requests}
        for name, amount in asked.items():
            if name not in ADVISORY:
                total[name] = total.get(name, Fraction(0)) + quantity.parse(str(amount))
    return total
