"""
TrainJobs in the queues of a real Kueue: suspended by its webhook, admitted with its patches, preempted, finished.

Kueue computes the pods of a job itself, from the runtime; that it and the JobSet agree is half of what is proved here.
No kubelet: a test says how the pods are.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from ktrain.api import core, jobset
from ktrain.api import trainer as api
from ktrain.api.meta import Key, Resource
from ktrain.framework.errors import NotFound
from ktrain.testing.envtest import Settings
from ktrain.testing.planes import real_plane

from . import queueing

pytestmark = pytest.mark.e2e

JOBSETS, PODS = core.untyped(jobset.JOBSETS), core.untyped(core.PODS)
TRAIN_JOBS = core.untyped(api.TRAIN_JOBS)
MANAGER = "kueue.x-k8s.io/manager"
AGENTS = ("trainer", "kueue")
CHILD_WRITES = 3
"""To suspend a JobSet, to take its patches back, and to start it with others."""
PATIENCE_S = 60.0


def kind(name: str, plural: str, *, namespaced: bool = False) -> Resource[dict]:
    return Resource("kueue.x-k8s.io", "v1beta2", name, plural, namespaced, dict)


FLAVORS, CLUSTER_QUEUES = kind("ResourceFlavor", "resourceflavors"), kind("ClusterQueue", "clusterqueues")
PRIORITIES = kind("WorkloadPriorityClass", "workloadpriorityclasses")
LOCAL_QUEUES, WORKLOADS = (
    kind("LocalQueue", "localqueues", namespaced=True),
    kind("Workload", "workloads", namespaced=True),
)


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    binaries = Settings.of().binaries
    if binaries is None or binaries.kube_controller_manager is None:
        pytest.skip("needs a real control plane: set KUBEBUILDER_ASSETS (hack/controlplane/build makes it)")
    if (kueue := queueing.built()) is None:
        pytest.skip("needs Kueue: set PEER_ASSETS (hack/peers/kueue/build makes it)")
    with queueing.plane(binaries, kueue, tmp_path_factory.mktemp("kueue")) as running:
        yield running


@pytest.fixture
async def team(plane):
    """A namespace with a queue that has room for four CPUs."""
    async with real_plane(plane.server) as control_plane:
        one = Team(plane, control_plane)
        await one.open_queue()
        yield one


class Team:
    """A namespace, its queue, and how its pods are."""

    def __init__(self, plane, control_plane) -> None:
        self.plane = plane
        self.namespace = control_plane.namespace
        self.client = control_plane.client()

    async def create(self, resource, name, **content):
        metadata = {"name": name, **content.pop("metadata", {})}
        if resource.namespaced:
            metadata["namespace"] = self.namespace
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}
        return await self.client.create(resource, body)

    async def open_queue(self) -> None:
        name = self.namespace
        toleration = {"key": "pool", "operator": "Equal", "value": name, "effect": "NoSchedule"}
        await self.create(FLAVORS, name, spec={"nodeLabels": {"pool": name}, "tolerations": [toleration]})
        quota = {"name": name, "resources": [{"name": "cpu", "nominalQuota": 4}]}
        group = {"coveredResources": ["cpu"], "flavors": [quota]}
        preemption = {"withinClusterQueue": "LowerPriority"}
        await self.create(
            CLUSTER_QUEUES, name, spec={"namespaceSelector": {}, "resourceGroups": [group], "preemption": preemption}
        )
        await self.create(LOCAL_QUEUES, "queue", spec={"clusterQueue": name})
        for level, value in (("low", 1), ("high", 2)):
            await self.create(PRIORITIES, f"{name}-{level}", value=value)

    async def submit(self, name, runtime, *, priority="", **spec):
        """Create a runtime of the same name, and a TrainJob of it in the queue."""
        await self.create(core.untyped(api.TRAINING_RUNTIMES), name, spec=runtime)
        labels = {"kueue.x-k8s.io/queue-name": "queue"}
        if priority:
            labels["kueue.x-k8s.io/priority-class"] = f"{self.namespace}-{priority}"
        spec = {"runtimeRef": {"kind": "TrainingRuntime", "name": name}, **spec}
        return await self.create(TRAIN_JOBS, name, metadata={"labels": labels}, spec=spec)

    async def until(self, condition, what="it"):
        """Wait until an awaited condition gives something that is true, and return that."""
        async with asyncio.timeout(PATIENCE_S):
            while not (found := await condition()):  # noqa: ASYNC110 -- other programs change it, over HTTP
                await asyncio.sleep(0.1)
            return found
        raise AssertionError(what)

    def writes(self, *agents):
        """What they wrote in this namespace."""
        return [write for agent in agents for write in self.plane.writes(agent, self.namespace)]

    def refused(self):
        """What either manager wrote and the API server, or a webhook, did not take; conflicts are no refusals."""
        return [write for write in self.writes(*AGENTS) if write[-1] >= 400 and write[-1] not in (404, 409)]

    async def running_job_set(self, job):
        found = await self.get(JOBSETS, job)
        return None if found is None or found["spec"].get("suspend") else found

    async def has_freed(self, job, pods):
        """Whether Kueue counts these pods no more."""
        return (await self.workload(job))["status"].get("reclaimablePods") == pods

    async def is_unpatched(self, job):
        """Whether Kueue has taken back what it had patched."""
        patches = (await self.get(TRAIN_JOBS, job))["spec"]["runtimePatches"]
        mine = next(patch for patch in patches if patch["manager"] == MANAGER)
        return not mine["trainingRuntimeSpec"]["template"]["spec"].get("replicatedJobs")

    async def get(self, resource, name):
        try:
            return await self.client.get(resource, name, self.namespace)
        except NotFound:
            return None

    async def workload(self, job):
        """The Workload of a TrainJob."""
        for found in (await self.client.list(WORKLOADS, self.namespace)).items:
            if any(owner["name"] == job for owner in found["metadata"].get("ownerReferences", ())):
                return found
        return None

    async def until_workload(self, job, condition, status="True"):
        async def reached():
            found = await self.workload(job)
            return found if found and state(found, condition) == status else None

        return await self.until(reached)

    async def pods(self, job):
        found = await self.client.list(PODS, self.namespace, label_selector=f"jobset.sigs.k8s.io/jobset-name={job}")
        return found.items

    async def until_pods(self, job, count):
        async def made():
            found = await self.pods(job)
            return found if len(found) == count else None

        return await self.until(made) if count else await self.until(lambda: self._none(job))

    async def _none(self, job):
        return not await self.pods(job)

    async def let_pods(self, job, phase):
        """Do the kubelet's part for all pods of a job."""
        for pod in await self.pods(job):
            if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
                continue
            await self.client.patch(
                PODS, Key(self.namespace, pod["metadata"]["name"]), in_phase(pod, phase), subresource="status"
            )


