"""`ktrain plan`: what it prints, what it refuses and in which words, and what it takes from a cluster."""

import json
import subprocess
import sys

import anyio
import msgspec
import pytest
import yaml

from ktrain.api import trainer as api
from ktrain.api.core import LIMIT_RANGES, NAMESPACES, PRIORITY_CLASSES
from ktrain.cli.offline import make_plan, with_cluster
from ktrain.cli.submit import Refused, read
from ktrain.framework import Client
from ktrain.framework.env import system_env
from ktrain.local.server import make_server
from ktrain.pipeline import Registry

RUNTIME = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: mine}
spec:
  mlPolicy: {numNodes: 2, torch: {}}
  %s
  template: {spec: {replicatedJobs: [{name: node, template: {
    metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}},
    spec: {template: {spec: {containers: [{name: node, image: i, resources: {requests: {cpu: 2}}}]}}}}}]}}
"""
JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: job}
spec: {runtimeRef: {name: mine, kind: TrainingRuntime}, trainer: {numNodes: 3, image: other}}
"""


LIMITS = """
{apiVersion: v1, kind: LimitRange, metadata: {name: l}, spec: {limits: [{type: Container, max: {memory: 1Gi}}]}}
"""


def planned(*texts: str):
    return anyio.run(make_plan, [yaml.safe_load(text) for text in texts], "default", None, None)


def ktrain(*arguments: str, given: str = ""):
    return subprocess.run(
        [sys.executable, "-m", "ktrain", "plan", *arguments],
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_prints_the_objects_in_the_order_in_which_they_would_be_written():
    done = ktrain("-", given=f"{RUNTIME % 'podGroupPolicy: {coscheduling: {}}'}---{JOB}")

    assert (done.returncode, done.stderr) == (0, "")
    group, job_set = yaml.safe_load_all(done.stdout)
    assert (group["kind"], group["spec"]["minResources"]) == ("PodGroup", {"cpu": "6"})
    assert group["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "name": "job",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    (node,) = job_set["spec"]["replicatedJobs"]
    assert node["template"]["spec"]["parallelism"] == 3
    assert node["template"]["spec"]["template"]["spec"]["containers"][0]["image"] == "other"


def test_it_prints_them_as_a_list_of_json():
    done = ktrain("-", "-o", "json", given=f"{RUNTIME % ''}---{JOB}")

    assert [item["kind"] for item in json.loads(done.stdout)["items"]] == ["JobSet"]


def test_a_reader_that_goes_away_ends_it_quietly():
    given = f"{RUNTIME % ''}---{JOB}"
    shell = f"{sys.executable} -m ktrain plan - | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], input=given, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (141, "")


def test_a_cluster_that_cannot_be_reached_is_told(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        """{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
        clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: u, user: {}}]}"""
    )
    done = ktrain("-", "--kubeconfig", str(kubeconfig), given=JOB)

    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_explains_who_sets_which_field():
    done = ktrain("-", "--explain", given=f"{RUNTIME % ''}---{JOB}")

    rows = dict(line.rsplit("  ", 1) for line in done.stdout.splitlines() if "]" in line)
    pod = "replicatedJobs[node].template.spec.template.spec"
    written = {field.strip(): author for field, author in rows.items()}
    assert written[f"{pod}.containers[node].image"] == "TrainJob"
    assert written[f"{pod}.containers[node].env[PET_NNODES]"] == "plugin Torch"
    assert done.stdout.splitlines()[-1] == "All other fields come from TrainingRuntime mine."


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (JOB, 'ktrain: refused: no TrainingRuntime "mine"; there are: deepspeed-distributed, jax-distributed'),
        (
            JOB.replace("numNodes", "numNode"),
            '<stdin>:5: spec.trainer.numNode: unknown field; did you mean "numNodes"?',
        ),
        (RUNTIME % "", "ktrain: refused: no TrainJob to run (found: TrainingRuntime)"),
        (f"{JOB}---{JOB.replace('job}', 'second}')}", "ktrain: refused: one TrainJob at a time, found 2: job, second"),
        (f"{RUNTIME % ''}---{JOB.replace('name: mine, ', '')}", "spec.runtimeRef.name"),
        ("{", "<stdin>:"),
        ("", "<stdin>: holds no object"),
    ],
)
def test_what_cannot_be_planned_is_refused_as_ktrain_run_does(files, says):
    done = ktrain("-", given=files)

    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_not_there_and_a_namespace_that_is_none_are_refused():
    assert "/nowhere/job.yaml" in ktrain("/nowhere/job.yaml").stderr
    assert "'A b' is no namespace" in ktrain("-", "-n", "A b").stderr


@pytest.mark.parametrize(
    ("runtime", "job", "says"),
    [
        ("", JOB.replace("numNodes: 3", "env: [{name: PET_NNODES, value: '1'}]"), "PET_NNODES"),
        ("", JOB.replace("numNodes: 3", "numNodes: -1"), "spec.trainer.numNodes"),
        ("podGroupPolicy: {plugin: {name: acme}}", JOB, 'names "acme", and no such plugin is installed'),
    ],
)
def test_what_admission_refuses_is_refused_in_its_words(runtime, job, says):
    with pytest.raises(Refused, match=says):
        planned(RUNTIME % runtime, job)


