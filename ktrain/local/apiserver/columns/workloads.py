"""Columns of Pods and Jobs: the states people look for, computed as the API server's own printers do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ktrain.local.apiserver.builtins.values import selectors
from ktrain.local.apiserver.columns.base import (
    AGE,
    NAME,
    NONE,
    Cell,
    Column,
    at,
    condition,
    is_deleting,
    is_true,
    of,
)
from ktrain.local.apiserver.forms.humanize import age, duration, parse_time

if TYPE_CHECKING:
    from datetime import datetime

    from ktrain.api.meta import Json


class PodState(NamedTuple):
    """What a pod's row says of its containers."""

    status: str
    ready: int
    total: int
    restarts: int
    last_restart: str
    """When a container last ended before it was started again; empty if none did."""


class _Restarts:
    """Counts restarts, and remembers when the last one was."""

    def __init__(self) -> None:
        self.count = 0
        self.last = ""

    def add(self, container: Json) -> None:
        self.count += container.get("restartCount", 0)
        ended = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        self.last = max(self.last, ended)


def pod_state(pod: Json) -> PodState:
    """Return what `kubectl get pods` says: the first thing that is wrong, or else how far the pod is."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {c["name"] for c in spec.get("initContainers") or [] if c.get("restartPolicy") == "Always"}
    total = len(spec.get("containers") or []) + len(sidecars)
    phase = status.get("phase", "")
    text = status.get("reason") or phase
    if (condition(pod, "PodScheduled") or {}).get("reason") == "SchedulingGated":
        text = "SchedulingGated"
    initial, ready, restarts, sidecar_restarts = _initialisation(spec, status, sidecars)
    text = initial or text
    if not initial or is_true(pod, "Initialized"):
        restarts = sidecar_restarts
        text, running = _running(pod, text, restarts)
        ready += running
    if is_deleting(pod):
        if status.get("reason") == "NodeLost":
            text = "Unknown"
        elif phase not in ("Succeeded", "Failed"):
            text = "Terminating"
    return PodState(text, ready, total, restarts.count, restarts.last)


def _initialisation(spec: Json, status: Json, sidecars: set[str]) -> tuple[str, int, _Restarts, _Restarts]:
    """Return the state of the init container that is not done yet (empty: all are), and what was counted up to it."""
    ready = 0
    restarts, sidecar_restarts = _Restarts(), _Restarts()
    for index, container in enumerate(status.get("initContainerStatuses") or []):
        is_sidecar = container.get("name") in sidecars
        restarts.add(container)
        if is_sidecar:
            sidecar_restarts.add(container)
        state = container.get("state") or {}
        terminated = state.get("terminated")
        waiting = (state.get("waiting") or {}).get("reason", "")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if is_sidecar and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        if terminated is not None:
            text = f"Init:{_ending(terminated)}"
        elif waiting and waiting != "PodInitializing":
            text = f"Init:{waiting}"
        else:
            text = f"Init:{index}/{len(spec.get('initContainers') or [])}"
        return text, ready, restarts, sidecar_restarts
    return "", ready, restarts, sidecar_restarts


def _running(pod: Json, text: str, restarts: _Restarts) -> tuple[str, int]:
    """Return the state by the main containers, the first one's last, and how many of them are ready and run."""
    running = 0
    for container in reversed((pod.get("status") or {}).get("containerStatuses") or []):
        restarts.add(container)
        state = container.get("state") or {}
        terminated = state.get("terminated")
        waiting = (state.get("waiting") or {}).get("reason")
        if waiting:
            text = waiting
        elif terminated is not None:
            text = _ending(terminated)
        elif container.get("ready") and state.get("running") is not None:
            running += 1
    if text == "Completed" and running:
        text = "Running" if is_true(pod, "Ready") else "NotReady"
    return text, running


def _ending(terminated: Json) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    signal = terminated.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{terminated.get('exitCode', 0)}"


def _pod_ready(pod: Json) -> str:
    state = pod_state(pod)
    return f"{state.ready}/{state.total}"


def _pod_restarts(pod: Json, now: datetime) -> str:
    state = pod_state(pod)
    if state.restarts and state.last_restart:
        return f"{state.restarts} ({age(state.last_restart, now)} ago)"
    return str(state.restarts)


def _pod_ip(pod: Json) -> str:
    addresses = (pod.get("status") or {}).get("podIPs") or [{}]
    return addresses[0].get("ip") or NONE


def _readiness_gates(pod: Json) -> str:
    gates = (pod.get("spec") or {}).get("readinessGates")
    if not gates:
        return NONE
    return f"{sum(is_true(pod, gate['conditionType']) for gate in gates)}/{len(gates)}"


_JOB_STATES: Final = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def _job_status(job: Json) -> str:
    for type_, text in _JOB_STATES:
        if is_true(job, type_) if type_ else is_deleting(job):
            return text
    return "Running"


def _job_completions(job: Json) -> str:
    spec, succeeded = job.get("spec") or {}, (job.get("status") or {}).get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Json, now: datetime) -> str:
    status = job.get("status") or {}
    start = parse_time(status.get("startTime"))
    return "" if start is None else duration((parse_time(status.get("completionTime")) or now) - start)


def _template_containers(key: str) -> Cell:
    def names(obj: Json) -> str:
        spec = obj.get("spec") or {}
        spec = (spec.get("jobTemplate") or {}).get("spec") or spec
        template = spec.get("template") or obj.get("template") or {}
        return ",".join(c.get(key, "") for c in (template.get("spec") or {}).get("containers") or [])

    return of(names)


def selector_text(selector: Json | None) -> str:
    """Return a LabelSelector object in the text form."""
    return NONE if selector is None else selectors.text(selector) or NONE


CONTAINERS: Final = Column("Containers", _template_containers("name"), "Containers of the template", priority=1)
IMAGES: Final = Column("Images", _template_containers("image"), "Images of the template's containers", priority=1)
SELECTOR: Final = Column(
    "Selector", of(lambda obj: selector_text((obj.get("spec") or {}).get("selector"))), "Which pods count", priority=1
)

POD: Final = (
    NAME,
    Column("Ready", of(_pod_ready), "Containers that are ready, of all"),
    Column("Status", of(lambda pod: pod_state(pod).status), "What the pod's containers are doing"),
    Column("Restarts", _pod_restarts, "How often containers were restarted, and when last"),
    AGE,
    Column("IP", of(_pod_ip), "Address of the pod", priority=1),
    Column("Node", lambda pod, now: at("spec", "nodeName")(pod, now) or NONE, "Node the pod is bound to", priority=1),
    Column(
        "Nominated Node",
        at("status", "nominatedNodeName", default=NONE),
        "Node where the pod preempts others",
        priority=1,
    ),
    Column("Readiness Gates", of(_readiness_gates), "Extra conditions that are true, of all", priority=1),
)

JOB: Final = (
    NAME,
    Column("Status", of(_job_status), "How far the job is"),
    Column("Completions", of(_job_completions), "Pods that succeeded, of those wanted"),
    Column("Duration", _job_duration, "How long the job ran"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)
