"""Pods that a kubelet finds in the store and another one was running: their processes are gone."""

import pytest

from ktrain.api.core import PODS, untyped
from ktrain.api.meta import Key
from ktrain.framework import PatchType
from ktrain.local.sandbox.sim import Act

from .playing import FOREVER

BEGAN = "2029-12-31T00:00:00Z"
RAN = {"running": {"startedAt": BEGAN}}
WAITS = {"waiting": {"reason": "ContainerCreating"}}


def ended(code):
    return {"terminated": {"exitCode": code, "reason": "Error", "startedAt": BEGAN, "finishedAt": BEGAN}}


def entry(name, state, restarts=0, last=None):
    return {"name": name, "image": "i", "imageID": "", "ready": False, "restartCount": restarts, "state": state,
            "lastState": last or {}}  # fmt: skip


def container(name):
    return {"name": name, "image": "i", "command": [name]}


async def left_behind(world, *entries, init=(), ephemeral=(), **spec):
    """Create a pod as a kubelet that is gone has left it, then bind it to the one of the test."""
    names = [one["name"] for one in entries]
    spec = {"containers": [container(n) for n in names], "initContainers": [container(o["name"]) for o in init], **spec}
    await world.create(bound=False, **spec)
    status = {
        "phase": "Running",
        "startTime": BEGAN,
        "containerStatuses": list(entries),
        "initContainerStatuses": list(init),
        "ephemeralContainerStatuses": list(ephemeral),
    }
    added = {"spec": {"ephemeralContainers": [container(one["name"]) for one in ephemeral]}}
    await world.client.patch(PODS, Key("default", "p"), added, type=PatchType.MERGE, subresource="ephemeralcontainers")
    await world.client.patch(PODS, Key("default", "p"), {"status": status}, subresource="status")
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "laptop"},
    }
    await world.client.raw("POST", "/api/v1/namespaces/default/pods/p/binding", body=binding)


def test_a_pod_that_never_restarts_has_failed_and_keeps_what_is_known(simulate):
    async def scenario(world):
        await left_behind(world, entry("a", RAN), entry("b", ended(3)), init=[entry("i", ended(0))])
        pod = await world.phase("Failed")

        lost, known = (status.state.terminated for status in pod.status.container_statuses)
        assert (lost.exit_code, lost.reason) == (137, "ContainerStatusUnknown")
        assert (known.exit_code, known.reason) == (3, "Error")
        assert pod.status.init_container_statuses[0].state.terminated.exit_code == 0
        assert pod.status.start_time.isoformat() == "2029-12-31T00:00:00+00:00"
        assert world.commands() == []

    simulate(scenario)


@pytest.mark.parametrize(("policy", "again"), [("Always", ["i", "a", "b"]), ("OnFailure", ["i", "a"])])
def test_a_pod_that_restarts_begins_again_with_its_init_containers(simulate, policy, again):
    async def scenario(world):
        init = [entry("i", ended(0))]
        await left_behind(world, entry("a", RAN, restarts=2), entry("b", ended(0)), init=init, restartPolicy=policy)
        pod = await world.until(lambda p: p.status.container_statuses[0].state.running is not None and p.status.pod_ip)

        first = pod.status.container_statuses[0]
        assert world.commands()[0] == "i"
        assert sorted(world.commands()) == sorted(again)
        assert first.restart_count == 3
        assert (first.last_state.terminated.exit_code, first.last_state.terminated.reason) == (
            137,
            "ContainerStatusUnknown",
        )

    simulate(scenario, lambda _sandbox, process: Act(runs_s=0) if process.argv[0] == "i" else Act())


def test_a_pod_that_was_done_but_for_its_status_has_succeeded(simulate):
    async def scenario(world):
        await left_behind(world, entry("a", ended(0)), restartPolicy="OnFailure")
        await world.phase("Succeeded")

        assert world.commands() == []

    simulate(scenario)


def test_a_pod_whose_containers_had_not_begun_begins(simulate):
    async def scenario(world):
        await left_behind(world, entry("a", WAITS))
        pod = await world.phase("Succeeded")

        assert world.commands() == ["a"]
        assert pod.status.container_statuses[0].restart_count == 0

    simulate(scenario)


def test_a_pod_in_a_crash_loop_goes_on_with_it(simulate):
    async def scenario(world):
        waits = {"waiting": {"reason": "CrashLoopBackOff"}}
        await left_behind(world, entry("a", waits, restarts=4, last=ended(1)), restartPolicy="OnFailure")
        pod = await world.phase("Succeeded")

        assert pod.status.container_statuses[0].restart_count == 5

    simulate(scenario)


def test_the_active_deadline_counts_from_the_first_start(simulate):
    async def scenario(world):
        await left_behind(world, entry("a", RAN), restartPolicy="Always", activeDeadlineSeconds=60)
        pod = await world.phase("Failed", within_s=5)

        assert pod.status.reason == "DeadlineExceeded"

    simulate(scenario, Act())


def test_a_pod_deleted_meanwhile_goes(simulate):
    async def scenario(world):
        await left_behind(world, entry("a", RAN), restartPolicy="Always")
        await world.delete()
        await world.gone()

    simulate(scenario)


def test_an_ephemeral_container_is_lost_with_its_kubelet_and_not_started_again(simulate):
    async def scenario(world):
        await left_behind(world, entry("a", RAN), ephemeral=[entry("e", RAN)], restartPolicy="Always")
        await world.until(lambda p: p.status.container_statuses[0].state.running is not None and p.status.pod_ip)
        pod = await world.client.get(untyped(PODS), "p", "default")

        (status,) = pod["status"]["ephemeralContainerStatuses"]
        assert status["state"]["terminated"]["reason"] == "ContainerStatusUnknown"
        assert world.commands() == ["a"]

    simulate(scenario, FOREVER)
