"""Commands in other pods without sshd: the agent that MPI launchers call, in real pods."""

import struct
import subprocess

import pytest

from ktrain.api.core import PODS
from ktrain.api.meta import Key
from ktrain.local.kubelet import remote, remote_agent

LAUNCHER = {"env": [{"name": "OMPI_MCA_orte_default_hostfile", "value": "/etc/mpi/hostfile"}]}
WORKER = {"env": [{"name": "WHO", "value": "worker"}]}
AGENT = "$OMPI_MCA_plm_rsh_agent"


async def worker(world, name="w"):
    await world.create(name, ["/usr/sbin/sshd", "-De"], hostname=name, subdomain="tj", container=WORKER)
    await world.running(name)


async def launch(world, script, **spec):
    """Run a shell script in a launcher; `agent` in it is the agent."""
    command = ["sh", "-c", script.replace("agent", AGENT)]
    return await world.run("launcher", command, subdomain="tj", container=LAUNCHER, **spec)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-o", "ConnectionAttempts=10", "h.tj", "orted", "-mca", "x"], ("h.tj", "orted -mca x")),
        (["-x", "h", "PATH=$PATH;", "export PATH;", "run"], ("h", "PATH=$PATH; export PATH; run")),
        (["-p", "22", "-l", "me", "-q", "root@h", "true"], ("h", "true")),
        (["--", "h", "ls", "-l"], ("h", "ls -l")),
        (["-o"], ("", "")),
    ],
)
def test_the_agent_reads_command_lines_as_ssh_does(words, expected):
    assert remote_agent.parse(words) == expected


def test_an_agent_is_reached_however_deep_its_directory_is(tmp_path):
    place = tmp_path / ("deep" * 15) / ("down" * 15)
    server = remote._furnish(place)
    server.settimeout(20)
    with server, subprocess.Popen([place / "agent", "h", "true"]) as agent:
        connection, _ = server.accept()
        with connection:
            asked = connection.recv(4096)
            connection.sendall(struct.pack("=II", 11, 0) + b'{"code": 3}')

    assert (asked[8:], agent.returncode) == (b'{"host": "h", "command": "true"}', 3)


@pytest.mark.e2e
async def test_a_command_runs_in_the_pod_of_that_name_with_its_variables(real):
    async with real() as world:
        await worker(world)
        for name in ("w.tj", "w", "w.tj.default.svc.cluster.local"):
            pod, log = await launch(
                world, f'echo in | agent -o A=1 {name} "cat; echo \\$WHO \\$HOSTNAME >&2; exit 7"; echo $?'
            )
            assert pod.status.phase == "Succeeded", log
            assert sorted(log.split("\n")) == ["", "7", "in", "worker w"]
            await world.client.delete(PODS, Key("default", "launcher"))
            await world.watch.gone("launcher")


@pytest.mark.e2e
async def test_a_pod_that_is_not_there_is_an_error_after_a_while(real, monkeypatch):
    monkeypatch.setattr("ktrain.local.kubelet.remote.ATTEMPTS_S", 0.5)
    async with real() as world:
        _, log = await launch(world, "agent nobody true; echo $?")

        assert log == "nobody: no pod of that name runs in namespace default\n255\n"


@pytest.mark.e2e
async def test_killing_the_launcher_ends_what_it_has_started_elsewhere(real):
    async with real() as world:
        await worker(world)
        await world.create(
            "launcher",
            ["sh", "-c", f"{AGENT} w 'echo started; sleep 98765; echo survived'"],
            subdomain="tj",
            container=LAUNCHER,
            terminationGracePeriodSeconds=0,
        )
        await world.running("launcher")
        assert await anext(await world.log("launcher", follow=True)) == b"started\n"
        await world.client.delete(PODS, Key("default", "launcher"), grace_period_s=0)
        await world.watch.gone("launcher")
        until_gone = "while ps ax | grep -q [s]leep.98765; do sleep 0.05; done; echo gone"
        _, log = await launch(world, f"agent w '{until_gone}'")

        assert log == "gone\n"


@pytest.mark.e2e
@pytest.mark.parametrize("probes", [[], ["readinessProbe"], ["startupProbe", "livenessProbe"]])
async def test_an_sshd_that_cannot_run_idles_and_says_so_and_its_port_is_not_probed(real, probes):
    probe = {"tcpSocket": {"port": 1}, "periodSeconds": 1, "failureThreshold": 1}
    async with real() as world:
        await world.create("w", ["/no/such/sshd", "-De"], container=dict.fromkeys(probes, probe))
        pod = await world.running("w")
        log = await anext(await world.log("w", follow=True))

        assert pod.status.container_statuses[0].ready
        assert b"through the kubelet" in log
