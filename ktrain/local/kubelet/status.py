"""
Phase, conditions and container statuses: a pure function of what the worker recorded.

The worker keeps one `ContainerRecord` per container and one `PodRecord` around them; `pod_status` turns them into
`v1.PodStatus`. The rules are the kubelet's (`getPhase`, `convertStatusToAPIStatus`): a container that waits but has run
before counts as stopped, sidecars never decide the phase, and a terminal phase is reported only when nothing runs any
more, because controllers replace the pod at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Condition, Json, find_condition, format_time

if TYPE_CHECKING:
    from datetime import datetime

    from .spec import Container, Pod


class Role(Enum):
    """What a container is to its pod."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"
    EPHEMERAL = "ephemeral"
    """Counts for nothing: neither for the phase nor for readiness."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not running, and will be tried. Without a reason: not tried yet."""

    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """Its main process runs, and the postStart hook, if any, is done."""

    started_at: datetime


@dataclass(frozen=True, slots=True)
class Terminated:
    """How an attempt ended. Death by signal n is exit code 128+n."""

    exit_code: int
    reason: str
    started_at: datetime
    finished_at: datetime
    message: str = ""


State = Waiting | Running | Terminated


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """What the worker knows of one container."""

    container: Container
    role: Role
    state: State = Waiting()
    last: Terminated | None = None
    """The attempt before the current one."""
    attempts: int = 0
    """Attempts begun; the first is not a restart."""
    started: bool = False
    ready: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether it ended with exit code 0."""
        return isinstance(self.state, Terminated) and self.state.exit_code == 0

    @property
    def initialized(self) -> bool:
        """Whether the containers after this init container may start."""
        return self.started if self.role is Role.SIDECAR else self.succeeded

    @property
    def has_run(self) -> bool:
        """Whether an attempt was ever begun."""
        return self.last is not None or not isinstance(self.state, Waiting)


@dataclass(frozen=True, slots=True)
class PodRecord:
    """What the worker knows of its pod."""

    containers: tuple[ContainerRecord, ...]
    """Init containers and sidecars in the order of the spec, then main containers, then ephemeral ones."""
    start_time: datetime
    host_ip: str = ""
    pod_ip: str = ""
    sandbox_ready: bool = False
    failure: tuple[str, str] | None = None
    """Reason and message when the pod as a whole was failed, for example DeadlineExceeded."""
    ended: bool = False
    """Nothing of the pod runs any more, and nothing will be started."""


def new_records(pod: Pod) -> tuple[ContainerRecord, ...]:
    """Return the records of a pod that has not begun."""
    before = [ContainerRecord(c, Role.SIDECAR if c.is_sidecar else Role.INIT) for c in pod.spec.init_containers]
    mains = (ContainerRecord(c, Role.MAIN) for c in pod.spec.containers)
    return (*before, *mains, *(ContainerRecord(c, Role.EPHEMERAL) for c in pod.spec.ephemeral_containers))


def phase(record: PodRecord) -> str:
    """Compute the phase: Pending, Running, Succeeded or Failed."""
    mains = [c for c in record.containers if c.role is Role.MAIN]
    if not record.ended:
        return "Running" if all(c.has_run for c in mains) else "Pending"
    initialized = all(c.succeeded for c in record.containers if c.role is Role.INIT)
    succeeded = initialized and all(c.succeeded for c in mains) and record.failure is None
    return "Succeeded" if succeeded else "Failed"


def pod_status(pod: Pod, record: PodRecord, now: datetime) -> Json:
    """
    Build the status to write: every field the kubelet owns; null removes what is not so any more.

    Conditions of other writers are not in it: a strategic merge patch keeps them by type. Transition times are taken
    from `pod.status` where the condition did not change.
    """
    record = replace(record, containers=_fitted(record.containers))
    current = phase(record)
    reason, message = record.failure or (None, None)
    status: Json = {
        "phase": current,
        "reason": reason,
        "message": message,
        "startTime": format_time(record.start_time),
        "conditions": [
            _stamped(c, pod.status.conditions, now, pod.metadata.generation) for c in conditions(pod, record, current)
        ],
        "containerStatuses": [container_status(pod, c) for c in record.containers if c.role is Role.MAIN],
    }
    if pod.spec.init_containers:
        status["initContainerStatuses"] = [container_status(pod, c) for c in record.containers if c.role in _BEFORE]
    if any(c.role is Role.EPHEMERAL for c in record.containers):
        ephemeral = [container_status(pod, c) for c in record.containers if c.role is Role.EPHEMERAL]
        status["ephemeralContainerStatuses"] = ephemeral
    if record.host_ip:
        status |= {"hostIP": record.host_ip, "hostIPs": [{"ip": record.host_ip}]}
    if record.pod_ip:
        status |= {"podIP": record.pod_ip, "podIPs": [{"ip": record.pod_ip}]}
    if pod.metadata.generation:
        status["observedGeneration"] = pod.metadata.generation
    return status


def _fitted(records: tuple[ContainerRecord, ...]) -> tuple[ContainerRecord, ...]:
    """Cut the last words of all containers so that together they are not too long for a status."""
    said = [r.state.message for r in records if isinstance(r.state, Terminated)]
    if sum(map(len, said)) <= _MESSAGES_LIMIT:
        return records
    each = _MESSAGES_LIMIT // len(records)
    return tuple(
        replace(r, state=replace(r.state, message=r.state.message[:each])) if isinstance(r.state, Terminated) else r
        for r in records
    )


def conditions(pod: Pod, record: PodRecord, current: str) -> list[Condition]:
    """Compute the conditions the kubelet writes, without transition times."""
    waiting_for = [c.container.name for c in record.containers if c.role in _BEFORE and not c.initialized]
    unready = [c.container.name for c in record.containers if c.role in _LASTING and not c.ready]
    if current == "Succeeded":
        initialized = _true("Initialized", "PodCompleted")
    elif waiting_for and not any(c.role is Role.MAIN and c.has_run for c in record.containers):
        initialized = _false("Initialized", "ContainersNotInitialized", _listed("incomplete", waiting_for))
    else:
        initialized = _true("Initialized")
    containers_ready = _containers_ready(current, unready)
    ready = Condition("Ready", containers_ready.status, containers_ready.reason, containers_ready.message)
    missing = [g.condition_type for g in pod.spec.readiness_gates if not _gate_open(pod, g.condition_type)]
    if ready.is_true and missing:
        names = ", ".join(f'condition of pod readiness gate "{name}" is not True' for name in missing)
        ready = _false("Ready", "ReadinessGatesNotReady", names)
    sandbox = Condition("PodReadyToStartContainers", str(record.sandbox_ready))
    return [_true("PodScheduled"), sandbox, initialized, containers_ready, ready]


def container_status(pod: Pod, record: ContainerRecord) -> Json:
    """Build one entry of containerStatuses, initContainerStatuses or ephemeralContainerStatuses."""
    container, latest, waits = record.container, record.attempts, isinstance(record.state, Waiting)
    status: Json = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": record.ready or (record.role is Role.INIT and record.succeeded),
        "restartCount": max(record.attempts - 1, 0),
        "state": _state(pod, record, record.state, attempt=latest),
        "lastState": _state(pod, record, record.last, attempt=latest - (not waits)) if record.last else {},
    }
    if record.role is not Role.EPHEMERAL:
        status["started"] = record.started
    if latest and not waits:
        status["containerID"] = container_id(pod, container.name, latest)
    return status


def container_id(pod: Pod, name: str, attempt: int) -> str:
    """Name one attempt of a container as `containerID` does: runtime, then what identifies it there."""
    return f"process://{pod.uid}/{name}/{attempt}"


def _state(pod: Pod, record: ContainerRecord, state: State, *, attempt: int) -> Json:
    if isinstance(state, Running):
        return {"running": {"startedAt": format_time(state.started_at)}}
    if isinstance(state, Waiting):
        reason = state.reason or ("PodInitializing" if pod.spec.init_containers else "ContainerCreating")
        return {"waiting": {"reason": reason, **({"message": state.message} if state.message else {})}}
    ended: Json = {
        "exitCode": state.exit_code,
        "reason": state.reason,
        "startedAt": format_time(state.started_at),
        "finishedAt": format_time(state.finished_at),
        "containerID": container_id(pod, record.container.name, attempt),
    }
    return {"terminated": ended | ({"message": state.message} if state.message else {})}


def _containers_ready(current: str, unready: list[str]) -> Condition:
    if current == "Succeeded":
        return _false("ContainersReady", "PodCompleted")
    if current == "Failed":
        return _false("ContainersReady", "PodFailed")
    if unready:
        return _false("ContainersReady", "ContainersNotReady", _listed("unready", unready))
    return _true("ContainersReady")


def _stamped(condition: Condition, before: tuple[Condition, ...], now: datetime, generation: int) -> Json:
    old = find_condition(before, condition.type)
    since = now
    if old is not None and old.status == condition.status and old.last_transition_time is not None:
        since = old.last_transition_time
    stamped: Json = {
        "type": condition.type,
        "status": condition.status,
        "lastProbeTime": None,
        "lastTransitionTime": format_time(since),
        "observedGeneration": generation or None,
        # A merge by type keeps what is not mentioned, so a reason that is gone must be said to be gone.
        "reason": condition.reason or None,
        "message": condition.message or None,
    }
    return stamped


def _gate_open(pod: Pod, type_: str) -> bool:
    gate = find_condition(pod.status.conditions, type_)
    return gate is not None and gate.is_true


def _listed(what: str, names: list[str]) -> str:
    return f"containers with {what} status: [{' '.join(names)}]"


def _true(type_: str, reason: str = "") -> Condition:
    return Condition(type_, "True", reason)


def _false(type_: str, reason: str, message: str = "") -> Condition:
    return Condition(type_, "False", reason, message)


_BEFORE: Final = (Role.INIT, Role.SIDECAR)
"""What the pod's initialization waits for."""
_LASTING: Final = (Role.SIDECAR, Role.MAIN)
"""What a ready pod has running."""
_MESSAGES_LIMIT: Final = 12288
"""Of all containers of a pod together (core/v1 Container, terminationMessagePath)."""
LOST: Final = "ContainerStatusUnknown"
"""Reason of a container whose process is gone and whose exit nobody saw."""
