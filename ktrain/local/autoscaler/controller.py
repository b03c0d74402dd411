"""
The autoscaler: observe, decide, act.

Every reconcile reads the target's scale and its pods, compares the CPU time of the pods with that of the reconcile
before, and writes the target's scale and the status. It comes back after five seconds; Kubernetes' own takes fifteen,
and a user of a laptop waits for it.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ktrain.api import quantity
from ktrain.api.core import PODS, untyped
from ktrain.api.meta import Key, format_time
from ktrain.framework import Controller, Result
from ktrain.framework.client.mapper import RestMapper
from ktrain.framework.client.options import PatchType
from ktrain.framework.client.subresources import Scale, read_scale, scale
from ktrain.framework.controller.predicates import Changed
from ktrain.framework.errors import FrameworkError, NotFound

from .arithmetic import Load
from .behavior import History
from .decide import Decision, Observed, decide, unreadable
from .types import AUTOSCALERS, Autoscaler

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ktrain.api.meta import Json, Resource
    from ktrain.framework import Cache, Client, Env, EventRecorder, Informer
    from ktrain.framework.metrics import Metrics

    from .usage import CpuTimes

COMPONENT: Final = "horizontal-pod-autoscaler"
SYNC_S: Final = 5.0
_Look = tuple[float, float]
"""When a pod was looked at (monotonic, seconds), and how many CPU seconds it had used."""
_SHORTEST_S: Final = 1.0
"""Two looks at a pod that are closer together measure mostly the clock of the scheduler."""
_SPENT: Final = ("Failed", "Succeeded")
_ANY_PODS: Final = untyped(PODS)


def make_controller(
    client: Client,
    cache: Cache,
    env: Env,
    recorder: EventRecorder,
    times: CpuTimes,
    *,
    metrics: Metrics | None = None,
) -> Controller:
    """Make the controller, which watches autoscalers. *times* tells what pods have used."""
    autoscalers = cache.informer(AUTOSCALERS)
    reconciler = AutoscalerReconciler(client, env, recorder, autoscalers, times)
    controller = Controller("horizontal-pod-autoscaler", reconciler.reconcile, env=env, cache=cache, metrics=metrics)
    # Its own writes of the status call for nothing: the next reconcile has a time.
    controller.watches(autoscalers, predicate=Changed(lambda autoscaler: autoscaler.spec))
    return controller


@dataclass(slots=True)
class _Memory:
    """The memory of one autoscaler; a restart forgets it."""

    uid: str
    history: History = field(default_factory=History)
    times: dict[str, _Look] = field(default_factory=dict)
    """The last look at each pod, by UID."""


class AutoscalerReconciler:
    """Brings the targets of autoscalers to the size that their load calls for."""

    def __init__(
        self, client: Client, env: Env, recorder: EventRecorder, autoscalers: Informer[Autoscaler], times: CpuTimes
    ) -> None:
        self._client = client
        self._env = env
        self._recorder = recorder
        self._autoscalers = autoscalers
        self._times = times
        self._mapper = RestMapper(client)
        self._memories: dict[Key, _Memory] = {}

    async def reconcile(self, key: Key) -> Result | None:
        """Run one reconcile."""
        autoscaler = self._autoscalers.get(key)
        if autoscaler is None:
            self._memories.pop(key, None)
            return None
        memory = self._memories.get(key)
        if memory is None or memory.uid != autoscaler.metadata.uid:
            memory = self._memories[key] = _Memory(autoscaler.metadata.uid)
        try:
            target = await self._target(autoscaler)
            current = await read_scale(self._client, target, _target_key(autoscaler))
            loads = await self._loads(autoscaler, current, memory)
        except FrameworkError as error:
            await self._report(autoscaler, "FailedGetScale", f"the target's scale or pods cannot be read: {error}")
            return Result(requeue_after_s=SYNC_S)
        observed = Observed(autoscaler, current.spec.replicas, current.status.replicas, loads, memory.history)
        decision = decide(observed, self._env.clock.now())
        try:
            await self._resize(autoscaler, target, current, decision)
        except FrameworkError as error:
            await self._report(autoscaler, "FailedUpdateScale", f"the target's scale cannot be written: {error}")
            return Result(requeue_after_s=SYNC_S)
        memory.history = decision.history
        await self._write(autoscaler, decision.status)
        return Result(requeue_after_s=SYNC_S)

    async def _target(self, autoscaler: Autoscaler) -> Resource[Any]:
        reference = autoscaler.spec.scale_target_ref
        group, _, version = reference.api_version.rpartition("/")
        return await self._mapper.for_kind(reference.kind, group=group, version=version)

    async def _resize(self, autoscaler: Autoscaler, target: Resource[Any], current: Scale, decision: Decision) -> None:
        if decision.replicas is None:
            return
        await scale(self._client, target, _target_key(autoscaler), decision.replicas)
        message = f"{current.spec.replicas} replicas become {decision.replicas}: {decision.reason}"
        self._recorder.event(AUTOSCALERS, autoscaler, reason="SuccessfulRescale", message=message)

    async def _loads(self, autoscaler: Autoscaler, current: Scale, memory: _Memory) -> list[Load]:
        """Measure the pods of the target that have not ended. Without a selector there are none."""
        if not current.status.selector:
            return []
        namespace = autoscaler.metadata.namespace
        found = await self._client.list(_ANY_PODS, namespace, label_selector=current.status.selector)
        pods = [pod for pod in found.items if _counts(pod)]
        times = await self._times(pods)
        now_s = self._env.clock.monotonic()
        loads = [_load(pod, memory.times, times, now_s) for pod in pods]
        memory.times = {uid: _later(memory.times.get(uid), (now_s, spent)) for uid, spent in times.items()}
        return loads

    async def _report(self, autoscaler: Autoscaler, reason: str, message: str) -> None:
        await self._write(autoscaler, unreadable(autoscaler, reason, message, self._env.clock.now()))

    async def _write(self, autoscaler: Autoscaler, status: Json) -> None:
        if status == _stored(autoscaler):
            return
        patch = {"metadata": {"uid": autoscaler.metadata.uid}, "status": status}
        with suppress(NotFound):  # It is gone, and so is what is to be said of it.
            await self._client.patch(AUTOSCALERS, autoscaler.key, patch, type=PatchType.MERGE, subresource="status")


def _target_key(autoscaler: Autoscaler) -> Key:
    return Key(autoscaler.metadata.namespace, autoscaler.spec.scale_target_ref.name)


def _stored(autoscaler: Autoscaler) -> Json:
    status = autoscaler.status
    scaled = {"lastScaleTime": format_time(status.last_scale_time)} if status.last_scale_time else {}
    return {
        "currentReplicas": status.current_replicas,
        "desiredReplicas": status.desired_replicas,
        "currentMetrics": status.current_metrics,
        "conditions": status.conditions,
        **scaled,
    }


def _counts(pod: Json) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") not in _SPENT


def _load(pod: Json, before: Mapping[str, _Look], times: Mapping[str, float], now_s: float) -> Load:
    uid = pod["metadata"]["uid"]
    used = None
    if uid in before and uid in times and _is_ready(pod):
        then_s, spent = before[uid]
        # Less than before: a container has started anew.
        if now_s - then_s >= _SHORTEST_S and times[uid] >= spent:
            used = round((times[uid] - spent) / (now_s - then_s) * 1000)
    return Load(pod["metadata"]["name"], used, _requested(pod["spec"]))


def _later(before: _Look | None, now: _Look) -> _Look:
    """Return which of two looks the next one is compared with."""
    return before if before is not None and now[0] - before[0] < _SHORTEST_S else now


def _is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _requested(spec: Json) -> int | None:
    """Return what the pod itself, or all of its containers and sidecars, request."""
    sidecars = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    own = _cpu(spec)
    each = [_cpu(container) for container in (*spec.get("containers", ()), *sidecars)]
    if own is not None:
        return own
    known = [amount for amount in each if amount is not None]
    return sum(known) if len(known) == len(each) else None


def _cpu(holder: Json) -> int | None:
    amount = ((holder.get("resources") or {}).get("requests") or {}).get("cpu")
    return None if amount is None else math.ceil(quantity.parse(amount) * 1000)
