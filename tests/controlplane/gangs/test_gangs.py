"""
Gangs on the real kube-scheduler: two jobs of four pods, and room for five.

Controllers of TrainJobs and JobSets are ours; API server, Jobs, pods' places and the protection of PodGroups are
Kubernetes' 1.36, with the feature gates of its gangs. Nobody runs the pods: they end when the test says so.
"""

import asyncio
from contextlib import asynccontextmanager, suppress

import anyio
import pytest

from ktrain.api.core import NODES, PODS, untyped
from ktrain.api.meta import Key
from ktrain.api.trainer import ANCESTOR_LABEL, TRAIN_JOBS, TRAINING_RUNTIMES
from ktrain.controllers import jobset, trainjob
from ktrain.framework import Cache, EventRecorder, Manager
from ktrain.framework.errors import NotFound
from ktrain.pipeline import Registry
from ktrain.plugins.jobset import JobSet
from ktrain.plugins.plainml import PlainML
from ktrain.plugins.workload import Workload
from ktrain.testing.envtest import Settings
from ktrain.testing.planes import real_plane
from ktrain.testing.realserver import CONTROLLERS, real_server

from ...waiting import until
from ..processes import install, kube_scheduler

pytestmark = pytest.mark.e2e
GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
PROTECTION = f"--controllers={CONTROLLERS},podgroup-protection-controller"
NODE_COUNT, JOB_SIZE = 5, 4
HOLD = "test.ktrain.dev/hold"
PATIENCE_S = 60.0
STAYS_S = 5.0
"""For how long nothing may change where nothing should."""
ANY_NODES, ANY_PODS = untyped(NODES), untyped(PODS)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A control plane with gangs and its scheduler."""
    binaries = Settings.of().binaries
    scheduler = binaries and binaries.kube_apiserver.with_name("kube-scheduler")
    if not scheduler or not scheduler.exists():
        pytest.skip("needs kube-apiserver, kube-controller-manager and kube-scheduler in KUBEBUILDER_ASSETS")
    arguments = {
        "kube-apiserver": [GATES, "--runtime-config=scheduling.k8s.io/v1alpha2=true"],
        "kube-controller-manager": [GATES, PROTECTION],
    }
    log = tmp_path_factory.mktemp("scheduler") / "log"
    with (
        real_server(binaries, install, arguments=arguments) as server,
        kube_scheduler(scheduler, server, GATES, log=log),
    ):
        yield server


@asynccontextmanager
async def operating(plane):
    """Run the operator's controllers, with the JobSet controller."""
    client = plane.client("trainer")
    cache = Cache(client, plane.env)
    recorder = EventRecorder(client, plane.env, component="test")
    registry = await trainjob.without_unserved(Registry([JobSet(), PlainML(), Workload()]), client)
    chosen = [
        trainjob.make_controller(client, cache, plane.env, recorder, registry),
        *jobset.make_controllers(client, cache, plane.env, recorder),
    ]
    async with anyio.create_task_group() as tasks:
        await tasks.start(Manager(cache=cache, controllers=chosen, recorder=recorder).run)
        yield
        tasks.cancel_scope.cancel()


