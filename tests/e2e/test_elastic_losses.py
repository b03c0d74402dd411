"""Elastic training, really, when something is lost: a worker, a pod, the first pod, room for nodes, all restarts."""

import json
import os
import signal
from contextlib import aclosing
from functools import partial

import anyio
import pytest

from ktrain.api.core import PODS, untyped
from ktrain.api.meta import Key, is_condition_true
from ktrain.api.trainer import TRAIN_JOBS, TRAINING_RUNTIMES
from ktrain.framework import Client
from ktrain.framework.client.http import connect
from ktrain.framework.client.subresources import read_log
from ktrain.framework.env import system_env

from ..waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.examples, pytest.mark.slow]

pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[demo]'")

PATIENCE_S = 240
"""Each round starts PyTorch anew on all nodes, on a machine that does other things, too."""
INDEX = "batch.kubernetes.io/job-completion-index"
WORKER = """
import json, os, time
from pathlib import Path
import torch, torch.distributed as dist

dist.init_process_group("gloo")
told = {"node": int(os.environ["JOB_COMPLETION_INDEX"]), "ranks": dist.get_world_size(), "pid": os.getpid()}
with open("starts", "a") as file:
    file.write(json.dumps(told | {"restart": int(os.environ["TORCHELASTIC_RESTART_COUNT"])}) + "\\n")
while True:
    enough = torch.tensor(float(Path("enough").exists()))
    dist.all_reduce(enough)
    if enough:
        break
    time.sleep(0.1)
dist.destroy_process_group()
"""
BROKEN = """
with open("starts", "a") as file:
    file.write('{"node": 0}\\n')
raise SystemExit(3)
"""


class Plane:
    """The control plane, the TrainJob `job` on it, and what its workers say of themselves."""

    def __init__(self, client, directory):
        self.client = client
        self.directory = directory

    async def submit(self, policy, *, worker=WORKER, conf="", job=None, pod=None, gang=False, **trainer):
        """Create a runtime with this elastic policy, and the job, whose nodes run a worker each."""
        (self.directory / "worker.py").write_text(worker)
        env = {"PET_RDZV_CONF": f"last_call_timeout=1,keep_alive_interval=2{conf}", "LOGLEVEL": "INFO"}
        nodes = {"containers": [{"name": "node", "image": "torch"}]} | (pod or {})
        step = {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": (job or {}) | {"template": {"spec": nodes}},
        }
        runtime = {
            "mlPolicy": {"torch": {"elasticPolicy": policy}},
            "podGroupPolicy": {"workload": {}} if gang else None,
            "template": {"spec": {"replicatedJobs": [{"name": "node", "template": step}]}},
        }
        await self._create(TRAINING_RUNTIMES, "rt", runtime)
        whole = {
            "command": ["torchrun", "worker.py"],
            "numProcPerNode": 1,
            "resourcesPerNode": {"requests": {"cpu": "1"}},
            "env": [{"name": name, "value": value} for name, value in env.items()],
        }
        ref = {"name": "rt", "kind": "TrainingRuntime"}
        await self._create(TRAIN_JOBS, "job", {"runtimeRef": ref, "trainer": whole | trainer})

    async def _create(self, resource, name, spec):
        metadata = {"name": name, "namespace": "default"}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
        await self.client.create(untyped(resource), body)

    async def occupy(self, cores):
        """Take room from the nodes."""
        container = {
            "name": "main",
            "image": "none",
            "command": ["sleep", "1000"],
            "resources": {"requests": {"cpu": cores}},
        }
        await self._create(PODS, "other", {"containers": [container], "terminationGracePeriodSeconds": 0})
        await self.until(lambda pods: any(pod.status.phase == "Running" for pod in pods), selector="")

    async def free(self):
        """Give that room back."""
        await self.client.delete(PODS, Key("default", "other"))

    async def until(self, condition, selector="batch.kubernetes.io/job-name"):
        """Wait until the pods are as they should be; returns them by index."""

        async def pods():
            return (await self.client.list(PODS, "default", label_selector=selector)).items

        found = await until(pods, condition, within_s=PATIENCE_S)
        return {int(pod.metadata.annotations.get(INDEX, -1)): pod.metadata for pod in found}

    async def started(self, count, ranks=2):
        """Wait until the last `ranks` of `count` starts or more are of one round of so many; returns all starts."""

        def enough(starts):
            return len(starts) >= count and [start.get("ranks") for start in starts[-ranks:]] == [ranks] * ranks

        return await until(self.starts, enough, within_s=PATIENCE_S)

    def starts(self):
        """What the workers said, in order."""
        file = self.directory / "starts"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    async def wait_for_log(self, pod, text):
        """Wait until a pod has printed something."""
        with anyio.fail_after(PATIENCE_S):
            async with aclosing(read_log(self.client, Key("default", pod.name), follow=True)) as lines:
                async for line in lines:
                    if text in line:
                        return

    async def ended(self, condition):
        """Wait until the job is Complete or Failed."""
        get = partial(self.client.get, TRAIN_JOBS, "job", "default")
        job = await until(get, lambda job: job.is_finished, within_s=PATIENCE_S)
        assert is_condition_true(job.status.conditions, condition), job.status

    async def finish(self):
        """Let the workers end, and the job with them."""
        (self.directory / "enough").touch()
        await self.ended("Complete")


