"""Ephemeral containers: added to a running pod to look into it (`kubectl debug`, KEP-277)."""

import pytest

from ktrain.api.core import PODS, untyped
from ktrain.api.meta import Key
from ktrain.framework import PatchType
from ktrain.local.apiserver.reading.logs import LogOptions
from ktrain.local.sandbox.sim import Act

from .playing import FOREVER, by_command, main_status
from .test_streams import STDIN, connected

# 0A: LISTEN. The main container is the only one in its network who does.
LISTENING = "until grep -q ' 0A ' /proc/self/net/tcp; do sleep 0.05; done"


async def add(world, name, command, **fields):
    """Add an ephemeral container to the pod `p`."""
    added = {"name": name, "image": "i", "command": command, **fields}
    spec = {"spec": {"ephemeralContainers": [added]}}
    await world.client.patch(
        PODS, Key("default", "p"), spec, type=PatchType.STRATEGIC, subresource="ephemeralcontainers"
    )


async def statuses(world):
    """The statuses of the pod's ephemeral containers by name, and the whole pod."""
    pod = await world.client.get(untyped(PODS), "p", "default")
    return {status["name"]: status for status in pod["status"].get("ephemeralContainerStatuses", ())}, pod


async def until(world, name, state):
    """Wait until an ephemeral container is in this state; return its status and the pod."""
    found = {}

    async def look():
        found["of"], found["pod"] = await statuses(world)
        return state in found["of"].get(name, {}).get("state", {})

    while not await look():
        await world.watch.changed()
    return found["of"][name], found["pod"]


def test_one_runs_once_and_counts_for_nothing(simulate):
    async def scenario(world):
        await world.create(restartPolicy="Always")
        await world.phase("Running")
        await add(world, "debug", ["look"])
        status, pod = await until(world, "debug", "terminated")

        assert (status["state"]["terminated"]["exitCode"], status["restartCount"], status["ready"]) == (3, 0, False)
        assert pod["status"]["phase"] == "Running"
        assert {c["type"] for c in pod["status"]["conditions"] if c["status"] == "True"} >= {"Ready", "ContainersReady"}
        assert await log_of(world.kubelet, "debug") == "seen\n"

        await add(world, "again", ["look"])
        await until(world, "again", "terminated")
        assert world.commands() == ["run", "look", "look"]

    simulate(scenario, by_command({"run": FOREVER, "look": Act(runs_s=1, exit_code=3, prints="seen\n")}))


def test_one_does_not_hinder_its_pod_from_ending_and_ends_with_it(simulate):
    async def scenario(world):
        await world.create(terminationGracePeriodSeconds=5)
        await world.phase("Running")
        await add(world, "debug", ["look"])
        await until(world, "debug", "running")
        pod = await world.phase("Succeeded", within_s=60)

        assert main_status(pod).state.terminated.exit_code == 0
        assert (await until(world, "debug", "terminated"))[0]["state"]["terminated"]["exitCode"] == 143

    simulate(scenario, by_command({"run": Act(runs_s=30), "look": FOREVER}))


def test_one_waits_for_the_container_it_looks_into(simulate):
    async def scenario(world):
        init = {"name": "init", "image": "i", "command": ["prepare"]}
        await world.create(initContainers=[init])
        await world.until(lambda pod: pod.status.pod_ip)
        await add(world, "debug", ["look"], targetContainerName="main")
        status, _ = await until(world, "debug", "waiting")
        assert status["state"]["waiting"]["reason"] in ("PodInitializing", "CreateContainerConfigError")
        await until(world, "debug", "running")

        assert world.commands() == ["prepare", "run", "look"]

    simulate(scenario, by_command({"prepare": Act(runs_s=10), "run": FOREVER, "look": FOREVER}))


async def log_of(kubelet, container):
    chunks = await kubelet.logs.open("default", "p", container, LogOptions())
    return b"".join([chunk async for chunk in chunks]).decode()


@pytest.mark.e2e
async def test_one_is_in_the_pods_network_has_a_terminal_and_sees_the_processes_of_its_target(real):
    serve = "import http.server as h; h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler).serve_forever()"
    async with real() as world:
        await world.create("p", ["python3", "-c", serve])
        await world.running("p")
        await add(world, "net", ["sh", "-c", LISTENING])
        await add(world, "pids", ["sh", "-c", "cat /proc/[0-9]*/cmdline; true"], targetContainerName="main")
        await add(world, "shell", ["sh"], stdin=True, tty=True)
        for name in ("net", "pids"):
            status, _ = await until(world, name, "terminated")
            assert status["state"]["terminated"]["exitCode"] == 0
        assert "http.server" in await log_of(world.kubelet, "pids")

        await until(world, "shell", "running")
        async with connected(world.server, "p/attach", container="shell", flags="stdin stdout tty") as client:
            client.say(STDIN, b"echo $((6 * 7))\n")
            heard = b""
            while b"42" not in heard:
                heard += await client.hear()
            client.say(STDIN, b"exit 5\n")
            status, _ = await until(world, "shell", "terminated")
        assert status["state"]["terminated"]["exitCode"] == 5