class Stage:
    """Nodes, a runtime and jobs in one namespace."""

    def __init__(self, plane):
        self.client = plane.client("test")
        self.namespace = plane.namespace

    async def set_up(self, policy):
        for number in range(NODE_COUNT):
            body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"}}
            await self.client.create(ANY_NODES, body)
            amounts = {"cpu": "1", "pods": "10"}
            ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
            status = {"status": {"capacity": amounts, "allocatable": amounts, "conditions": ready}}
            await self.client.patch(ANY_NODES, Key("", f"n{number}"), status, subresource="status")
            await self.client.patch(ANY_NODES, Key("", f"n{number}"), {"spec": {"taints": None}})
        container = {"name": "node", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        pod = {"restartPolicy": "Never", "schedulingGates": [{"name": HOLD}], "containers": [container]}
        template = {"spec": {"completionMode": "Indexed", "template": {"spec": pod}}}
        template["metadata"] = {"labels": {ANCESTOR_LABEL: "trainer"}}
        spec = {
            "mlPolicy": {"numNodes": JOB_SIZE},
            "template": {"spec": {"replicatedJobs": [{"name": "node", "template": template}]}},
            **policy,
        }
        head = {"apiVersion": TRAINING_RUNTIMES.api_version, "kind": "TrainingRuntime"}
        meta = {"name": "rt", "namespace": self.namespace}
        await self.client.create(untyped(TRAINING_RUNTIMES), {**head, "metadata": meta, "spec": spec})

    async def submit(self, *names):
        for name in names:
            head = {"apiVersion": TRAIN_JOBS.api_version, "kind": "TrainJob"}
            spec = {"runtimeRef": {"name": "rt", "kind": "TrainingRuntime"}, "trainer": {}}
            meta = {"name": name, "namespace": self.namespace}
            await self.client.create(TRAIN_JOBS, {**head, "metadata": meta, "spec": spec})
        await self.until(lambda pods: len(pods) == JOB_SIZE * len(names))

    async def release(self):
        """Let the pods go one by one, job by job in turns: as two Job controllers would make them at their worst."""
        pods = await self.pods()
        in_turns = sorted(pods, key=lambda pod: (index_of(pod), job_of(pod)))
        for pod in in_turns:
            key = Key(self.namespace, pod["metadata"]["name"])
            await self.client.patch(ANY_PODS, key, {"spec": {"schedulingGates": None}})
            await asyncio.sleep(0.2)  # kube-scheduler sees each alone, as it sees what controllers make

    async def pods(self):
        return [dict(pod) for pod in (await self.client.list(ANY_PODS, self.namespace)).items]

    async def until(self, condition):
        await until(self.pods, condition, within_s=PATIENCE_S)

    async def until_placed(self, total):
        await self.until(lambda pods: sum(placed(pods).values()) == total)

    async def placed(self):
        return placed(await self.pods())

    async def end(self, job):
        """Have the pods of a job succeed, as a kubelet would say."""
        for pod in await self.pods():
            if job_of(pod) == job:
                key = Key(self.namespace, pod["metadata"]["name"])
                await self.client.patch(ANY_PODS, key, {"status": {"phase": "Succeeded"}}, subresource="status")

    async def diagnosis(self, job):
        return (await self.client.get(TRAIN_JOBS, job, self.namespace)).status.diagnosis

    async def until_nothing_is_told(self, job):
        await until(lambda: self.diagnosis(job), lambda told: not told, within_s=PATIENCE_S)

    async def tear_down(self):
        for name in ("one", "two"):
            await self.client.delete(TRAIN_JOBS, Key(self.namespace, name), propagation="Background")
        for pod in await self.pods():
            with suppress(NotFound):  # the garbage collector works, too
                await self.client.delete(PODS, Key(self.namespace, pod["metadata"]["name"]), grace_period_s=0)
        for number in range(NODE_COUNT):
            await self.client.delete(NODES, Key("", f"n{number}"))


def placed(pods):
    """How many pods of each job have a node and have not ended."""
    found = {"one": 0, "two": 0}
    for pod in pods:
        if pod["spec"].get("nodeName") and pod["status"].get("phase") != "Succeeded":
            found[job_of(pod)] += 1
    return found


def job_of(pod):
    return pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"]


def index_of(pod):
    return int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])


@asynccontextmanager
async def staged(cluster, policy):
    async with real_plane(cluster) as plane, operating(plane):
        stage = Stage(plane)
        await stage.set_up(policy)
        try:
            yield stage
        finally:
            await stage.tear_down()


async def test_one_job_is_placed_whole_and_the_other_waits_and_then_runs(cluster):
    async with staged(cluster, {"podGroupPolicy": {"workload": {}}}) as stage:
        await stage.submit("one", "two")
        await stage.release()
        await stage.until_placed(JOB_SIZE)
        await asyncio.sleep(STAYS_S)
        seen = await stage.placed()
        assert sorted(seen.values()) == [0, JOB_SIZE]

        first, second = sorted(seen, key=lambda name: -seen[name])
        assert await stage.diagnosis(first) is None
        told = await stage.diagnosis(second)
        assert told.reason == "Unschedulable"
        assert f"PodGroup {second}-trainer-" in told.message
        assert "is not scheduled: pod group is unschedulable" in told.message
        await stage.end(first)
        await stage.until_placed(JOB_SIZE)
        assert await stage.placed() == {first: 0, second: JOB_SIZE}
        await stage.until_nothing_is_told(second)


async def test_without_gangs_both_jobs_hold_what_the_other_needs(cluster):
    async with staged(cluster, {}) as stage:
        await stage.submit("one", "two")
        await stage.release()
        await stage.until_placed(NODE_COUNT)
        await asyncio.sleep(STAYS_S)

        assert sorted((await stage.placed()).values()) == [2, 3]
