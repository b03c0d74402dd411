"""The disruption controller: a budget's status follows its pods."""

import asyncio

import pytest

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.fixture
def ready(api):
    async def make(name):
        body = {
            "metadata": {"name": name, "labels": {"a": "b"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        }
        await api.create("pods", body)
        status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        await api.send("PATCH", api.path("pods", name, "status"), status, api.MERGE)

    return make


@pytest.fixture
def counted(api):
    """`await counted(allowed=1)` waits until a budget's status says so, and returns it."""

    async def wait(**expected):
        async with asyncio.timeout(5):
            while True:
                status = (await api.send("GET", f"{BUDGETS}/b")).body["status"]
                if expected.items() <= status.items():
                    return status
                await asyncio.sleep(0)

    return wait


BOUNDS = {
    "a number that must stay": ({"minAvailable": 2}, 2, 1),
    "a share that must stay": ({"minAvailable": "50%"}, 2, 1),
    "a number that may go": ({"maxUnavailable": 2}, 1, 2),
    "a share that may go": ({"maxUnavailable": "34%"}, 1, 2),
    "nothing said": ({}, 0, 3),
}


@pytest.mark.parametrize("case", BOUNDS)
async def test_a_budget_allows_what_its_healthy_pods_leave(api, ready, counted, case):
    spec, desired, allowed = BOUNDS[case]
    body = {"metadata": {"name": "b"}, "spec": {**spec, "selector": {"matchLabels": {"a": "b"}}}}
    await api.create("poddisruptionbudgets", body, api="policy/v1")
    for name in ("p", "q", "r"):
        await ready(name)
    status = await counted(disruptionsAllowed=allowed)

    assert (status["currentHealthy"], status["desiredHealthy"], status["expectedPods"]) == (3, desired, 3)
    assert status["observedGeneration"] == 1
    assert [(one["type"], one["status"]) for one in status["conditions"]] == [("DisruptionAllowed", "True")]


async def test_an_evicted_pod_stops_counting_at_once_and_is_forgotten_when_it_is_gone(api, ready, counted):
    body = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}
    await api.create("poddisruptionbudgets", body, api="policy/v1")
    for name in ("p", "q"):
        await ready(name)
    await counted(disruptionsAllowed=1)
    evicted = {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 30}}
    first = await api.send("POST", api.path("pods", "p", "eviction"), evicted)
    second = await api.send("POST", api.path("pods", "q", "eviction"), {"metadata": {"name": "q"}})
    await api.send("DELETE", api.path("pods", "p"), {"gracePeriodSeconds": 0})
    status = await counted(expectedPods=1)

    assert (first.status, second.status) == (201, 429)
    assert (status["disruptionsAllowed"], "disruptedPods" in status) == (0, False)


async def test_budgets_elsewhere_and_of_other_pods_do_not_count(api, ready, counted):
    body = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "other"}}}}
    await api.create("poddisruptionbudgets", body, api="policy/v1")
    await ready("p")
    status = await counted(observedGeneration=1)

    assert (status["expectedPods"], status["disruptionsAllowed"]) == (0, 0)
    assert (await api.send("POST", api.path("pods", "p", "eviction"), {"metadata": {"name": "p"}})).status == 201
