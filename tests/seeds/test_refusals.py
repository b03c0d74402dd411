"""What the documents write and no API server takes, or what they call a future or an alternative: refused in words."""

import pytest

from ktrain.api import documents as reader
from ktrain.api.trainer import TRAIN_JOBS
from ktrain.framework.errors import BadRequest, Invalid

MULTI_NODE = "trainer/torch-distributed-multi-node.yaml"


def at(body, *path):
    """The value at a path of an object."""
    for part in path:
        body = body[part]
    return body


def edited(path, **fields):
    """Set fields at a path of a runtime."""

    def change(body):
        if body["kind"] != "TrainJob":
            at(body, *path).update(fields)

    return change


@pytest.mark.parametrize(
    ("name", "change", "unknown"),
    [
        (MULTI_NODE, edited(("spec",), mlPolicy={"torchSpec": {}}), "spec.mlPolicy.torchSpec"),
        (MULTI_NODE, edited(("spec", "template"), replicatedJobs=[]), "spec.template.replicatedJobs"),
        (
            "workload/story-1.yaml",
            edited(("spec", "podGroupPolicy", "workload"), topologyConstraint={"level": "topology.kubernetes.io/rack"}),
            "spec.podGroupPolicy.workload.topologyConstraint",
        ),
        (
            "workload/story-1.yaml",
            edited(("spec", "podGroupPolicy", "workload"), podGroupTemplates=[]),
            "spec.podGroupPolicy.workload.podGroupTemplates",
        ),
        ("trainer/torch-test.yaml", lambda body: body["spec"].update(workloadSpec={}), "spec.workloadSpec"),
        ("trainer/torch-test.yaml", lambda body: body["spec"].update(datasetConfig={}), "spec.datasetConfig"),
        (
            "startup/story-1.yaml",
            lambda body: body["spec"]["replicatedJobs"][0].update(waitForStatus="Succeeded"),
            "spec.replicatedJobs[0].waitForStatus",
        ),
    ],
)
async def test_a_field_that_there_is_not_is_named(apply, name, change, unknown):
    with pytest.raises(BadRequest) as refusal:
        await apply(name, change)

    assert f'unknown field "{unknown}"' in str(refusal.value)


async def test_a_variable_is_a_text(apply):
    def number(body):
        containers = at(body, "spec", "template", "spec", "replicatedJobs", 0, "template", "spec", "template", "spec")
        containers["containers"][0]["env"][1]["value"] = 29400

    with pytest.raises(Invalid, match=r"env\[1\]\.value"):
        await apply(MULTI_NODE, number)


async def test_the_number_of_nodes_is_said_by_the_elastic_policy_alone(apply):
    with pytest.raises(Invalid, match=r"numNodes should not be set if torch\.elasticPolicy is configured"):
        await apply("trainer/torch-distributed-elastic.yaml", edited(("spec", "mlPolicy"), numNodes=5))


async def test_a_runtime_has_one_policy(apply):
    with pytest.raises(Invalid, match="Only one of the policy can be configured"):
        await apply(MULTI_NODE, edited(("spec", "mlPolicy"), mpi={}))


async def test_pods_of_a_job_are_not_restarted_always(apply, control_plane, running):
    def always(body):
        if body["kind"] == "TrainingRuntime":
            pods = at(body, "spec", "template", "spec", "replicatedJobs", 0, "template", "spec", "template", "spec")
            pods["restartPolicy"] = "Always"

    async with running("trainjob", "jobset"):
        await apply("elastic/pytorch-dist-mnist.yaml", always)
        job = await control_plane.wait_for(
            TRAIN_JOBS, "pytorch-dist-mnist", lambda found: found.status.diagnosis is not None
        )

        assert 'restartPolicy: Required value: valid values: "OnFailure", "Never"' in job.status.diagnosis.message


async def test_a_gpu_that_is_requested_has_a_limit_or_the_job_says_that_it_needs_one(apply, control_plane, running):
    """The documents request GPUs without a limit; Kubernetes takes no such pod."""
    await apply(MULTI_NODE)
    async with running("trainjob", "jobset"):
        await apply("trainer/torch-ddp.yaml")
        job = await control_plane.wait_for(TRAIN_JOBS, "torch-ddp", lambda found: found.status.diagnosis is not None)

        assert "limits" in job.status.diagnosis.message
        assert "Limit must be set for non overcommitable resources" in job.status.diagnosis.message


def test_a_file_of_the_documents_version_is_told_the_one_that_is_served(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("apiVersion: trainer.kubeflow.org/v2alpha1\nkind: TrainJob\nmetadata: {name: job}\n")

    with pytest.raises(reader.DocumentError, match=r"trainer\.kubeflow\.org/v1alpha1"):
        reader.load([file])
