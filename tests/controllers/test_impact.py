"""Which jobs a change of a runtime touches."""

import random
from datetime import UTC, datetime

import msgspec
import pytest
import structlog
import yaml

from ktrain.api import trainer as api
from ktrain.controllers.impact import Standing, impacts, refers_to
from ktrain.controllers.trainjob import snapshot
from ktrain.pipeline import Context, Registry

RUNTIME = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: rt, uid: u, resourceVersion: "1"}
spec:
  mlPolicy: {numNodes: 2, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: "a:1"}]}}}
"""
CONTEXT = Context(
    lookup=lambda _resource, _key: None,
    now=datetime(2026, 1, 2, tzinfo=UTC),
    random=random.Random(1),
    log=structlog.get_logger(),
    monotonic=lambda: 0.0,
)


def decoded(text, kind):
    return msgspec.json.decode(msgspec.json.encode(yaml.safe_load(text)), type=kind)


def runtime(text=RUNTIME):
    return decoded(text, api.Runtime)


def job(name="j", **spec):
    spec = {"runtimeRef": {"name": "rt"}, "trainer": {}, **spec}
    body = {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"}, "spec": spec}
    return msgspec.json.decode(msgspec.json.encode(body), type=api.TrainJob)


def finished(name):
    conditions = [{"type": "Complete", "status": "True", "reason": "r", "message": ""}]
    return msgspec.structs.replace(
        job(name), status=msgspec.convert({"conditions": conditions}, type=api.TrainJobStatus)
    )


def asked(jobs, snapshots=(), proposed=None):
    spec = msgspec.json.decode(runtime(proposed).spec, type=api.RuntimeSpec) if proposed else None
    return impacts(Registry.load(), runtime(), spec, jobs, dict(snapshots), CONTEXT)


def test_jobs_with_a_snapshot_and_finished_ones_and_other_peoples_are_not_touched():
    own = job("own")
    jobs = [own, finished("done"), job("away", managedBy="kueue.x-k8s.io/multikueue"), job("new")]

    found = asked(jobs, [(own.key, snapshot.take(runtime()))])

    assert [(each.job.name, each.standing, each.is_touched) for each in found] == [
        ("own", Standing.FIXED, False),
        ("done", Standing.FINISHED, False),
        ("away", Standing.ELSEWHERE, False),
        ("new", Standing.WAITING, True),
    ]


@pytest.mark.parametrize(
    ("taken", "behind"), [(RUNTIME, False), (RUNTIME.replace("a:1", "a:0").replace("uid: u", "uid: v"), True)]
)
def test_a_snapshot_that_differs_from_the_runtime_is_behind_it(taken, behind):
    own = job()

    (found,) = asked([own], [(own.key, snapshot.take(runtime(taken)))])

    assert found.behind is behind


def test_of_a_proposed_runtime_it_is_told_what_would_be_different():
    (found,) = asked([job()], proposed=RUNTIME.replace("a:1", "a:2").replace("numNodes: 2", "numNodes: 4"))

    node = "JobSet.replicatedJobs[node].template.spec"
    container = f"{node}.template.spec.containers[node]"
    assert set(found.changes) == {
        f"{node}.parallelism",
        f"{node}.completions",
        f"{container}.image",
        f"{container}.env[PET_NNODES].value",
    }


def test_a_runtime_that_says_the_same_changes_nothing():
    (found,) = asked([job()], proposed=RUNTIME)

    assert found.changes == ()


def test_a_job_that_could_not_run_any_more_is_told_with_the_reason():
    model = job(initializer={"model": {"storageUri": "s3://a/b"}})

    (found,) = asked([model], proposed=RUNTIME.replace("a:1", "a:2"))

    assert "must have model-initializer job" in found.refusal


@pytest.mark.parametrize(("namespace", "is_its"), [("ns", True), ("other", False)])
def test_a_training_runtime_is_of_the_namespace_of_its_jobs(namespace, is_its):
    text = RUNTIME.replace("ClusterTrainingRuntime", "TrainingRuntime")
    namespaced = runtime(text.replace("name: rt", f"name: rt, namespace: {namespace}"))

    assert refers_to(job(runtimeRef={"name": "rt", "kind": "TrainingRuntime"}), namespaced) is is_its
    assert not refers_to(job(), namespaced)


def test_a_cluster_training_runtime_is_of_all_namespaces():
    assert refers_to(job(), runtime())