def phases(pods):
    """In what phases the pods are."""
    return sorted(pod.status.phase for pod in pods)


@pytest.fixture
async def plane(start, tmp_path, request):
    """Run a control plane with room for three nodes; its pods are plain processes, unless a test says otherwise."""
    pods = getattr(request, "param", "host")
    up = start("up", "--kubeconfig", "kc", "--pods", pods, "--node-resources", "cpu=3")
    up.wait_for("ready ")
    transport = await connect(kubeconfig=str(tmp_path / "kc"))
    yield Plane(Client(transport, system_env(), field_manager="test"), tmp_path)
    await transport.aclose()


async def test_a_worker_that_is_killed_costs_each_node_a_restart_and_no_pod(plane):
    await plane.submit({"minNodes": 2, "maxNodes": 3})
    first = await plane.started(2)
    before = await plane.until(lambda pods: len(pods) == 2)
    os.kill(next(start["pid"] for start in first if start["node"] == 1), signal.SIGKILL)
    starts = await plane.started(4)
    after = await plane.until(lambda pods: phases(pods) == ["Running"] * 2)
    await plane.finish()

    assert sorted(start["node"] for start in starts) == [0, 0, 1, 1]
    assert max(start["restart"] for start in starts) == 1
    assert {index: pod.uid for index, pod in after.items()} == {index: pod.uid for index, pod in before.items()}
    assert len(plane.starts()) == 4


@pytest.mark.parametrize("plane", ["host", pytest.param("ns", marks=pytest.mark.ns)], indirect=True)
async def test_a_node_that_is_lost_comes_back_and_if_it_was_the_first_all_meet_anew(plane):
    await plane.submit({"minNodes": 2, "maxNodes": 3, "maxRestarts": 10})
    await plane.started(2)
    pods = await plane.until(lambda pods: len(pods) == 2)
    for index in (1, 0):
        count = len(plane.starts())
        await plane.client.delete(PODS, Key("default", pods[index].name))
        await plane.started(count + 2)
        again = await plane.until(lambda found: sorted(pod.metadata.annotations[INDEX] for pod in found) == ["0", "1"])
        assert again[index].uid != pods[index].uid
        assert again[1 - index].uid == pods[1 - index].uid
        pods = again
    await plane.finish()


async def test_who_are_too_few_wait_for_one_more_and_then_begin(plane):
    await plane.occupy("2")
    await plane.submit({"minNodes": 2, "maxNodes": 3})
    pods = await plane.until(lambda pods: phases(pods) == ["Pending", "Running"])
    await plane.wait_for_log(pods[0], b"Rendezvous'ing worker group")
    assert plane.starts() == []

    await plane.free()
    starts = await plane.started(2)
    assert {index: pod.uid for index, pod in pods.items()} == {
        index: pod.uid for index, pod in (await plane.until(lambda pods: phases(pods) == ["Running"] * 2)).items()
    }
    assert [(start["ranks"], start["restart"]) for start in starts] == [(2, 0), (2, 0)]
    await plane.finish()


@pytest.mark.parametrize(
    ("policy", "room", "conf", "starts"),
    [
        # Of torchrun one restart, and of the JobSet one, too.
        pytest.param({"minNodes": 1, "maxNodes": 2, "maxRestarts": 1}, "1", "", 4, id="the workers always fail"),
        pytest.param({"minNodes": 2, "maxNodes": 2}, "2", ",join_timeout=3", 0, id="too few for too long"),
    ],
)
async def test_what_torchrun_gives_up_is_for_the_job_and_the_jobset_to_judge(plane, policy, room, conf, starts):
    await plane.occupy(room)
    await plane.submit(policy, worker=BROKEN, conf=conf, job={"backoffLimit": 0}, pod={"restartPolicy": "Never"})
    await plane.ended("Failed")

    assert len(plane.starts()) == starts


async def test_a_gang_grows_by_those_for_which_there_is_room(plane):
    await plane.submit({"minNodes": 2, "maxNodes": 4}, gang=True, command=["sleep", "1000"])
    before = await plane.until(lambda pods: phases(pods) == ["Running"] * 2)
    await plane.client.patch(TRAIN_JOBS, Key("default", "job"), {"spec": {"elasticNodes": 4}})
    after = await plane.until(lambda pods: phases(pods) == ["Pending", "Running", "Running", "Running"])

    assert {index: after[index].uid for index in before} == {index: pod.uid for index, pod in before.items()}
    assert sorted(after) == [0, 1, 2, 3]