def state(obj, condition):
    """The status of a condition, empty if there is none."""
    return next((c["status"] for c in obj.get("status", {}).get("conditions", ()) if c["type"] == condition), "")


def in_phase(pod, phase):
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    running = phase == "Running"
    ended = {"exitCode": 0 if phase == "Succeeded" else 1, "reason": "Done", "startedAt": now, "finishedAt": now}
    statuses = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": running,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}} if running else {"terminated": ended},
        }
        for container in pod["spec"]["containers"]
    ]
    ready = {"status": "True" if running else "False", "lastTransitionTime": now}
    conditions = [{"type": kind, **ready} for kind in ("Ready", "ContainersReady")]
    return {"status": {"phase": phase, "startTime": now, "conditions": conditions, "containerStatuses": statuses}}


def node(name="node", *, cpu=1, replicas=1, step="", container="node", **spec):
    """A replicated job of one container."""
    container = {"name": container, "image": "none", "command": ["train"]}
    if cpu:
        container["resources"] = {"requests": {"cpu": str(cpu)}}
    template = {"spec": {**spec, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}}
    if step:
        template["metadata"] = {"labels": {api.ANCESTOR_LABEL: step}}
    return {"name": name, "replicas": replicas, "template": template}


def trainer(name="node", *, cpu=1):
    """A replicated job whose pods train."""
    return node(name, cpu=cpu, step="trainer")


