"""Pods that mean harm, or look like it: what they name stays in its place, what they leave is ended, others live on."""

import time
from contextlib import suppress
from pathlib import Path

import pytest

from ktrain.api.core import PODS
from ktrain.api.meta import Key
from ktrain.framework.errors import Invalid

from ...waiting import until


@pytest.mark.e2e
async def test_variables_of_any_name_and_size_arrive_as_they_are(real):
    async with real() as world:
        env = [
            {"name": "WITH SPACE; rm -rf", "value": "a"},
            {"name": "BASH_FUNC_ls%%", "value": "() { echo caught; }"},
            {"name": "IFS", "value": "x"},
            {"name": "LARGE", "value": "y" * 100_000},
            {"name": "NEWLINE", "value": "1\n2"},
        ]
        program = "import os; e = os.environ; print(e['WITH SPACE; rm -rf'], len(e['LARGE']), repr(e['NEWLINE']))"
        pod, log = await world.run("p", ["python", "-c", program], container={"env": env})

        assert (pod.status.phase, log) == ("Succeeded", "a 100000 '1\\n2'\n")


@pytest.mark.e2e
async def test_what_the_kernel_cannot_take_fails_the_pod_with_a_reason(real):
    async with real() as world:
        huge = {"env": [{"name": "HUGE", "value": "z" * 200_000}]}
        too_long, _ = await world.run("long", ["true"], container=huge)
        zero, _ = await world.run("zero", ["echo", "a\0b"])

        for pod in (too_long, zero):
            ended = pod.status.container_statuses[0].state.terminated
            assert (ended.exit_code, ended.reason) == (128, "StartError")
            assert ended.message


@pytest.mark.e2e
@pytest.mark.parametrize("make", ["ln -s SECRET", "mkfifo"])
async def test_a_termination_message_that_is_a_link_or_a_pipe_shows_nothing_of_the_machine(real, tmp_path, make):
    (tmp_path / "secret").write_text("of the machine")
    async with real() as world:
        path = "/dev/termination-log"
        script = f"rm -f {path} 2>/dev/null; {make} {path} 2>/dev/null; true".replace("SECRET", f"{tmp_path}/secret")
        pod, _ = await world.run("p", ["sh", "-c", script])

        assert pod.status.container_statuses[0].state.terminated.message == ""


@pytest.mark.e2e
async def test_daemons_small_fork_bombs_and_who_ignores_sigterm_are_gone_with_their_pod(real):
    async with real() as world:
        program = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for fd in range(3): os.close(fd)
for _ in range(40):
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(4711)
time.sleep(4711)
"""
        await world.create("p", ["python", "-c", program, "bomb-marker"], terminationGracePeriodSeconds=1)
        await world.running("p")
        begun = time.monotonic()
        await world.client.delete(PODS, Key("default", "p"))
        await world.watch.gone("p", within_s=20)

        assert time.monotonic() - begun < 15
        assert bombs() == []


def bombs():
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                found += [process.name] if b"bomb-marker" in (process / "cmdline").read_bytes() else []
    return found


@pytest.mark.e2e
async def test_a_sub_path_through_a_link_that_the_pod_made_leads_nowhere(real, tmp_path):
    (tmp_path / "outside").mkdir()
    async with real() as world:
        volume = {"name": "v", "emptyDir": {}}
        maker = {
            "name": "maker",
            "image": "i",
            "command": ["ln", "-s", str(tmp_path / "outside"), "/data-of-test/link"],
            "volumeMounts": [{"name": "v", "mountPath": "/data-of-test"}],
        }
        mounts = [{"name": "v", "mountPath": "/sub-of-test", "subPath": "link/made"}]
        await world.create("p", ["ls"], volumes=[volume], initContainers=[maker], container={"volumeMounts": mounts})
        pod = await world.watch.until(
            lambda pod: any(
                s.state.waiting and "leads out" in s.state.waiting.message for s in pod.status.container_statuses
            ),
            "p",
            within_s=20,
        )

        assert pod.status.phase == "Pending"
        assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.e2e
async def test_a_container_that_fills_its_log_is_bounded_and_others_are_served(real, monkeypatch):
    async with real() as world:
        world.kubelet.logs._limit = 1 << 20
        await world.create("loud", ["sh", "-c", "yes 0123456789abcdef"], terminationGracePeriodSeconds=0)
        await world.running("loud")
        attempt = world.kubelet.logs._logs[Key("default", "loud")]["main"][-1]
        await until(lambda: attempt.start > 0)
        _, log = await world.run("quiet", ["echo", "heard"])

        assert log == "heard\n"


@pytest.mark.parametrize(
    "volume",
    [
        {"persistentVolumeClaim": {"claimName": ".."}},
        {"configMap": {"name": "..", "optional": False}},
        {"configMap": {"name": "kept", "items": [{"key": "k", "path": "../out"}]}},
        {"downwardAPI": {"items": [{"path": "../out", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ],
)
def test_names_that_lead_out_of_a_pods_directory_are_refused_with_a_reason(simulate, volume):
    async def scenario(world):
        await world.apply("ConfigMap", "kept", data={"k": "v"})
        try:
            await world.create(volumes=[{"name": "v", **volume}])
        except Invalid:
            return  # The server refuses it already: so much the better.
        assert "FailedMount" in await world.reasons()
        assert world.commands() == []
        assert not list(world.executor.directory.rglob("out"))
        await world.delete(grace_s=0)

    simulate(scenario)
