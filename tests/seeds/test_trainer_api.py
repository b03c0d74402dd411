"""KEP-2170: what becomes of its TrainJobs on its runtimes."""

import pytest

from ktrain.api import trainer
from ktrain.api.core import CONFIG_MAPS, SECRETS
from ktrain.api.crds.podgroups import pod_group_crds
from ktrain.api.meta import Key
from ktrain.framework.errors import Invalid

MULTI_NODE = "trainer/torch-distributed-multi-node.yaml"
LLAMA = "trainer/torch-tune-llama-7b.yaml"
POD_GROUPS = trainer.Resource("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups", namespaced=True, type=dict)


def on_runtime(name):
    """Have a TrainJob run on another runtime."""

    def change(body):
        if body["kind"] == "TrainJob":
            body["spec"]["runtimeRef"]["name"] = name

    return change


def with_trainer(**fields):
    """Change what a TrainJob says of its trainer."""

    def change(body):
        if body["kind"] == "TrainJob":
            body["spec"]["trainer"] = body["spec"].get("trainer", {}) | fields

    return change


async def test_the_torch_job_of_the_document_gets_its_nodes_image_command_and_resources(apply, built, running):
    await apply(MULTI_NODE)
    async with running("trainjob"):
        await apply("trainer/torch-ddp.yaml")
        job = await built("torch-ddp")

        assert job.size("node") == 5
        container = job.container("node")
        assert (container["name"], container["image"]) == ("trainer", "docker.io/custom-training")
        assert container["command"] == ["torchrun", "train.py"]
        assert container["resources"]["requests"] == {"nvidia.com/gpu": "2"}
        env = job.env("node")
        assert (env["PET_NNODES"], env["PET_NPROC_PER_NODE"]) == ("5", "5"), "the runtime's number of processes counts"


async def test_with_the_default_number_of_processes_there_is_one_for_each_gpu(apply, built, running):
    def automatic(body):
        body["spec"]["mlPolicy"]["torch"] = {}

    await apply(MULTI_NODE, automatic)
    async with running("trainjob"):
        await apply("trainer/torch-ddp.yaml")

        assert (await built("torch-ddp")).env("node")["PET_NPROC_PER_NODE"] == "auto"


@pytest.mark.parametrize(("asked", "told"), [("auto", "auto"), ("cpu", "3"), ("gpu", "gpu"), ("5", "5"), (5, "5")])
async def test_a_train_job_says_its_number_of_processes_as_the_document_does(apply, built, running, asked, told):
    resources = {"requests": {"cpu": "3"}} if asked == "cpu" else {"limits": {"nvidia.com/gpu": "2"}}
    await apply(MULTI_NODE)
    async with running("trainjob"):
        # A word is stored as `processesPerNode`: clients of Kubeflow read a number in the other field.
        change = with_trainer(numProcPerNode=asked, resourcesPerNode=resources)
        await apply("trainer/torch-test.yaml", change, moved={".spec.trainer.numProcPerNode"})

        assert (await built("torch-test")).env("node")["PET_NPROC_PER_NODE"] == told


async def test_a_job_that_says_little_has_the_size_and_variables_of_its_runtime(apply, built, running):
    await apply(MULTI_NODE)
    async with running("trainjob"):
        await apply("trainer/torch-test.yaml")
        job = await built("torch-test")

        env = job.env("node")
        assert (job.size("node"), env["PET_NNODES"], env["PET_NPROC_PER_NODE"]) == (2, "2", "5")
        assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("pytorch-node-0-0.pytorch", "29400")
        assert env["PET_MASTER_ADDR"] == "torch-test-node-0-0.torch-test"
        assert job.container("node")["args"] == ["num-epochs=5"]


@pytest.mark.parametrize(
    ("runtime", "nodes", "told"),
    [("torch-simple", 1, {}), ("torch-distributed-single-worker", 1, {"PET_NNODES": "1", "PET_NPROC_PER_NODE": "5"})],
)
async def test_the_additional_runtimes_have_one_node(apply, built, running, runtime, nodes, told):
    await apply(f"trainer/{runtime}.yaml")
    async with running("trainjob"):
        await apply("trainer/torch-test.yaml", on_runtime(runtime))
        job = await built("torch-test")

        assert job.size("node") == nodes
        assert {
            name: value for name, value in job.env("node").items() if name in ("PET_NNODES", "PET_NPROC_PER_NODE")
        } == told


async def test_zero_nodes_are_one_pod_that_trains_standalone(apply, built, running):
    await apply("trainer/torch-distributed-single-worker.yaml")
    async with running("trainjob"):
        await apply("trainer/torch-test.yaml", _zero_nodes)
        job = await built("torch-test")

        env = job.env("node")
        assert (job.size("node"), env["PET_STANDALONE"], env["PET_NPROC_PER_NODE"]) == (1, "1", "5")
        assert "PET_MASTER_ADDR" not in env


