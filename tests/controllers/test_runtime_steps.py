"""Runtimes whose steps cannot be told, or whose containers cannot."""

import pytest

from ktrain.controllers.runtime_steps import check_steps

LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
JOBS = "spec.template.spec.replicatedJobs"
PODS = "template.spec.template"


def step(name="node", *, on_job="", on_pods="", containers=("main",), replicas=1):
    pods = {"metadata": {"labels": {LABEL: on_pods}} if on_pods else {}}
    pods["spec"] = {"containers": [{"name": one} for one in containers]}
    labels = {"labels": {LABEL: on_job}} if on_job else {}
    return {"name": name, "replicas": replicas, "template": {"metadata": labels, "spec": {"template": pods}}}


def refusals(*jobs, **policy):
    found = check_steps({"spec": {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": list(jobs)}}}})
    return [str(error) for error in found.errors]


@pytest.mark.parametrize(
    "jobs",
    [
        (step(on_pods="trainer"),),
        (step(on_pods="trainer", containers=("a", "trainer")),),
        (step(on_pods="trainer", containers=("a", "mpi-launcher")),),
        (step(on_job="trainer", containers=("a", "trainer")),),
        (step(on_job="trainer", on_pods="trainer", containers=("node",)),),
        (step("a", on_pods="dataset-initializer"), step("b", on_pods="model-initializer"), step(on_pods="trainer")),
        (step(on_job="evaluator", on_pods="judge", replicas=2), step("b", on_pods="evaluator", replicas=3)),
        (step(on_job="trainer", containers=("node",)), step("b", on_job="trainer", containers=("node",))),
        (step(containers=("a", "b")),),
        (step(on_pods="trainer", containers=()),),
        ({"name": "node", "template": None},),
    ],
)
def test_steps_that_can_be_told_are_stored(jobs):
    assert refusals(*jobs) == []


def test_a_step_by_the_label_of_its_pods_has_one_replica_too():
    assert refusals(step(on_pods="trainer", replicas=2)) == [
        f"{JOBS}[0].replicas: Invalid value: 2: always must be 1",
    ]


@pytest.mark.parametrize(
    ("label", "names"),
    [("trainer", "node or trainer or mpi-launcher"), ("dataset-initializer", "dataset-initializer")],
)
def test_a_step_with_several_containers_has_one_that_is_named_for_it(label, names):
    (error,) = refusals(step(on_pods=label, containers=("a", "b")))

    assert error.startswith(f'{JOBS}[0].{PODS}.spec.containers: Invalid value: [{{"name":"a"}},{{"name":"b"}}]: ')
    assert error.endswith(f"named {names}, as there are several: the step {label} would run in it")


def test_jobs_of_an_mpi_runtime_need_a_container_that_can_be_told_without_a_label_too():
    jobs = (step("launcher", on_pods="trainer"), step("node", containers=("a", "b")))

    assert refusals(*jobs) == []
    (error,) = refusals(*jobs, mpi={})
    assert error.startswith(f"{JOBS}[1].{PODS}.spec.containers: ")
    assert error.endswith("as there are several: the ranks of the MPI job would run in it")


@pytest.mark.parametrize(
    ("on_job", "on_pods"), [("trainer", "dataset-initializer"), ("trainer", "x"), ("evaluator", "trainer")]
)
def test_two_labels_that_differ_are_refused(on_job, on_pods):
    (error,) = refusals(step(on_job=on_job, on_pods=on_pods, containers=("node",)))

    assert error == (
        f'{JOBS}[0].{PODS}.metadata.labels[{LABEL}]: Invalid value: "{on_pods}": must be {on_job},'
        " as the label of the Job template is, or absent"
    )


@pytest.mark.parametrize("first", [{"on_job": "trainer"}, {"on_pods": "trainer"}])
def test_two_jobs_are_not_one_step_where_a_pod_template_says_so(first):
    assert refusals(step("a", containers=("node",), **first), step("b", on_pods="trainer")) == [
        f'{JOBS}[1].name: Invalid value: "b": must not be labelled as the step trainer: the job a is that step'
    ]
