"""
TrainJobs in the queues of a real Kueue: suspended by its webhook, admitted with its patches, preempted, finished.

Kueue computes the pods of a job itself, from the runtime; that it and the JobSet agree is half of what is proved here.
No kubelet: a test says how the pods are.
"""

import pytest
import yaml

from ktrain.api import trainer as api
from ktrain.api.meta import Key

from .team import JOBSETS, MANAGER, RUNTIMES, TRAIN_JOBS, node, requests, runtime, state, trainer

pytestmark = pytest.mark.e2e
CHILD_WRITES = 3
"""To suspend a JobSet, to take its patches back, and to start it with others."""


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


async def test_a_file_that_is_applied_again_changes_nothing(team, tmp_path):
    """Kueue's webhook has spelled its quantities anew, and added a patch to a list that kubectl replaces."""
    labels = {"kueue.x-k8s.io/queue-name": "queue"}
    metadata = {"name": "job", "namespace": team.namespace, "labels": labels}
    patch = {"manager": "acme.io/me", "trainingRuntimeSpec": {"template": {"metadata": {"labels": {"a": "b"}}}}}
    spec = {
        "runtimeRef": {"kind": "TrainingRuntime", "name": "runtime"},
        "trainer": {"numNodes": 2, "resourcesPerNode": {"requests": {"cpu": 1}}},
        "runtimePatches": [patch],
    }
    body = {"apiVersion": api.API_VERSION, "kind": "TrainJob", "metadata": metadata, "spec": spec}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(body))
    await team.create(RUNTIMES, "runtime", spec=runtime(trainer()))
    assert await team.kubectl("apply", "-f", tmp_path / "job.yaml")
    await team.until_pods("job", 2)
    before = await team.get(TRAIN_JOBS, "job")
    assert before["spec"]["trainer"]["resourcesPerNode"] == {"requests": {"cpu": "1"}}
    assert await team.kubectl("apply", "-f", tmp_path / "job.yaml")
    assert (await team.get(TRAIN_JOBS, "job"))["spec"] == before["spec"]


async def test_pods_are_placed_together_where_the_topology_says(namespace):
    await namespace.build_racks()
    await namespace.open_queue(topologyName=namespace.namespace)
    spread = trainer()
    spread["template"]["spec"]["template"]["metadata"] = {
        "annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}
    }
    await namespace.submit("job", runtime(spread))
    pods = await namespace.until_pods("job", 2, lambda pod: not pod["spec"].get("schedulingGates"))
    nodes = sorted(pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] for pod in pods)
    assert nodes in ([f"{namespace.namespace}-{number}" for number in rack] for rack in ((0, 1), (2, 3)))
    assert namespace.refused() == []