def _zero_nodes(body):
    on_runtime("torch-distributed-single-worker")(body)
    with_trainer(numNodes=0)(body)


async def test_the_pod_group_of_coscheduling_has_the_nodes_as_members_and_the_documents_time(
    apply, built, running, control_plane
):
    await control_plane.install_crds(*pod_group_crds())
    await apply("trainer/torch-coscheduling.yaml")
    async with running("trainjob"):
        await apply("trainer/torch-ddp.yaml")
        group = await control_plane.wait_for(POD_GROUPS, "torch-ddp", lambda found: found is not None)
        job = await built("torch-ddp")

        # The document's own object says 5, as its runtime has 5 processes; its text says the number of nodes.
        assert (group["spec"]["minMember"], group["spec"]["scheduleTimeoutSeconds"]) == (5, 100)
        assert group["spec"]["minResources"]["nvidia.com/gpu"] == "10"
        assert job.pod("node")["schedulerName"] == "coscheduling"


async def test_the_dataset_of_a_fine_tuning_job_replaces_that_of_its_runtime(apply, built, running):
    await apply(LLAMA)
    async with running("trainjob"):
        await apply("trainer/tune-llama-with-yelp.yaml")
        job = await built("tune-llama-with-yelp")

        assert job.env("dataset-initializer")["STORAGE_URI"] == "s3://dataset/custom-dataset/yelp-review"
        assert job.env("model-initializer")["STORAGE_URI"] == "hf://meta-llama/Llama-2-7b"
        needs = [(one["name"], one["status"]) for one in job.jobs["node"]["dependsOn"]]
        assert needs == [("dataset-initializer", "Complete"), ("model-initializer", "Complete")]
        assert "LORA_CONFIG" in job.env("node")


@pytest.mark.parametrize(
    ("step", "field", "said"),
    [
        ("dataset-initializer", "dataset", ("s3://datasets/yelp-review", "ENDPOINT_URL", "s3.custom.com")),
        ("model-initializer", "model", ("hf://bert-based-cased", "TRANSFORMER_TYPE", "AutoModelForCausalLM")),
    ],
)
@pytest.mark.parametrize("runtime", ["llama", "gemma"])
async def test_uri_variables_and_secret_of_an_initializer_reach_its_container(
    apply, built, running, runtime, step, field, said
):
    uri, name, value = said

    def asks(body):
        on_runtime(f"torch-tune-{runtime}-7b")(body)
        asset = {"storageUri": uri, "env": [{"name": name, "value": value}], "secretRef": {"name": "hub"}}
        body["spec"]["initializer"] = {field: asset}

    await apply(f"trainer/torch-tune-{runtime}-7b.yaml")
    async with running("trainjob"):
        await apply("trainer/tune-llama-with-yelp.yaml", asks)
        job = await built("tune-llama-with-yelp")

        env = job.env(step)
        assert (env["STORAGE_URI"], env[name]) == (uri, value)
        assert job.container(step)["envFrom"] == [{"secretRef": {"name": "hub"}}]


async def test_overrides_reach_the_init_container_and_the_volume_of_the_job_that_they_name(apply, built, running):
    await apply("trainer/pytorch-distributed-gpu.yaml")
    async with running("trainjob"):
        await apply("trainer/overrides-identity-and-volume.yaml")
        job = await built("pytorch-distributed")

        (identity,) = job.pod("node")["initContainers"]
        assert identity["env"] == [{"name": "USER_ID", "value": "123"}]
        assert job.pod("node")["volumes"][0]["persistentVolumeClaim"]["claimName"] == "user-123-volume"
        assert job.container("node")["volumeMounts"] == [{"name": "user-123-volume", "mountPath": "/workspace"}]
        assert "env" not in job.pod("dataset-initializer")["initContainers"][0]


async def test_each_job_has_overrides_of_its_own(apply, built, running):
    await apply("trainer/pytorch-distributed-gpu.yaml")
    async with running("trainjob"):
        await apply("trainer/overrides-of-every-job.yaml")
        job = await built("pytorch-distributed")

        for name in ("dataset-initializer", "node"):
            assert job.pod(name)["initContainers"][0]["env"] == [{"name": "USER_ID", "value": "123"}]


