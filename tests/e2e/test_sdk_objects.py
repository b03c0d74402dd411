"""Kubeflow's SDK on `ktrain up`: what it makes of options, built-in trainers and initializers, and what goes wrong."""

import json

import pytest

pytestmark = pytest.mark.e2e

OBJECTS = """
def stored(name, group="trainer.kubeflow.org", version="v1alpha1", plural="trainjobs"):
    return client.backend.custom_api.get_namespaced_custom_object(group, version, namespace, plural, name)

def containers(name):
    "The containers of the job's steps, once it has a JobSet."
    import time
    from kubernetes.client import ApiException

    while True:
        try:
            jobs = stored(name, "jobset.x-k8s.io", "v1alpha2", "jobsets")["spec"]["replicatedJobs"]
            break
        except ApiException as error:
            assert error.status == 404
            time.sleep(0.1)
    return {job["name"]: job["template"]["spec"]["template"]["spec"]["containers"][0] for job in jobs}
"""


@pytest.fixture
def objects(sdk_in):
    """As `sdk`, with nobody to run pods, and a look at what is stored."""
    run = sdk_in("--pods", "off")
    return lambda program: json.loads(run(OBJECTS + program)[0])


def test_options_are_in_the_train_job_and_in_what_is_made_of_it(objects):
    found = objects("""
pod = PodTemplatePatch(spec=PodSpecPatch(
    node_selector={"disk": "ssd"},
    volumes=[{"name": "scratch", "emptyDir": {}}],
    containers=[ContainerPatch(name="node", volume_mounts=[{"name": "scratch", "mountPath": "/scratch"}])],
))
job = ReplicatedJobPatch(name="node", template=JobTemplatePatch(spec=JobSpecPatch(template=pod)))
template = JobSetTemplatePatch(metadata={"labels": {"team": "a"}}, spec=JobSetSpecPatch(replicated_jobs=[job]))
name = client.train(
    runtime="plain",
    trainer=CustomTrainerContainer(image="mine", num_nodes=3, resources_per_node={"gpu": 2, "memory": "1Gi"}),
    options=[
        Name("named"), Labels({"l": "1"}), Annotations({"a": "2"}), ActiveDeadlineSeconds(100),
        TrainerCommand(["sh"]), TrainerArgs(["-c", "true"]),
        RuntimePatch(training_runtime_spec=TrainingRuntimeSpecPatch(template=template)),
    ],
)
node, job = containers(name)["node"], stored(name)
jobset = stored(name, "jobset.x-k8s.io", "v1alpha2", "jobsets")
print(json.dumps({
    "metadata": [job["metadata"][key] for key in ("name", "labels", "annotations")],
    "deadline": job["spec"]["activeDeadlineSeconds"],
    "manager": job["spec"]["runtimePatches"][0]["manager"],
    "node": [node["image"], node["command"], node["args"], node["resources"]["limits"]],
    "mounts": node["volumeMounts"],
    "size": jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"],
    "labels": jobset["metadata"]["labels"],
    "seen": [client.get_job(name).status, client.get_job(name).num_nodes],
}))
""")

    assert found == {
        "metadata": ["named", {"l": "1"}, {"a": "2"}],
        "deadline": 100,
        "manager": "trainer.kubeflow.org/kubeflow-sdk",
        "node": ["mine", ["sh"], ["-c", "true"], {"nvidia.com/gpu": "2", "memory": "1Gi"}],
        "mounts": [{"mountPath": "/scratch", "name": "scratch"}],
        "size": 3,
        "labels": {"team": "a"},
        "seen": ["Created", 3],
    }


def test_the_builtin_trainer_becomes_a_recipe_of_torchtune_with_its_initializers(objects):
    found = objects("""
name = client.train(
    runtime="torchtune-llama3.2-1b",
    initializer=Initializer(
        dataset=HuggingFaceDatasetInitializer(storage_uri="hf://tatsu-lab/alpaca/data", access_token="secret"),
        model=HuggingFaceModelInitializer(storage_uri="hf://meta-llama/Llama-3.2-1B-Instruct"),
    ),
    trainer=BuiltinTrainer(config=TorchTuneConfig(
        batch_size=4, epochs=2, peft_config=LoraConfig(lora_rank=8), resources_per_node={"gpu": 1}
    )),
)
found = containers(name)
print(json.dumps({
    "command": found["node"]["command"][:5],
    "args": found["node"]["args"],
    "dataset": {one["name"]: one["value"] for one in found["dataset-initializer"]["env"]},
    "model": {one["name"]: one["value"] for one in found["model-initializer"]["env"]},
    "runtime": client.get_job(name).runtime.trainer.framework,
}))
""")

    recipe = ["tune", "run", "lora_finetune_single_device", "--config", "llama3_2/1B_lora_single_device"]
    assert found["command"] == recipe
    assert {"batch_size=4", "epochs=2", "dataset.data_dir=/workspace/dataset/data"} <= set(found["args"])
    assert "model.lora_rank=8" in found["args"]
    assert found["dataset"] == {"STORAGE_URI": "hf://tatsu-lab/alpaca/data", "ACCESS_TOKEN": "secret"}
    assert found["model"]["STORAGE_URI"] == "hf://meta-llama/Llama-3.2-1B-Instruct"
    assert found["runtime"] == "torchtune"


