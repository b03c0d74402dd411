"""
Kubeflow's own SDK, unmodified, on `ktrain up`.

Installed by the extra `sdk`; without it these tests are skipped. The SDK runs in a process of its own, as users run it.
"""

import importlib.util
import json
import subprocess
import sys
import textwrap

import pytest

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(importlib.util.find_spec("kubeflow") is None, reason="the extra `sdk` is not installed"),
]

PREAMBLE = """
import json, sys
from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import CustomTrainer, CustomTrainerContainer, TrainerClient

client = TrainerClient(KubernetesBackendConfig(config_file=sys.argv[1]))
"""


@pytest.fixture
def sdk(start, tmp_path):
    """Run a program that has a `client` of a fresh `ktrain up`; returns what it said on stdout and on stderr."""
    kubeconfig = tmp_path / "kubeconfig"
    start("up", "--pods", "host", "--kubeconfig", kubeconfig).wait_for("ready http")

    def run(program):
        # From a file, because the SDK reads the source of the function that it sends.
        file = tmp_path / "program.py"
        file.write_text(PREAMBLE + textwrap.dedent(program))
        done = subprocess.run(
            [sys.executable, file, kubeconfig], capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    return run


def test_it_finds_the_control_plane_and_its_runtimes(sdk):
    out, err = sdk("print(json.dumps({r.name: r.trainer.framework for r in client.list_runtimes()}))")

    found = json.loads(out)
    assert found["plain"] == "plain"
    assert found["torch-distributed"] == "torch"
    assert found["jax-distributed"] == "jax"
    assert found["deepspeed-distributed"] == "deepspeed"
    assert found["torchtune-llama3.2-1b"] == "torchtune"
    assert err == "", "the SDK warns when it cannot read the version of the control plane"


def test_a_function_runs_on_every_node_and_its_logs_come_back(sdk):
    out, _err = sdk("""
        def train(text, times):
            import os
            print(" ".join([text] * times), os.environ["COLOUR"], flush=True)

        name = client.train(
            runtime=client.get_runtime("plain"),
            trainer=CustomTrainer(
                func=train,
                func_args={"text": "hello", "times": 2},
                num_nodes=2,
                env={"COLOUR": "red"},
                resources_per_node={"cpu": 1, "memory": "64Mi"},
            ),
        )
        job = client.wait_for_job_status(name, timeout=90, polling_interval=1)
        found = {
            "status": job.status,
            "steps": [(step.name, step.status, step.device, step.device_count) for step in job.steps],
            "logs": [list(client.get_job_logs(name, step=f"node-{index}")) for index in (0, 1)],
            "followed": list(client.get_job_logs(name, follow=True)),
            "listed": [one.name == name for one in client.list_jobs(runtime=client.get_runtime("plain"))],
        }
        client.delete_job(name)
        found["left"] = len(client.list_jobs())
        print(json.dumps(found))
    """)

    assert json.loads(out) == {
        "status": "Complete",
        "steps": [["node-0", "Succeeded", "cpu", "1"], ["node-1", "Succeeded", "cpu", "1"]],
        "logs": [["hello hello red"], ["hello hello red"]],
        "followed": ["hello hello red"],
        "listed": [True],
        "left": 0,
    }


def test_a_function_that_fails_is_seen_to_fail(sdk):
    out, _err = sdk("""
        def train():
            raise SystemExit("no luck")

        name = client.train(runtime="plain", trainer=CustomTrainer(func=train))
        try:
            client.wait_for_job_status(name, timeout=90, polling_interval=1)
        except RuntimeError as error:
            print(error)
        print(client.get_job(name).status, list(client.get_job_logs(name)))
    """)

    said, status = out.splitlines()
    assert said.endswith("is Failed")
    assert status == "Failed ['no luck']"


def test_a_container_runs_with_the_command_of_its_runtime(sdk):
    out, _err = sdk("""
        from kubernetes import client as kubernetes, config

        config.load_kube_config(config_file=sys.argv[1])
        objects = kubernetes.CustomObjectsApi()
        kind = ("trainer.kubeflow.org", "v1alpha1")
        runtime = objects.get_cluster_custom_object(*kind, "clustertrainingruntimes", "plain")
        pod = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        pod["spec"]["containers"][0]["command"] = ["sh", "-c", "echo from the runtime"]
        body = {
            "apiVersion": "/".join(kind),
            "kind": "TrainingRuntime",
            "metadata": {"name": "own", "labels": runtime["metadata"]["labels"]},
            "spec": runtime["spec"],
        }
        objects.create_namespaced_custom_object(*kind, "default", "trainingruntimes", body)

        name = client.train(runtime=client.get_runtime("own"), trainer=CustomTrainerContainer(image="any"))
        client.wait_for_job_status(name, timeout=90, polling_interval=1)
        print(list(client.get_job_logs(name)))
    """)

    assert out == "['from the runtime']\n"
