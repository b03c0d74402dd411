"""An elastic TrainJob's size, from its scale to the pods; on a real server the Job controller is Kubernetes' own."""

import json

import pytest

from ktrain.api.core import JOBS, PODS, untyped
from ktrain.api.meta import Key, is_condition_true
from ktrain.api.trainer import TRAIN_JOBS, TRAINING_RUNTIMES
from ktrain.framework.client.options import PatchType
from ktrain.framework.errors import Invalid

NODES = "job-node-0"


@pytest.fixture
async def elastic_job(control_plane, create_train_job):
    """The TrainJob `job`, of two to three nodes, which asks for two."""
    policy = {"numNodes": None, "torch": {"elasticPolicy": {"minNodes": 2, "maxNodes": 3}}}
    key = Key(control_plane.namespace, "rt")
    await control_plane.client().patch(untyped(TRAINING_RUNTIMES), key, {"spec": {"mlPolicy": policy}})
    return await create_train_job(trainer={"numNodes": 2})


@pytest.fixture
def scale(control_plane):
    """Set the number of nodes, as `kubectl scale` does."""

    async def write(nodes):
        path = f"{TRAIN_JOBS.path(control_plane.namespace, 'job')}/scale"
        headers = {"Content-Type": PatchType.MERGE.value}
        answer = await control_plane.client().raw("PATCH", path, body={"spec": {"replicas": nodes}}, headers=headers)
        return json.loads(answer.body)

    return write


async def test_what_it_is_made_with_stays_and_its_size_is_within_its_range(
    control_plane, running, elastic_job, scale, ask
):
    path = f"{TRAIN_JOBS.path(control_plane.namespace, 'job')}"
    async with running("trainjob", "jobset"):
        await control_plane.wait_for(TRAIN_JOBS, "job", lambda job: job.status.elastic is not None)

    async def refused(spec):
        return (await ask("PATCH", path, {"spec": spec}, PatchType.MERGE.value)).causes

    immutable, out_of_range = "field is immutable", "must be within minNodes and maxNodes"
    for spec, field, message in (
        ({"trainer": {"numNodes": 3}}, "spec.trainer", immutable),
        ({"trainer": {"numNodes": None}}, "spec.trainer", immutable),
        ({"trainer": {"image": "other"}, "elasticNodes": 3}, "spec.trainer", immutable),
        ({"elasticNodes": 1}, "spec.elasticNodes", out_of_range),
        ({"elasticNodes": 4}, "spec.elasticNodes", out_of_range),
    ):
        ((told, why),) = await refused(spec)
        assert (told, message in why) == (field, True), spec
    await scale(3)
    job = await control_plane.client().get(TRAIN_JOBS, "job", control_plane.namespace)
    assert (job.spec.trainer.num_nodes, job.spec.elastic_nodes) == (2, 3)


@pytest.mark.parametrize(
    ("policy", "cause"),
    [
        ({"minReplicas": 2, "maxReplicas": 3, "rdzvPort": 29999, "rdzvConf": [{"key": "a", "value": "b"}]}, None),
        ({"standalone": True, "nProcPerNode": "gpu"}, None),
        ({"backend": "etcd"}, "only c10d is supported"),
        ({"minNodes": 1, "minReplicas": 1}, "minReplicas is another name of minNodes"),
        ({"standalone": True, "rdzvHost": "a"}, "must not be set with standalone"),
        ({"standalone": True, "maxReplicas": 2}, "standalone is for one node"),
        ({"minReplicas": 4, "maxNodes": 3}, "minNodes must not be greater than maxNodes"),
    ],
)
async def test_a_policy_is_checked_by_the_definition(control_plane, create_train_job, ask, policy, cause):
    path = f"{TRAINING_RUNTIMES.path(control_plane.namespace, 'rt')}"
    body = {"spec": {"mlPolicy": {"numNodes": None, "torch": {"elasticPolicy": policy}}}}
    said = await ask("PATCH", path, body, PatchType.MERGE.value)

    if cause is None:
        assert said.status == 200, said.body
    else:
        ((field, message),) = said.causes
        assert (field.startswith("spec.mlPolicy.torch.elasticPolicy"), cause in message) == (True, True)


