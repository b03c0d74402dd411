"""
Kubeflow's own SDK, unmodified, on `ktrain up`: the life of a job.

Installed by the extra `sdk`; without it these tests are skipped. The SDK runs in a process of its own, as users run it.
"""

import json
import subprocess
import sys

import pytest

from .conftest import ROOT

pytestmark = pytest.mark.e2e


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


def test_the_example_goes_through_all_of_it(sdk, shared_up):
    done = subprocess.run(
        [sys.executable, ROOT / "examples/sdk/train.py", shared_up("--pods", "host")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = done.stdout.splitlines()

    assert done.returncode == 0, done.stderr
    assert "plain, torch-distributed, torch-distributed-elastic, torchtune-llama3.2-1b" in said[0]
    assert said[1:3] == [f"node-{number}: node {number}: slope 2.985 after 50 steps" for number in range(2)]
    assert said.count("event: Pod Started: container node started") == 2
    assert said[-1] == "Complete; 0 jobs are left"


def test_a_function_that_fails_is_seen_to_fail(sdk):
    out, _err = sdk("""
        def train():
            raise SystemExit("no luck")

        seen = []
        note = lambda job: seen.append(job.status)
        name = client.train(runtime="plain", trainer=CustomTrainer(func=train))
        try:
            client.wait_for_job_status(name, timeout=90, polling_interval=1, callbacks=[note])
        except RuntimeError as error:
            print(error)
        job = client.wait_for_job_status(name, status={"Failed"}, timeout=90, polling_interval=1)
        print(job.status, list(client.get_job_logs(name)), seen[-1])
    """)

    said, status = out.splitlines()
    assert said.endswith("is Failed")
    assert status == "Failed ['no luck'] Failed"


def test_a_job_is_seen_to_run_and_stops_when_it_is_deleted(sdk):
    out, _err = sdk("""
        def train():
            import time
            print("begun", flush=True)
            time.sleep(600)

        name = client.train(runtime="plain", trainer=CustomTrainer(func=train, num_nodes=2), options=[Name("long")])
        print(client.wait_for_job_status(name, status={"Running"}, timeout=90, polling_interval=1).status)
        print(next(iter(client.get_job_logs(name, follow=True))))
        client.delete_job(name)
        while client.backend.core_api.list_namespaced_pod(namespace).items:
            pass
        print(client.list_jobs())
    """)

    assert out.splitlines() == ["Running", "begun", "[]"]


def test_the_file_that_a_function_comes_from_stays_as_it_is(sdk_on, tmp_path):
    program = """
        def train():
            import pathlib
            print(pathlib.Path(__file__).name)

        name = client.train(runtime="plain", trainer=CustomTrainer(func=train, num_nodes=2))
        client.wait_for_job_status(name, timeout=90, polling_interval=1)
        print(list(client.get_job_logs(name)))
    """
    # The server's own directory, where pods run that have none, is that of the file.
    out, _err = sdk_on("--pods", "host")(program)

    assert out == "['program.py']\n"
    assert "client.wait_for_job_status" in (tmp_path / "program.py").read_text()


def test_events_tell_what_became_of_the_pods_of_a_job(sdk):
    out, _err = sdk("""
        def told(command):
            options = [TrainerCommand(command)]
            name = client.train(runtime="plain", trainer=CustomTrainerContainer(image="any"), options=options)
            client.wait_for_job_status(name, status={"Complete", "Failed"}, timeout=90, polling_interval=1)
            return [(event.involved_object_kind, event.reason, event.message) for event in client.get_job_events(name)]

        print(json.dumps([told(["true"]), told(["no-such-program"])]))
    """)

    well, badly = json.loads(out)
    assert ["Pod", "Started", "container node started"] in well
    (failed,) = [message for kind, reason, message in badly if (kind, reason) == ("Pod", "Failed")]
    assert failed.startswith("container node: cannot start 'no-such-program': ")


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
        objects.create_namespaced_custom_object(*kind, namespace, "trainingruntimes", body)

        name = client.train(runtime=client.get_runtime("own"), trainer=CustomTrainerContainer(image="any"))
        client.wait_for_job_status(name, timeout=90, polling_interval=1)
        print(list(client.get_job_logs(name)))
    """)

    assert out == "['from the runtime']\n"


def test_a_function_reports_its_progress_by_the_sdks_own_means(sdk_on):
    out, _err = sdk_on("--pods", "host", "--feature-gates", "TrainJobStatus")("""
        def train():
            from kubeflow.trainer.backends.kubernetes.utils import update_trainjob_status

            print(update_trainjob_status(progress_percent=40, estimated_remaining_seconds=9, metrics={"loss": 0.5}))

        name = client.train(runtime="plain", trainer=CustomTrainer(func=train))
        client.wait_for_job_status(name, timeout=90, polling_interval=1)
        kind = ("trainer.kubeflow.org", "v1alpha1", "default", "trainjobs")
        status = client.backend.custom_api.get_namespaced_custom_object(*kind, name)["status"]["trainerStatus"]
        print(json.dumps([list(client.get_job_logs(name)), status]))
    """)

    logs, status = json.loads(out)
    assert logs == ["True"]
    assert status.pop("lastUpdatedTime")
    assert status == {
        "progressPercentage": 40,
        "estimatedRemainingSeconds": 9,
        "metrics": [{"name": "loss", "value": "0.5"}],
    }
