"""A mistake in the pod template of one of our kinds is refused with its path, here and in a cluster."""

import json

import pytest

from ktrain.api import assets

pytestmark = pytest.mark.e2e

TRAINER = "trainer.kubeflow.org/v1alpha1"


def jobset_spec(pod):
    return {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]}


def runtime(kind):
    def make(pod):
        spec = {"mlPolicy": {"numNodes": 1}, "template": {"spec": jobset_spec(pod)}}
        return {"apiVersion": TRAINER, "kind": kind, "metadata": {"name": "x"}, "spec": spec}

    return make


def jobset(pod):
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "x"},
        "spec": jobset_spec(pod),
    }


def train_job(pod):
    patch = {"manager": "kubectl.test/me", "trainingRuntimeSpec": {"template": {"spec": jobset_spec(pod)}}}
    spec = {"suspend": True, "runtimeRef": {"name": "plain"}, "runtimePatches": [patch]}
    return {"apiVersion": TRAINER, "kind": "TrainJob", "metadata": {"name": "x"}, "spec": spec}


_JOBS = "spec.replicatedJobs[0].template.spec.template.spec"
MAKERS = [
    pytest.param(runtime("TrainingRuntime"), f"spec.template.{_JOBS}", id="TrainingRuntime"),
    pytest.param(runtime("ClusterTrainingRuntime"), f"spec.template.{_JOBS}", id="ClusterTrainingRuntime"),
    pytest.param(jobset, _JOBS, id="JobSet"),
    pytest.param(train_job, f"spec.runtimePatches[0].trainingRuntimeSpec.template.{_JOBS}", id="TrainJob"),
]


def container(**fields):
    return {"containers": [{"name": "node", **fields}]}


@pytest.mark.parametrize(("make", "path"), MAKERS)
def test_unknown_fields_are_refused(kubectl, make, path):
    pods = {
        "tolerationss": {"tolerationss": []},
        "volumes[0].emptyDir.size": {"volumes": [{"name": "v", "emptyDir": {"size": "1Gi"}}]},
        "containers[0].env[0].valueFrom.secretKeyRef.nam": container(
            env=[{"name": "A", "valueFrom": {"secretKeyRef": {"nam": "s", "key": "k"}}}]
        ),
    }
    for field, pod in pods.items():
        refusal = kubectl.fails("apply", "-f", "-", stdin=make(pod))
        assert f'strict decoding error: unknown field "{path}.{field}"' in refusal


@pytest.mark.parametrize(("make", "path"), MAKERS)
def test_fields_of_the_wrong_type_are_refused(kubectl, make, path):
    pods = {
        "tolerations": ({"tolerations": "all"}, 'must be of type array: "string"'),
        "containers[0].env[0].name": (container(env=[{"name": 1}]), 'must be of type string: "integer"'),
        "volumes[0].emptyDir.sizeLimit": (
            {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "lots"}}]},
            "should match '^",
        ),
    }
    for field, (pod, words) in pods.items():
        refusal = kubectl.fails("apply", "-f", "-", stdin=make(pod))
        assert f"{path}.{field}: " in refusal
        assert words in refusal


@pytest.mark.parametrize(("make", "path"), MAKERS[:3])
def test_lists_are_maps_by_the_keys_that_pods_have(kubectl, make, path):
    twice = container(ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}])
    refusal = kubectl.fails("apply", "-f", "-", stdin=make(twice))
    assert f'{path}.containers[0].ports[1]: Duplicate value: {{"containerPort":80,"protocol":"TCP"}}' in refusal

    good = container(
        ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}],
        resources={"limits": {"cpu": 1, "memory": "1.5Gi", "example.test/gpu": "1e3"}},
        livenessProbe={"httpGet": {"port": "http"}},
        readinessProbe={"httpGet": {"port": 80}},
    )
    assert "created (server dry run)" in kubectl("apply", "--dry-run=server", "-f", "-", stdin=make(good))


def test_without_strictness_an_unknown_field_is_dropped_with_a_warning(kubectl):
    manifest = runtime("TrainingRuntime")(container(comand=["x"]))
    done = kubectl.run("apply", "--validate=warn", "-f", "-", stdin=manifest)

    assert done.returncode == 0
    assert f'Warning: unknown field "spec.template.{_JOBS}.containers[0].comand"' in done.stderr
    stored = json.dumps(kubectl.object("trainingruntime", "x")["spec"])
    assert "comand" not in stored


def test_our_crds_are_applied_as_their_files_say(server):
    out = server("apply", "--server-side", "--force-conflicts", "-f", assets.config_directory() / "crd")

    assert out.count("serverside-applied") == 5