def test_what_admission_warns_of_is_a_warning_and_the_plan_is_made():
    old = (RUNTIME % "").replace("TrainingRuntime", "ClusterTrainingRuntime").replace("{name: mine}", "{name: mine, L}")
    old = old.replace("L}", "labels: {trainer.kubeflow.org/support: deprecated}}")
    plan = planned(old, JOB.replace("TrainingRuntime", "ClusterTrainingRuntime"))

    assert any("is deprecated" in text for text in plan.warnings)
    assert [body["kind"] for body in plan.objects] == ["JobSet"]


def test_a_field_without_effect_is_warned_of_also_where_admission_is_silent_as_kubeflows_is():
    runtime = (RUNTIME % "").replace("mlPolicy: {numNodes: 2, torch: {}}", "")
    asked = "trainer: {numProcPerNode: 3, resourcesPerNode: {limits: {cpu: 1}}}"
    plan = planned(runtime, JOB.replace("trainer: {numNodes: 3, image: other}", asked))

    assert plan.warnings == (
        "spec.trainer.numProcPerNode: no effect, because no policy or plugin of the runtime uses it",
        "spec.trainer.resourcesPerNode: no effect, because the runtime has no mlPolicy, which says what a node is",
    )


def test_a_job_of_another_controller_is_warned_of():
    plan = planned(RUNTIME % "", JOB.replace("trainer:", "managedBy: kueue.x-k8s.io/multikueue, trainer:"))

    assert plan.warnings == ("spec.managedBy is kueue.x-k8s.io/multikueue: this TrainJob's objects are built there",)


def test_an_object_that_the_api_server_would_refuse_is_told_and_shown():
    runtime = (RUNTIME % "").replace(
        "{name: node, template", "{name: node, dependsOn: [{name: nowhere, status: Ready}], template"
    )
    plan = planned(runtime, JOB)

    assert [body["kind"] for body in plan.objects] == ["JobSet"]
    assert [text for text in plan.refusals if text.startswith("JobSet job: ")]


def test_limit_ranges_and_runtime_classes_of_the_files_count():
    limits = LIMITS
    kata = """{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: kata}, handler: h,
        overhead: {podFixed: {cpu: 1}}}"""
    runtime = (RUNTIME % "podGroupPolicy: {volcano: {}}").replace(
        "spec: {containers", "spec: {runtimeClassName: kata, containers"
    )
    group = planned(runtime, limits, kata, JOB).objects[0]

    assert group["spec"]["minResources"] == {"cpu": "9", "memory": "3Gi"}


def test_objects_that_name_the_uid_of_another_are_planned_whole_and_the_same_each_time():
    plans = [planned(RUNTIME % "podGroupPolicy: {workload: {}}", JOB) for _ in range(2)]

    assert [body["kind"] for body in plans[0].objects] == ["Workload", "PodGroup", "JobSet"]
    assert plans[0] == plans[1]


def test_values_of_secrets_are_not_shown():
    done = ktrain("-", given=JOB.replace("name: mine, kind: TrainingRuntime", "name: deepspeed-distributed"))
    secret = next(yaml.safe_load_all(done.stdout))

    assert (secret["kind"], set(secret["data"].values())) == ("Secret", {"(not shown)"})


def from_cluster(*objects: str, job: str = JOB, namespace: str = "default"):
    """Return the submission of *job* with what it needs of a cluster that has *objects*."""

    async def ask():
        env, registry = system_env(), Registry.load()
        server = make_server(env, registry)
        async with server.running():
            client = Client(server.transport(), env, field_manager="test")
            for text in objects:
                body = yaml.safe_load(text)
                kinds = (LIMIT_RANGES, PRIORITY_CLASSES, NAMESPACES, api.TRAINING_RUNTIMES)
                (kind,) = [kind for kind in kinds if kind.kind == body["kind"]]
                body["metadata"].setdefault("namespace", "default") if kind.namespaced else None
                await client.create(kind, body)
            return await with_cluster(client, read([yaml.safe_load(job)], namespace), registry)

    return anyio.run(ask)


def test_the_runtime_and_what_plugins_read_come_from_the_cluster():
    limits = LIMITS
    high = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 7}"
    elsewhere = limits.replace("name: l", "name: other, namespace: elsewhere")
    namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: elsewhere}}"
    submission, notes = from_cluster(namespace, RUNTIME % "", limits, high, elsewhere)

    assert notes == ()
    assert {(item["kind"], item["metadata"]["name"]) for item in submission.companions} == {
        ("TrainingRuntime", "mine"),
        ("LimitRange", "l"),
        ("PriorityClass", "high"),
    }
    runtime = next(item for item in submission.companions if item["kind"] == "TrainingRuntime")
    assert set(runtime["metadata"]) <= {"name", "namespace", "labels", "annotations"}
    plan = anyio.run(make_plan, msgspec.to_builtins([*submission.companions, submission.job]), "default", None, None)
    assert [body["kind"] for body in plan.objects] == ["JobSet"]


def test_a_runtime_that_the_cluster_does_not_have_is_refused_with_those_that_it_has():
    with pytest.raises(Refused, match=r'no TrainingRuntime "mine"; there are: theirs \(TrainingRuntime\)'):
        from_cluster((RUNTIME % "").replace("name: mine", "name: theirs"))