async def test_the_mpi_runtime_starts_from_a_launcher_that_has_keys_hosts_and_their_path(
    apply, built, running, control_plane
):
    await apply("trainer/deepspeed.yaml")
    async with running("trainjob"):
        await apply("trainer/torch-test.yaml", _deepspeed)
        job = await built("deepspeed-trainer")
        hosts = await control_plane.client().get(CONFIG_MAPS, "deepspeed-trainer-mpi-hostfile", control_plane.namespace)
        keys = await control_plane.client().get(SECRETS, "deepspeed-trainer-mpi-ssh-auth", control_plane.namespace)

        assert (job.size("launcher"), job.size("node")) == (1, 2)
        lines = [f"deepspeed-trainer-node-0-{rank}.deepspeed-trainer slots=5\n" for rank in range(2)]
        assert hosts.data == {"hostfile": "".join(lines)}
        assert keys is not None
        assert job.env("launcher")["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
        mounts = {mount["name"]: mount["mountPath"] for mount in job.container("launcher")["volumeMounts"]}
        assert mounts["mpi-hostfile"] == "/etc/mpi"
        assert "mpi-ssh-auth" in mounts
        assert job.container("node")["volumeMounts"][0]["name"] == "mpi-ssh-auth"


def _deepspeed(body):
    on_runtime("deepspeed")(body)
    body["metadata"]["name"] = "deepspeed-trainer"
    del body["spec"]["trainer"]


@pytest.mark.parametrize("implementation", ["Intel", "MPICH"])
async def test_other_implementations_of_mpi_are_those_of_the_document(
    apply, built, running, control_plane, implementation
):
    def other(body):
        body["spec"]["mlPolicy"]["mpi"]["mpiImplementation"] = implementation
        body["spec"]["mlPolicy"]["mpi"]["SSHAuthMountPath"] = "/home/mpi/.ssh"

    # Kubeflow's definition refuses the name there, so admission stores it as `variant`, which ktrain alone has.
    await apply("trainer/deepspeed.yaml", other, moved={".spec.mlPolicy.mpi.mpiImplementation"})
    async with running("trainjob"):
        await apply("trainer/torch-test.yaml", _deepspeed)
        job = await built("deepspeed-trainer")
        hosts = await control_plane.client().get(CONFIG_MAPS, "deepspeed-trainer-mpi-hostfile", control_plane.namespace)

        assert hosts.data["hostfile"].splitlines()[0] == "deepspeed-trainer-node-0-0.deepspeed-trainer:5"
        mounts = {mount["name"]: mount["mountPath"] for mount in job.container("launcher")["volumeMounts"]}
        assert mounts["mpi-ssh-auth"] == "/home/mpi/.ssh"


async def test_labels_and_annotations_of_a_job_are_on_its_job_set_jobs_and_pods(apply, built, running):
    def labelled(body):
        body["spec"] |= {"labels": {"team": "vision"}, "annotations": {"cost": "7"}}

    await apply(MULTI_NODE)
    async with running("trainjob"):
        await apply("trainer/torch-test.yaml", labelled)
        job = await built("torch-test")

        template = job.jobs["node"]["template"]
        for metadata in (job.metadata, template["metadata"], template["spec"]["template"]["metadata"]):
            assert metadata["labels"]["team"] == "vision"
            assert metadata["annotations"]["cost"] == "7"


async def test_a_migrated_pytorch_job_is_a_runtime_of_two_nodes(apply, built, running):
    await apply("trainer/migrated-pytorch-simple.yaml")
    async with running("trainjob"):
        await apply("trainer/torch-test.yaml", _on_the_migrated)
        job = await built("torch-test")

        assert job.size("node") == 2
        assert job.env("node") == {"MASTER_ADDR": "pytorch-node-0-0.pytorch", "MASTER_PORT": "29400"}


def _on_the_migrated(body):
    body["spec"]["runtimeRef"] = {"name": "torch-distributed-multi-node", "kind": "TrainingRuntime"}


async def test_the_runtime_of_a_job_and_who_manages_it_do_not_change(apply, control_plane):
    await apply(MULTI_NODE)
    await apply("trainer/torch-test.yaml")
    key, client = Key(control_plane.namespace, "torch-test"), control_plane.client()

    for spec in ({"runtimeRef": {"name": "another"}}, {"managedBy": "kueue.x-k8s.io/multikueue"}):
        with pytest.raises(Invalid, match="immutable"):
            await client.patch(trainer.TRAIN_JOBS, key, {"spec": spec})
    with pytest.raises(Invalid, match="managedBy"):
        await apply("trainer/torch-ddp.yaml", lambda body: body["spec"].update(managedBy="example.com/mine"))


async def test_the_defaults_of_the_document_are_filled_in(apply):
    await apply(MULTI_NODE)
    (job,) = await apply("trainer/torch-test.yaml")

    assert job["spec"]["suspend"] is False
    assert job["spec"]["managedBy"] == "trainer.kubeflow.org/trainjob-controller"
    assert job["spec"]["runtimeRef"] == {
        "name": "torch-distributed-multi-node",
        "apiGroup": "trainer.kubeflow.org",
        "kind": "ClusterTrainingRuntime",
    }
