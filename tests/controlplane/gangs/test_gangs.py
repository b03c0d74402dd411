"""
Gangs on the real kube-scheduler: two jobs of four pods, and room for five.

The controllers of TrainJobs and JobSets are ktrain's. API server, Job controller, scheduler and the protection of
PodGroups are Kubernetes' own, with the feature gates of its gangs: those of 1.36 in KUBEBUILDER_ASSETS, and those of
1.35 in KUBEBUILDER_ASSETS_1_35. No kubelet runs: pods end when the test says so.
"""

import asyncio
import os
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from ktrain.api.core import NODES, PODS, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key
from ktrain.api.trainer import ANCESTOR_LABEL, TRAIN_JOBS, TRAINING_RUNTIMES
from ktrain.controllers import jobset, trainjob
from ktrain.framework import Cache, EventRecorder, Manager
from ktrain.framework.errors import NotFound
from ktrain.pipeline import Registry
from ktrain.plugins.jobset import JobSet
from ktrain.plugins.plainml import PlainML
from ktrain.plugins.workload import Workload
from ktrain.plugins.workload.versions import VERSIONS
from ktrain.testing.envtest import Binaries, Settings
from ktrain.testing.planes import real_plane
from ktrain.testing.realserver import CONTROLLERS, real_server

from ...waiting import until
from ..processes import install, kube_scheduler

pytestmark = pytest.mark.e2e
GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
PROTECTION = f"--controllers={CONTROLLERS},podgroup-protection-controller"
SERVED = {version.name: version for version in VERSIONS}
NODE_COUNT, JOB_SIZE = 5, 4
HOLD = "test.ktrain.dev/hold"
WORKLOAD = {"podGroupPolicy": {"workload": {}}}
PATIENCE_S = 60.0
STAYS_S = 5.0
"""For how long nothing may change where nothing should."""
ANY_NODES, ANY_PODS = untyped(NODES), untyped(PODS)


@dataclass(frozen=True)
class Release:
    """A minor release of Kubernetes: its programs, and the version of the API that it serves."""

    variable: str
    served: str
    controllers: str

    @property
    def binaries(self):
        if self.variable == "KUBEBUILDER_ASSETS":
            return Settings.of().binaries
        directory = os.environ.get(self.variable)
        return Binaries.inside(Path(directory)) if directory else None


NEWEST = Release("KUBEBUILDER_ASSETS", "v1alpha2", PROTECTION)
INLINE = Release("KUBEBUILDER_ASSETS_1_35", "v1alpha1", f"--controllers={CONTROLLERS}")


@pytest.fixture(scope="module", params=[NEWEST, INLINE], ids=["1.36", "1.35"])
def release(request):
    return request.param