def requests(template):
    """What each pod of a template asks for."""
    return [each.get("resources", {}).get("requests", {}) for each in template["template"]["spec"]["containers"]]


def runtime(*replicated_jobs, **policy):
    """A runtime's spec: two nodes."""
    return {"mlPolicy": {"numNodes": 2, **policy}, "template": {"spec": {"replicatedJobs": list(replicated_jobs)}}}


async def test_a_job_in_a_queue_is_admitted_where_its_flavor_is_and_runs_to_its_end(team):
    submitted = await team.submit("job", runtime(trainer(), torch={}))
    assert submitted["spec"]["suspend"] is True
    assert [patch["manager"] for patch in submitted["spec"]["runtimePatches"]] == [MANAGER]

    workload = await team.until_workload("job", "Admitted")
    assert [(each["name"], each["count"]) for each in workload["spec"]["podSets"]] == [("node", 2)]
    assert [each["resourceUsage"] for each in workload["status"]["admission"]["podSetAssignments"]] == [{"cpu": "2"}]

    pods = await team.until_pods("job", 2)
    for pod in pods:
        assert pod["spec"]["nodeSelector"] == {"pool": team.namespace}
        assert team.namespace in [toleration.get("value") for toleration in pod["spec"]["tolerations"]]
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "node"
    await team.let_pods("job", "Running")
    await team.until_workload("job", "PodsReady")
    await team.let_pods("job", "Succeeded")
    await team.until_workload("job", "Finished")
    job = await team.get(TRAIN_JOBS, "job")
    assert state(job, "Complete") == "True"
    assert team.refused() == []


LAYOUTS = {
    "torch": (runtime(trainer(), torch={}), {"trainer": {"numNodes": 3}}),
    "jax": (runtime(trainer(), jax={}), {}),
    "xgboost": (runtime(trainer(), xgboost={}), {"trainer": {"numNodes": 1}}),
    "resources of the job": (
        runtime(trainer(cpu=0), torch={}),
        {"trainer": {"numNodes": 2, "resourcesPerNode": {"requests": {"cpu": "1500m"}}}},
    ),
    "a launcher that is a node": (
        runtime(node(), trainer("launcher"), numNodes=1, mpi={"runLauncherAsNode": True}),
        {"trainer": {"numNodes": 3}},
    ),
    "a launcher apart": (
        runtime(node(), trainer("launcher"), numNodes=1, mpi={"mpiImplementation": "OpenMPI"}),
        {"trainer": {"numNodes": 3}},
    ),
    "jobs without a step": (runtime(node("server", replicas=2, parallelism=1), trainer()), {}),
}


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_kueue_counts_the_pods_that_are_made(team, layout):
    runtime_spec, spec = LAYOUTS[layout]
    await team.submit("job", runtime_spec, **spec)
    counted = (await team.until_workload("job", "Admitted"))["spec"]["podSets"]
    job_set = await team.until(lambda: team.running_job_set("job"))
    made = [
        (
            each["name"],
            each.get("replicas", 1) * each["template"]["spec"]["parallelism"],
            requests(each["template"]["spec"]),
        )
        for each in job_set["spec"]["replicatedJobs"]
    ]
    assert [(each["name"], each["count"], requests(each)) for each in counted] == made
    assert team.refused() == []


async def test_a_job_waits_until_there_is_room(team):
    await team.submit("first", runtime(trainer(cpu=2)))
    await team.until_pods("first", 2)
    await team.submit("second", runtime(trainer(cpu=2)))
    await team.until_workload("second", "QuotaReserved", "False")
    waiting = await team.get(TRAIN_JOBS, "second")
    assert waiting["spec"]["suspend"] is True
    assert await team.pods("second") == []

    await team.let_pods("first", "Succeeded")
    await team.until_workload("first", "Finished")
    await team.until_pods("second", 2)
    assert team.refused() == []