async def test_the_proposals_name_of_the_port_is_longer_than_a_ports_name_may_be(ask, control_plane):
    def pod(name):
        port = {"containerPort": 29500, "name": name}
        spec = {"containers": [{"name": "node", "image": "i", "ports": [port]}]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}

    path = PODS.path(control_plane.namespace)
    refused = await ask("POST", f"{path}?dryRun=All", pod("kubeflow-rdzv-port"))
    taken = await ask("POST", f"{path}?dryRun=All", pod("kubeflow-rdzv"))

    assert refused.causes == {
        ("spec.containers[0].ports[0].name", 'Invalid value: "kubeflow-rdzv-port": must be no more than 15 characters')
    }
    assert taken.status == 201


async def test_the_size_of_a_job_that_is_not_elastic_is_not_for_its_scale(
    control_plane, running, create_train_job, scale, ask
):
    await create_train_job(trainer={"numNodes": 2})
    async with running("trainjob", "jobset"):
        await control_plane.wait_for(TRAIN_JOBS, "job", lambda job: job.status.jobs_status)
    with pytest.raises(
        Invalid, match=r"spec\.elasticNodes: .*only jobs of a runtime with torch\.elasticPolicy are elastic"
    ):
        await scale(3)


async def test_a_scale_that_has_no_number_cannot_be_read_and_an_empty_patch_of_it_says_nothing(
    control_plane, create_train_job, ask
):
    await create_train_job(trainer={"numNodes": 2})
    path = f"{TRAIN_JOBS.path(control_plane.namespace, 'job')}/scale"
    read = await ask("GET", path)
    patched = await ask("PATCH", path, {"spec": {}}, PatchType.MERGE.value)
    put = await ask("PATCH", path, {"spec": {"replicas": 3}}, PatchType.MERGE.value)

    missing = 'the spec replicas field ".spec.elasticNodes" does not exist'
    assert (read.status, read.body["message"]) == (500, f"Internal error occurred: {missing}")
    assert read.body["details"] == {"causes": [{"message": missing}]}
    assert (patched.status, patched.body["message"]) == (400, missing.replace("does not exist", "cannot be empty"))
    assert (put.status, put.body["spec"]) == (200, {"replicas": 3})


async def test_a_negative_number_of_nodes_has_one_cause(create_train_job):
    with pytest.raises(Invalid) as refusal:
        await create_train_job(trainer={"numNodes": -1})

    (cause,) = refusal.value.status.details.causes
    assert (cause.field, "greater than or equal to 0" in cause.message) == ("spec.trainer.numNodes", True)


async def test_its_pods_follow_its_scale_and_the_first_one_ends_it(control_plane, running, elastic_job, scale):
    client, namespace = control_plane.client(), control_plane.namespace

    async def pods(count):
        await control_plane.wait_for(JOBS, NODES, lambda job: job is not None and job.status.active == count)
        found = (await client.list(PODS, namespace)).items
        alive = [pod for pod in found if not pod.metadata.deletion_timestamp]
        index = "batch.kubernetes.io/job-completion-index"
        return {pod.metadata.annotations[index]: pod.metadata for pod in alive}

    async def play(name, phase):
        status = {"phase": phase, "conditions": [{"type": "Ready", "status": str(phase == "Running")}]}
        await client.patch(PODS, Key(namespace, name), {"status": status}, subresource="status")

    async with running("trainjob", "jobset", "job"):
        two = await pods(2)
        await control_plane.wait_for(TRAIN_JOBS, "job", lambda job: job.status.elastic is not None)
        with pytest.raises(Invalid, match="must be within minNodes and maxNodes"):
            await scale(4)
        await scale(3)
        three = await pods(3)
        for pod in three.values():
            await play(pod.name, "Running")
        await control_plane.wait_for(TRAIN_JOBS, "job", lambda job: job.status.elastic.observed_nodes == 3)
        shown = await scale(2)
        again = await pods(2)

        assert {index: pod.uid for index, pod in three.items() if index in two} == {i: p.uid for i, p in two.items()}
        assert {index: pod.uid for index, pod in again.items()} == {i: p.uid for i, p in two.items()}
        assert shown["status"]["replicas"] == 3
        selector = shown["status"]["selector"]
        assert len((await client.list(PODS, namespace, label_selector=selector)).items) >= 2

        await play(two["0"].name, "Succeeded")
        await control_plane.wait_for(
            TRAIN_JOBS, "job", lambda job: is_condition_true(job.status.conditions, "Complete")
        )
