from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from ktrain.api.meta import Json
from ktrain.local.kubelet.restarts import RestartBackoff, RestartPolicy, restarts
from ktrain.local.kubelet.spec import Container
from ktrain.local.kubelet.status import Role, Terminated

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def ran(seconds: float) -> Terminated:
    return Terminated(1, "Error", T0, T0 + timedelta(seconds=seconds))


def test_the_first_restart_is_immediate_then_delays_double_to_five_minutes() -> None:
    backoff = RestartBackoff(RestartPolicy())

    assert [backoff.delay_s(ran(1)) for _ in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]


def test_ten_minutes_of_running_make_a_fresh_start() -> None:
    backoff = RestartBackoff(RestartPolicy())
    for _ in range(5):
        backoff.delay_s(ran(1))

    assert [backoff.delay_s(ran(600)), backoff.delay_s(ran(1))] == [0, 10]


@pytest.mark.parametrize(
    ("role", "policy", "code", "expected"),
    [
        (Role.MAIN, "Never", 1, False),
        (Role.MAIN, "OnFailure", 1, True),
        (Role.MAIN, "OnFailure", 0, False),
        (Role.MAIN, "Always", 0, True),
        (Role.INIT, "Never", 1, False),
        (Role.INIT, "Always", 0, False),
        (Role.INIT, "OnFailure", 1, True),
        (Role.INIT, "Always", 1, True),
        (Role.SIDECAR, "Never", 0, True),
    ],
)
def test_who_starts_again(role: Role, policy: str, code: int, *, expected: bool) -> None:
    assert restarts(Container("c"), role, policy, code) is expected


RETRY = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42, 43]}}
RETRY_OTHERS = {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [1]}}


@pytest.mark.parametrize(
    ("fields", "policy", "code", "expected"),
    [
        ({"restartPolicy": "Never"}, "Always", 1, False),
        ({"restartPolicy": "Always"}, "Never", 0, True),
        ({"restartPolicy": "OnFailure"}, "Never", 1, True),
        ({"restartPolicy": "Never", "restartPolicyRules": [RETRY]}, "Never", 42, True),
        ({"restartPolicy": "Never", "restartPolicyRules": [RETRY]}, "Always", 1, False),
        ({"restartPolicy": "Never", "restartPolicyRules": [RETRY_OTHERS]}, "Never", 2, True),
        ({"restartPolicy": "Never", "restartPolicyRules": [RETRY_OTHERS]}, "Never", 1, False),
    ],
)
def test_a_containers_own_rules_and_policy_come_before_the_pods(
    fields: Json, policy: str, code: int, *, expected: bool
) -> None:
    container = msgspec.convert({"name": "c", **fields}, Container)

    assert restarts(container, Role.MAIN, policy, code) is expected
