from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from ktrain.api.meta import Json
from ktrain.local.kubelet.spec import Container, Pod
from ktrain.local.kubelet.status import (
    ContainerRecord,
    PodRecord,
    Role,
    Running,
    State,
    Terminated,
    Waiting,
    new_records,
    phase,
    pod_status,
)

T0 = datetime(2026, 1, 1, tzinfo=UTC)
NOW = T0 + timedelta(minutes=1)


def ended(code: int) -> Terminated:
    return Terminated(code, "Completed" if code == 0 else "Error", T0, NOW)


RUNS = Running(T0)
UNTRIED = Waiting()
CRASHED = Waiting("CrashLoopBackOff")


def record(
    role: Role, state: State, *, name: str = "c", last: Terminated | None = None, **more: object
) -> ContainerRecord:
    return ContainerRecord(Container(name), role, state, last, **more)


def main(state: State, **more: object) -> ContainerRecord:
    return record(Role.MAIN, state, **more)


def init(state: State, **more: object) -> ContainerRecord:
    return record(Role.INIT, state, **more)


def sidecar(state: State, **more: object) -> ContainerRecord:
    return record(Role.SIDECAR, state, **more)


@pytest.mark.parametrize(
    ("containers", "is_over", "expected"),
    [
        ([main(UNTRIED)], False, "Pending"),
        ([main(RUNS)], False, "Running"),
        ([main(RUNS), main(Waiting("CreateContainerConfigError"))], False, "Pending"),
        ([main(CRASHED, last=ended(1))], False, "Running"),
        ([main(ended(0)), main(RUNS)], False, "Running"),
        ([main(ended(1))], False, "Running"),
        ([init(RUNS), main(UNTRIED)], False, "Pending"),
        ([init(CRASHED, last=ended(1)), main(UNTRIED)], False, "Pending"),
        ([sidecar(RUNS, started=True), main(UNTRIED)], False, "Pending"),
        ([main(ended(0))], True, "Succeeded"),
        ([main(ended(0)), main(ended(3))], True, "Failed"),
        ([main(ended(0), last=ended(1))], True, "Succeeded"),
        ([init(ended(2)), main(UNTRIED)], True, "Failed"),
        ([sidecar(ended(137)), main(ended(0))], True, "Succeeded"),
        ([main(UNTRIED)], True, "Failed"),
    ],
)
def test_phase_follows_from_the_containers(containers: list[ContainerRecord], expected: str, *, is_over: bool) -> None:
    assert phase(PodRecord(tuple(containers), T0, ended=is_over)) == expected


def test_a_pod_that_was_failed_as_a_whole_is_failed_although_its_programs_ended_well() -> None:
    over = PodRecord((main(ended(0)),), T0, failure=("DeadlineExceeded", "too long"), ended=True)

    status = pod_status(pod(), over, NOW)

    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "DeadlineExceeded", "too long")


def pod(*, conditions: list[Json] | None = None, **spec: object) -> Pod:
    containers = [{"name": "a"}, {"name": "b"}]
    return msgspec.convert(
        {
            "metadata": {"name": "p", "uid": "u", "generation": 1},
            "spec": {"containers": containers, **spec},
            "status": {"conditions": conditions or []},
        },
        Pod,
    )


def by_type(status: Json) -> dict[str, Json]:
    return {condition["type"]: condition for condition in status["conditions"]}


def test_containers_that_were_not_tried_wait_for_the_sandbox_or_for_init_containers() -> None:
    plain, with_init = pod(), pod(initContainers=[{"name": "i"}])

    first = pod_status(plain, PodRecord(new_records(plain), T0), NOW)
    second = pod_status(with_init, PodRecord(new_records(with_init), T0), NOW)

    assert [c["state"] for c in first["containerStatuses"]] == [{"waiting": {"reason": "ContainerCreating"}}] * 2
    assert second["initContainerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert by_type(second)["Initialized"]["reason"] == "ContainersNotInitialized"
    assert by_type(second)["Initialized"]["message"] == "containers with incomplete status: [i]"


def test_a_pod_is_ready_when_all_its_containers_and_gates_are() -> None:
    ready = PodRecord(
        (main(RUNS, name="a", ready=True), main(RUNS, name="b", ready=True)), T0, sandbox_ready=True, pod_ip="10.0.0.1"
    )
    unready = PodRecord((ready.containers[0], replace(ready.containers[1], ready=False)), T0)
    gated = pod(readinessGates=[{"conditionType": "x/y"}])
    open_gate = pod(readinessGates=[{"conditionType": "x/y"}], conditions=[{"type": "x/y", "status": "True"}])

    assert by_type(pod_status(pod(), ready, NOW))["Ready"]["status"] == "True"
    assert by_type(pod_status(pod(), unready, NOW))["Ready"]["message"] == "containers with unready status: [b]"
    assert by_type(pod_status(gated, ready, NOW))["Ready"]["reason"] == "ReadinessGatesNotReady"
    assert by_type(pod_status(open_gate, ready, NOW))["Ready"]["status"] == "True"
    assert pod_status(pod(), ready, NOW)["podIPs"] == [{"ip": "10.0.0.1"}]


def test_a_pod_that_ended_is_not_ready_and_says_why() -> None:
    def conditions(code: int) -> dict[str, Json]:
        return by_type(pod_status(pod(), PodRecord((main(ended(code)),), T0, ended=True), NOW))

    assert conditions(0)["Ready"]["reason"] == "PodCompleted"
    assert conditions(0)["Initialized"]["status"] == "True"
    assert conditions(1)["ContainersReady"]["reason"] == "PodFailed"
    assert conditions(1)["PodReadyToStartContainers"]["status"] == "False"


def test_only_conditions_of_the_kubelet_are_written_and_unchanged_ones_keep_their_time() -> None:
    before = [
        {"type": "Ready", "status": "False", "lastTransitionTime": "2025-12-31T00:00:00Z"},
        {"type": "PodScheduled", "status": "False", "lastTransitionTime": "2025-12-31T00:00:00Z"},
        {"type": "DisruptionTarget", "status": "True"},
    ]
    found = by_type(pod_status(pod(conditions=before), PodRecord((main(UNTRIED),), T0), NOW))

    assert "DisruptionTarget" not in found
    assert found["Ready"]["lastTransitionTime"] == "2025-12-31T00:00:00Z"
    assert found["PodScheduled"]["lastTransitionTime"] == "2026-01-01T00:01:00Z"


def test_restarts_and_the_attempt_before_are_shown() -> None:
    crashed = main(Waiting("CrashLoopBackOff", "back-off 10s"), last=ended(3), attempts=2)

    status = pod_status(pod(), PodRecord((crashed,), T0), NOW)["containerStatuses"][0]

    assert status["restartCount"] == 1
    assert status["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert status["lastState"]["terminated"]["finishedAt"] == "2026-01-01T00:01:00Z"


@pytest.mark.parametrize(("count", "expected"), [(3, 4096), (4, 3072), (12, 1024)])
def test_the_last_words_of_all_containers_together_fit_into_a_status(count: int, expected: int) -> None:
    records = tuple(main(replace(ended(1), message="x" * 4096), name=f"c{n}") for n in range(count))

    status = pod_status(pod(), PodRecord(records, T0, ended=True), NOW)

    assert [len(c["state"]["terminated"]["message"]) for c in status["containerStatuses"]] == [expected] * count