async def test_a_job_gives_way_to_one_of_a_higher_priority_and_comes_back(team):
    await team.submit("low", runtime(trainer(cpu=2)), priority="low")
    await team.until_pods("low", 2)
    await team.let_pods("low", "Running")
    await team.until_workload("low", "PodsReady")
    before = len(team.writes("trainer"))

    await team.submit("high", runtime(trainer(cpu=2)), priority="high")
    await team.until_pods("high", 2)
    assert await team.pods("low") == []
    evicted = await team.get(TRAIN_JOBS, "low")
    assert evicted["spec"]["suspend"] is True
    assert state(evicted, "Suspended") == "True"
    await team.until(lambda: team.is_unpatched("low"))

    await team.let_pods("high", "Succeeded")
    pods = await team.until_pods("low", 2)
    assert {pod["spec"]["nodeSelector"]["pool"] for pod in pods} == {team.namespace}
    await team.let_pods("low", "Succeeded")
    await team.until_workload("low", "Finished")
    assert team.refused() == []
    children = [write for write in team.writes("trainer")[before:] if write[1:3] == ("jobsets", "low")]
    assert len(children) <= CHILD_WRITES, children


async def test_what_is_deleted_makes_room(team):
    await team.submit("first", runtime(trainer(cpu=2)))
    await team.until_pods("first", 2)
    await team.submit("second", runtime(trainer(cpu=2)))
    await team.client.delete(TRAIN_JOBS, Key(team.namespace, "first"))
    await team.until_pods("second", 2)
    await team.until_pods("first", 0)
    assert await team.get(JOBSETS, "first") is None
    assert await team.workload("first") is None


async def test_what_an_initializer_no_longer_needs_is_free_for_others(team):
    initializer = node("dataset-initializer", step="dataset-initializer", container="dataset-initializer")
    dependent = trainer() | {"dependsOn": [{"name": "dataset-initializer", "status": "Complete"}]}
    await team.submit("job", runtime(initializer, dependent, torch={}))
    workload = await team.until_workload("job", "Admitted")
    assert [(each["name"], each["count"]) for each in workload["spec"]["podSets"]] == [
        ("dataset-initializer", 1),
        ("node", 2),
    ]
    await team.until_pods("job", 1)
    await team.let_pods("job", "Succeeded")
    freed = [{"name": "dataset-initializer", "count": 1}]
    await team.until(lambda: team.has_freed("job", freed))
    await team.until_pods("job", 3)
    await team.let_pods("job", "Running")
    await team.until_workload("job", "PodsReady")
    await team.let_pods("job", "Succeeded")
    await team.until_workload("job", "Finished")
    assert team.refused() == []


async def test_of_a_job_for_another_cluster_nothing_is_written(team):
    await team.submit("job", runtime(trainer()), managedBy="kueue.x-k8s.io/multikueue")
    await team.until(lambda: team.workload("job"))
    await team.submit("other", runtime(trainer()))
    await team.until_pods("other", 2)
    assert "status" not in await team.get(TRAIN_JOBS, "job")
    assert [write for write in team.writes("trainer") if write[2].startswith("job")] == []


async def test_what_kueue_does_not_know_of_a_job_outlives_its_updates(team):
    """Its types are those of Trainer 2.2, and it updates whole objects."""
    patch = {"terminationGracePeriodSeconds": 5}
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": patch}}}}]
    later = {"manager": "acme.io/me", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
    earlier = [{"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"disk": "fast"}}}]
    await team.submit("job", runtime(trainer()), runtimePatches=[later], podTemplateOverrides=earlier)
    for pod in await team.until_pods("job", 2):
        assert pod["spec"]["nodeSelector"] == {"disk": "fast", "pool": team.namespace}
        assert pod["spec"]["terminationGracePeriodSeconds"] == 5