@pytest.fixture(scope="module")
def cluster(release, tmp_path_factory):
    """A control plane with gangs and its scheduler."""
    binaries = release.binaries
    scheduler = binaries and binaries.kube_apiserver.with_name("kube-scheduler")
    if not scheduler or not scheduler.exists():
        pytest.skip(f"needs kube-apiserver, kube-controller-manager and kube-scheduler in {release.variable}")
    arguments = {
        "kube-apiserver": [GATES, f"--runtime-config=scheduling.k8s.io/{release.served}=true"],
        "kube-controller-manager": [GATES, release.controllers],
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
            spec = {"runtimeRef": {"name": "rt", "kind": "TrainingRuntime"}}
            meta = {"name": name, "namespace": self.namespace}
            await self.client.create(TRAIN_JOBS, {**head, "metadata": meta, "spec": spec})
        await self.until(lambda pods: len(pods) == JOB_SIZE * len(names))

    async def release(self, order=lambda pod: (index_of(pod), job_of(pod))):
        """Let the pods go one by one, job by job in turns: as two Job controllers would make them at their worst."""
        await self.release_these(sorted(await self.pods(), key=order))

    async def release_these(self, pods):
        for pod in pods:
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

    async def change(self, job, **spec):
        await self.client.patch(TRAIN_JOBS, Key(self.namespace, job), {"spec": spec})

    async def end_pods(self):
        """Remove the pods that are being deleted, as a kubelet would when they have ended."""
        for pod in await self.pods():
            if pod["metadata"].get("deletionTimestamp"):
                with suppress(NotFound):
                    await self.client.delete(PODS, Key(self.namespace, pod["metadata"]["name"]), grace_period_s=0)
        return await self.pods()

    async def until_suspended(self, job):
        await self.change(job, suspend=True)
        await until(self.end_pods, lambda pods: not pods, within_s=PATIENCE_S)

    async def gang(self, version):
        """Return the UIDs of the job's Workload and PodGroups, and the gang's minCount."""
        workload, *groups = await self.gang_objects(version)
        (template,) = workload.templates
        return [one.metadata.uid for one in (workload, *groups)], template.scheduling_policy.gang.min_count

    async def gang_objects(self, version):
        kinds = (version.workloads, version.pod_groups) if version.has_pod_groups else (version.workloads,)
        return [one for kind in kinds for one in (await self.client.list(kind, self.namespace)).items]

    async def until_other_groups(self, version, before):
        """Wait until the job's Workload and PodGroups are other ones; return their UIDs."""

        async def uids():
            return [one.metadata.uid for one in await self.gang_objects(version)]

        return await until(uids, lambda found: len(found) == len(before) and not set(found) & set(before))

    async def make_job_set_anew(self, job):
        async def find():
            return (await self.client.get(JOBSETS, job, self.namespace)).metadata.uid

        before = await find()
        await self.client.delete(JOBSETS, Key(self.namespace, job), propagation="Background")
        await until(find, lambda uid: uid != before, despite=(NotFound,))

    async def until_deleted(self, job, version):
        """Delete a job, and wait until its pods, Workload and PodGroups are gone."""
        await self.client.delete(TRAIN_JOBS, Key(self.namespace, job), propagation="Background")
        await until(self.end_pods, lambda pods: not pods, within_s=PATIENCE_S)
        await until(lambda: self.gang_objects(version), lambda found: not found, within_s=PATIENCE_S)

    async def diagnosis(self, job):
        return (await self.client.get(TRAIN_JOBS, job, self.namespace)).status.diagnosis

    async def until_nothing_is_told(self, job):
        await until(lambda: self.diagnosis(job), lambda told: not told, within_s=PATIENCE_S)

    async def tear_down(self):
        for name in ("one", "two"):
            with suppress(NotFound):  # some tests have one job
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


@pytest.mark.parametrize("release", [NEWEST], ids=["1.36"], indirect=True)
async def test_one_job_is_placed_whole_and_the_other_waits_and_then_runs(cluster):
    async with staged(cluster, WORKLOAD) as stage:
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


@pytest.mark.parametrize("release", [INLINE], ids=["1.35"], indirect=True)
async def test_on_1_35_a_job_is_placed_whole_and_the_next_one_has_no_pod_placed_until_all_can_be(cluster):
    async with staged(cluster, WORKLOAD) as stage:
        await stage.submit("one", "two")
        # 1.35 keeps a place for each pod that waits for its gang; two gangs at once would wait for each other.
        await stage.release(order=lambda pod: (job_of(pod), index_of(pod)))
        await stage.until_placed(JOB_SIZE)
        await asyncio.sleep(STAYS_S)
        assert await stage.placed() == {"one": JOB_SIZE, "two": 0}

        await stage.end("one")
        await stage.until_placed(JOB_SIZE)
        assert await stage.placed() == {"one": 0, "two": JOB_SIZE}


async def test_a_job_that_is_suspended_and_resumed_keeps_its_groups_and_is_placed_whole_again(cluster, release):
    version = SERVED[release.served]
    async with staged(cluster, WORKLOAD) as stage:
        await stage.submit("one")
        await stage.release()
        await stage.until_placed(JOB_SIZE)
        before = await stage.gang(version)
        await stage.until_suspended("one")
        assert await stage.gang(version) == before

        await stage.change("one", suspend=False)
        await stage.until(lambda pods: len(pods) == JOB_SIZE)
        *others, last = sorted(await stage.pods(), key=index_of)
        await stage.release_these(others)
        await asyncio.sleep(STAYS_S)
        assert await stage.placed() == {"one": 0, "two": 0}
        await stage.release_these([last])
        await stage.until_placed(JOB_SIZE)
        assert await stage.gang(version) == before


async def test_a_suspended_job_of_another_size_gets_other_groups_and_is_placed_whole(cluster, release):
    version = SERVED[release.served]
    async with staged(cluster, WORKLOAD) as stage:
        await stage.submit("one")
        await stage.release()
        await stage.until_placed(JOB_SIZE)
        before, _ = await stage.gang(version)
        await stage.until_suspended("one")
        await stage.change("one", trainer={"numNodes": JOB_SIZE - 1})
        after = await stage.until_other_groups(version, before)
        await stage.make_job_set_anew("one")  # whose Jobs cannot change their size
        await stage.change("one", suspend=False)
        await stage.until(lambda pods: len(pods) == JOB_SIZE - 1)
        assert await stage.gang(version) == (after, JOB_SIZE - 1)

        await stage.release()
        await stage.until_placed(JOB_SIZE - 1)
        await stage.until_deleted("one", version)


async def test_without_gangs_both_jobs_hold_what_the_other_needs(cluster):
    async with staged(cluster, {}) as stage:
        await stage.submit("one", "two")
        await stage.release()
        await stage.until_placed(NODE_COUNT)
        await asyncio.sleep(STAYS_S)

        assert sorted((await stage.placed()).values()) == [2, 3]