def test_initializers_of_s3_and_of_the_data_cache_say_where_and_how(objects):
    found = objects("""
def env(dataset):
    name = client.train(
        runtime="torchtune-qwen2.5-1.5b",
        initializer=Initializer(dataset=dataset),
        trainer=BuiltinTrainer(config=TorchTuneConfig()),
    )
    return {one["name"]: one["value"] for one in containers(name)["dataset-initializer"]["env"]}

s3 = S3DatasetInitializer(storage_uri="s3://b/p", endpoint="http://s3", region="eu", ignore_patterns=["*.md", "*.txt"])
cache = DataCacheInitializer(storage_uri="cache://schema/table", metadata_loc="s3://b/metadata", num_data_nodes=2)
print(json.dumps([env(s3), env(cache)]))
""")

    s3, cache = found
    assert s3 == {"STORAGE_URI": "s3://b/p", "ENDPOINT": "http://s3", "REGION": "eu", "IGNORE_PATTERNS": "*.md,*.txt"}
    assert cache == {"STORAGE_URI": "cache://schema/table", "METADATA_LOC": "s3://b/metadata", "CLUSTER_SIZE": "3"}


def test_a_client_of_a_namespace_sees_its_runtimes_and_jobs_only(objects):
    found = objects("""
api, kind = client.backend.custom_api, ("trainer.kubeflow.org", "v1alpha1")
client.backend.core_api.create_namespace({"metadata": {"name": "team"}})
plain = api.get_cluster_custom_object(*kind, "clustertrainingruntimes", "plain")
labels = plain["metadata"]["labels"]
for name in ("plain", "own"):
    body = {"apiVersion": "/".join(kind), "kind": "TrainingRuntime", "metadata": {"name": name, "labels": labels}}
    api.create_namespaced_custom_object(*kind, "team", "trainingruntimes", {**body, "spec": plain["spec"]})
team = TrainerClient(KubernetesBackendConfig(config_file=sys.argv[1], namespace="team"))
name = team.train(runtime="own", trainer=CustomTrainerContainer(image="i"))
print(json.dumps({
    "runtimes": {one.name: one.kind.value for one in team.list_runtimes() if one.name[:3] in ("pla", "own", "jax")},
    "jobs": [[one.name == name for one in team.list_jobs()], len(client.list_jobs())],
    "others": ["own" in [one.name for one in client.list_runtimes()], client.get_runtime("plain").kind.value],
}))
""")

    assert found == {
        "runtimes": {"plain": "TrainingRuntime", "own": "TrainingRuntime", "jax-distributed": "ClusterTrainingRuntime"},
        "jobs": [[True], 0],
        "others": [False, "ClusterTrainingRuntime"],
    }


def test_what_goes_wrong_is_told_in_the_sdks_words_with_the_servers_reason_behind(objects):
    found = objects("""
import time

def refused(call):
    try:
        return str(call())
    except Exception as error:
        body = getattr(error.__cause__, "body", None)
        return [type(error).__name__, str(error), json.loads(body)["message"] if body else ""]

container = CustomTrainerContainer(image="i")
train = lambda **more: client.train(**{"runtime": "plain", "trainer": container, **more})
two_nodes = BuiltinTrainer(config=TorchTuneConfig(num_nodes=2))
idle = train(options=[Name("idle")])
print(json.dumps([
    refused(lambda: client.get_job("nowhere")),
    refused(lambda: client.delete_job("nowhere")),
    refused(lambda: train(runtime="nowhere")),
    refused(lambda: train(options=[Name("Bad_Name")])),
    refused(lambda: train(options=[Name("idle")])),
    refused(lambda: train(runtime="torchtune-llama3.2-1b", trainer=two_nodes)),
    refused(lambda: client.wait_for_job_status(idle, timeout=2, polling_interval=1)),
]))
""")

    kinds = [kind for kind, _, _ in found]
    assert kinds == ["RuntimeError"] * 6 + ["TimeoutError"]
    reasons = [reason for *_, reason in found]
    assert reasons[0] == reasons[1] == 'trainjobs.trainer.kubeflow.org "nowhere" not found'
    assert reasons[2] == 'clustertrainingruntimes.trainer.kubeflow.org "nowhere" not found'
    assert "metadata.name must match RFC 1035 DNS label format" in reasons[3]
    assert reasons[4] == 'trainjobs.trainer.kubeflow.org "idle" already exists'
    assert "must be 1 for llama3_2/1B model" in reasons[5]


def test_optimizations_are_katibs_which_is_not_here(objects):
    found = objects("""
from kubeflow.optimizer import OptimizerClient, Search, TrainJobTemplate

def train(rate):
    print(rate)

optimizer = OptimizerClient(KubernetesBackendConfig(config_file=sys.argv[1]))
try:
    template = TrainJobTemplate(runtime="plain", trainer=CustomTrainer(func=train))
    optimizer.optimize(template, search_space={"rate": Search.uniform(min=0.1, max=1)})
except RuntimeError as error:
    print(json.dumps([str(error).split(":")[0], error.__cause__.status]))
""")

    assert found == ["Failed to create OptimizationJob", 404]
