"""The kubelet as a whole: its node, how it stops, and pods as real processes."""

import json
import os
import time

import pytest

from ktrain.api.core import PODS
from ktrain.api.meta import Key, find_condition
from ktrain.local.sandbox.sim import Act


def test_the_node_tells_what_the_machine_has(simulate):
    async def scenario(world):
        answer = await world.client.raw("GET", "/api/v1/nodes/laptop")
        node = json.loads(answer.body)

        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2"
        assert node["status"]["allocatable"]["cpu"] == str(os.cpu_count())
        assert node["status"]["conditions"][-1]["type"] == "Ready"
        assert node["status"]["nodeInfo"]["containerRuntimeVersion"] == "process-sim://"

    simulate(scenario, gpus=["0", "1"])


def test_a_kubelet_that_stops_gives_its_pods_a_moment_and_leaves_nothing_running(simulate):
    left = []

    async def scenario(world):
        await world.create("polite")
        await world.create("deaf")
        await world.phase("Running", "polite")
        await world.phase("Running", "deaf")
        left.append(world)

    def script(sandbox, process):
        return Act() if sandbox.name == "polite" else Act(on_term=None)

    simulate(scenario, script, stop_grace_s=3)
    signals = [process.signals for sandbox in left[0].executor.sandboxes.values() for process in sandbox.processes]

    assert signals[0][0] == 15
    assert signals[1][:2] == [15, 9]
    assert left[0].kubelet.statistics() == (0, 2)
    for name in ("polite", "deaf"):
        status = left[0].watch.pods.get(Key("default", name)).status
        target = find_condition(status.conditions, "DisruptionTarget")
        assert (status.phase, status.reason) == ("Failed", "Terminated")
        assert (target.status, target.reason) == ("True", "TerminationByKubelet")


@pytest.mark.e2e
async def test_pods_are_processes_with_the_callers_programs_directory_and_volumes(real, tmp_path):
    async with real() as world:
        await world.client.raw(
            "POST",
            "/api/v1/namespaces/default/configmaps",
            body={"metadata": {"name": "settings"}, "data": {"greeting": "hello"}},
        )
        script = "import os; print(open('/etc/ktrain-test/greeting').read(), os.getcwd(), os.environ['HOSTNAME'])"
        pod, log = await world.run(
            "p",
            ["python", "-c", script],
            volumes=[{"name": "v", "configMap": {"name": "settings"}}],
            container={"volumeMounts": [{"name": "v", "mountPath": "/etc/ktrain-test"}]},
        )

        assert (pod.status.phase, log) == ("Succeeded", f"hello {tmp_path} p\n")


@pytest.mark.e2e
async def test_a_program_that_dies_of_a_signal_a_missing_one_and_last_words(real):
    async with real() as world:
        killed, _ = await world.run("killed", ["sh", "-c", "echo why > /dev/termination-log; kill -9 $$$$"])
        missing, _ = await world.run("missing", ["no-such-program"])

        assert killed.status.container_statuses[0].state.terminated.exit_code == 137
        assert missing.status.container_statuses[0].state.terminated.reason == "StartError"
        assert "no-such-program" in missing.status.container_statuses[0].state.terminated.message


@pytest.mark.e2e
async def test_a_deleted_pod_is_terminated_with_everything_it_started(real):
    async with real() as world:
        script = "sleep 1000 & echo $!; trap 'echo bye; exit 0' TERM; wait"
        await world.create("p", ["sh", "-c", script], terminationGracePeriodSeconds=5)
        await world.watch.until(lambda pod: pod.status.phase == "Running", "p", within_s=10)
        log = await world.log("p", follow=True)
        first = await anext(log)
        await world.client.patch(PODS, Key("default", "p"), {"metadata": {"finalizers": ["test/keep"]}})
        await world.client.delete(PODS, Key("default", "p"))
        pod = await world.end("p")

        assert first.strip().isdigit()
        assert [chunk async for chunk in log] == [b"bye\n"]
        assert pod.status.phase == "Succeeded"


@pytest.mark.e2e
async def test_from_bound_to_running_takes_milliseconds(real):
    async with real() as world:
        await world.run("warm", ["true"])
        begun = time.time()
        _, log = await world.run("p", ["date", "+%s.%N"])

        assert float(log) - begun < 0.2
