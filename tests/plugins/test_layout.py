"""Where things are looked for, and where they do not go."""

import pytest

RUNTIME = """
spec:
  mlPolicy: {numNodes: 2}
  template:
    spec:
      replicatedJobs:
      - name: dataset-initializer
        replicas: 3
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
          spec: {template: {spec: {containers: [{name: dataset-initializer, image: d}]}}}
      - name: node
        template:
          metadata: {labels: {%s}}
          spec: {template: {metadata: {labels: {%s}}, spec: {containers: [{name: node, image: i}]}}}
"""
STEP = "trainer.kubeflow.org/trainjob-ancestor-step: trainer"
RESOURCE = {"resource": "limits.cpu"}
JOB = """
metadata: {name: job, namespace: ns, uid: u, labels: {team: a}, annotations: {note: b}}
spec: {runtimeRef: {name: rt}, trainer: {image: mine%s}}
"""


OTHER = "trainer.kubeflow.org/trainjob-ancestor-step: evaluator"


@pytest.mark.parametrize(
    ("labels", "image", "pods"),
    [((STEP, "a: b"), "mine", 2), (("a: b", STEP), "mine", 2), (("a: b", "a: b"), "i", 1), ((OTHER, STEP), "i", 1)],
)
def test_a_step_is_known_by_the_label_of_its_job_or_else_of_its_pods(kit, labels, image, pods):
    node = kit.job_set(RUNTIME % labels, JOB % "")["spec"]["replicatedJobs"][1]["template"]["spec"]

    assert node["template"]["spec"]["containers"][0]["image"] == image
    assert node["parallelism"] == node["completions"] == pods


def test_a_trainjobs_own_labels_and_annotations_go_nowhere(kit):
    job_set = kit.job_set(RUNTIME % (STEP, "a: b"), JOB % "")

    assert job_set["metadata"].keys() == {"name", "namespace", "ownerReferences"}
    assert "team" not in str(job_set)
    assert "note" not in str(job_set)


def test_an_initializer_of_the_runtime_runs_as_it_is_for_jobs_that_say_nothing_of_it(kit):
    initializer, _ = kit.job_set(RUNTIME % (STEP, "a: b"), JOB % "")["spec"]["replicatedJobs"]

    assert initializer["replicas"] == 1
    assert initializer["template"]["spec"]["template"]["spec"]["containers"] == [
        {"name": "dataset-initializer", "image": "d"}
    ]


@pytest.mark.parametrize(
    ("written", "built"),
    [
        ("{name: A, value: ''}", {"name": "A", "value": ""}),
        ("{name: A}", {"name": "A", "value": ""}),
        (
            "{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}",
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ),
        (
            "{name: A, valueFrom: {configMapKeyRef: {name: m, key: k, optional: false}}}",
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k", "optional": False}}},
        ),
        (
            "{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}",
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ),
        (
            "{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}",
            {"name": "A", "valueFrom": {"resourceFieldRef": RESOURCE | {"containerName": "", "divisor": "0"}}},
        ),
        (
            "{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, containerName: node, divisor: 1m}}}",
            {"name": "A", "valueFrom": {"resourceFieldRef": RESOURCE | {"containerName": "node", "divisor": "1m"}}},
        ),
        (
            "{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1024Ki}}}",
            {"name": "A", "valueFrom": {"resourceFieldRef": RESOURCE | {"containerName": "", "divisor": "1Mi"}}},
        ),
        (
            "{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}",
            {"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}},
        ),
    ],
)
def test_variables_pass_through_with_their_sources_and_also_when_they_are_empty(kit, written, built):
    env = kit.container(RUNTIME % (STEP, "a: b"), JOB % f", env: [{written}]", index=1)["env"]

    assert env == [built]


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("2500000u", "2500m"),
        ("'2.50'", "2500m"),
        ("1e1", "10"),
        ("0.5Gi", "512Mi"),
        ("2000M", "2G"),
        ("1n", "1n"),
        ("3", "3"),
    ],
)
def test_amounts_of_the_trainjob_become_canonical_as_those_of_the_runtime(kit, said, written):
    trainer = f", resourcesPerNode: {{limits: {{example.com/thing: {said}}}}}"

    assert kit.container(RUNTIME % (STEP, "a: b"), JOB % trainer, index=1)["resources"]["limits"] == {
        "example.com/thing": written
    }


TWO_STEPS = """
spec:
  mlPolicy: {numNodes: 2, torch: {}}
  template: {spec: {replicatedJobs: [
    {name: one, template: {metadata: {labels: L}, spec: {template: {spec: {containers: [{name: node, image: i}]}}}}},
    {name: two, template: {metadata: {labels: L}, spec: {template: {spec: {containers: [{name: node, image: i}]}}}}}]}}
"""


def test_of_two_trainer_steps_the_first_is_sized_and_told_and_both_run_the_jobs_program(kit):
    job = JOB % ", numNodes: 3, args: [x], env: [{name: A, value: a}], resourcesPerNode: {limits: {cpu: 1}}"
    specs = [one["template"]["spec"] for one in kit.job_set(TWO_STEPS, job)["spec"]["replicatedJobs"]]
    one, two = (spec["template"]["spec"]["containers"][0] for spec in specs)

    assert [spec["parallelism"] for spec in specs] == [3, 2]
    assert [(c["image"], c["args"], c["resources"]) for c in (one, two)] == [
        ("mine", ["x"], {"limits": {"cpu": "1"}})
    ] * 2
    assert [entry["name"] for entry in one["env"]][:2] == ["A", "PET_NNODES"]
    assert two["env"] == [{"name": "A", "value": "a"}]


def test_what_a_trainjob_says_of_its_trainer_is_lost_on_a_runtime_without_that_step(kit):
    runtime = RUNTIME % ("a: b", "a: b")
    job = JOB % ", numNodes: 3, env: [{name: A, value: a}], resourcesPerNode: {limits: {cpu: 1}}"

    assert kit.job_set(runtime, job)["spec"] == kit.job_set(runtime, JOB % "")["spec"]
