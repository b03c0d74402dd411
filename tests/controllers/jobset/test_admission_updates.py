"""What may change of a JobSet, and what is said against the rest."""

from __future__ import annotations

import copy

import pytest

from ktrain.controllers.jobset.admission import default_jobset, refusals_on_update

from .documents import document, replicated_job


def updated(change, *, suspend=(False, False)):
    """What is said against an update that `change` makes."""
    old = document(suspend=suspend[0])
    new = copy.deepcopy(document(suspend=suspend[1]))
    change(new["spec"])
    return [(cause.field, cause.message.rpartition(": ")[2]) for cause in refusals_on_update(new, old)]


def pod_of(spec):
    return spec["replicatedJobs"][0]["template"]["spec"]["template"]


FROZEN = [("spec.replicatedJobs", "field is immutable")]


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: pod_of(spec)["spec"].update(nodeSelector={"zone": "x"}),
        lambda spec: pod_of(spec)["spec"].update(tolerations=[{"key": "k"}]),
        lambda spec: pod_of(spec)["spec"].update(schedulingGates=[{"name": "g"}]),
        lambda spec: pod_of(spec)["metadata"].update(labels={"l": "1"}),
        lambda spec: pod_of(spec)["metadata"].update(annotations={"l": "1"}),
    ],
)
def test_placement_may_change_in_an_update_that_finds_or_leaves_the_jobset_suspended(change):
    assert updated(change) == FROZEN
    assert updated(change, suspend=(True, True)) == []
    assert updated(change, suspend=(True, False)) == []
    assert updated(change, suspend=(False, True)) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec["replicatedJobs"][0].update(replicas=2),
        lambda spec: spec["replicatedJobs"][0].update(name="z"),
        lambda spec: spec["replicatedJobs"].append(replicated_job("b")),
        lambda spec: spec["replicatedJobs"].clear(),
        lambda spec: spec["replicatedJobs"][0]["template"]["metadata"].update(labels={"l": "1"}),
        lambda spec: pod_of(spec)["spec"]["containers"][0].update(image="other"),
        lambda spec: pod_of(spec)["spec"].update(volumes=[{"name": "v", "emptyDir": {}}]),
    ],
)
@pytest.mark.parametrize("suspend", [(False, False), (True, True)])
def test_everything_else_in_replicated_jobs_is_frozen(change, suspend):
    assert updated(change, suspend=suspend) == FROZEN


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec["replicatedJobs"][0]["template"].pop("metadata"),
        lambda spec: pod_of(spec)["spec"].update(volumes=[], hostname=""),
        lambda spec: pod_of(spec)["spec"]["containers"][0].pop("resources"),
        lambda spec: spec.update(ttlSecondsAfterFinished=3, coordinator={"replicatedJob": "nobody"}, suspend=True),
    ],
)
def test_what_means_the_same_and_what_is_open_may_change(change):
    assert updated(change) == []


def resources(amounts):
    return {"containers": [{"name": "m", "resources": {"limits": amounts}}]}


def volume(**source):
    return {"volumes": [{"name": "v", **source}]}


def variable(reference):
    return {"containers": [{"name": "m", "env": [{"name": "E", "valueFrom": {"resourceFieldRef": reference}}]}]}


def claim(size):
    return volume(ephemeral={"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": size}}}}})


def downward(**reference):
    return volume(downwardAPI={"items": [{"path": "p", "resourceFieldRef": {"resource": "limits.cpu", **reference}}]})


POD_RULE = {"action": "Ignore", "onPodConditions": [{"type": "T"}]}


@pytest.mark.parametrize("suspend", [False, True])
@pytest.mark.parametrize(
    ("pod", "job"),
    [
        (resources({"cpu": "1.250"}), {}),
        (resources({"cpu": "0.5", "memory": "1024Mi"}), {}),
        (volume(emptyDir={"sizeLimit": "1024Mi"}), {}),
        ({"overhead": {"cpu": "0.5"}}, {}),
        (variable({"resource": "limits.cpu"}), {}),
        (variable({"resource": "limits.memory", "divisor": "1024Ki"}), {}),
        (downward(), {}),
        (downward(divisor="1000m"), {}),
        (claim("0.5Gi"), {}),
        (volume(ephemeral={"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}), {}),
        ({"initContainers": [{"name": "i", "image": "i"}]}, {"podFailurePolicy": {"rules": [POD_RULE]}}),
    ],
)
def test_a_jobset_that_is_applied_again_as_it_was_is_not_refused(pod, job, suspend):
    applied = document(replicated_job(pod=pod), suspend=suspend)
    applied["spec"]["replicatedJobs"][0]["template"]["spec"] |= job | {"completionMode": "Indexed"}

    assert refusals_on_update(applied, default_jobset(applied)) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (resources({"cpu": "1"}), resources({"cpu": "1001m"})),
        (volume(emptyDir={"sizeLimit": "1Gi"}), volume(emptyDir={"sizeLimit": "1025Mi"})),
        (volume(emptyDir={"sizeLimit": "1Gi"}), volume(emptyDir={})),
        ({"overhead": {"cpu": "1"}}, {"overhead": {"cpu": "2"}}),
        (downward(), downward(divisor="1")),
        (claim("1Gi"), claim("2Gi")),
    ],
)
def test_an_amount_of_another_value_is_refused(before, after):
    old, new = (default_jobset(document(replicated_job(pod=pod))) for pod in (before, after))

    assert [cause.field for cause in refusals_on_update(new, old)] == ["spec.replicatedJobs"]


def test_equal_amounts_are_equal_and_labels_are_none():
    """A label may be named and may read like an amount."""
    old, new = (document(replicated_job(pod=resources({"cpu": cpu}))) for cpu in ("1", "1000m"))

    assert refusals_on_update(new, old) == []

    for jobset, label in ((old, "1"), (new, "1000m")):
        pod_of(jobset["spec"])["metadata"]["labels"] = {"limits": label}
    assert len(refusals_on_update(new, old)) == 1


def test_the_manager_is_fixed():
    (found,) = updated(lambda spec: spec.update(managedBy="example.com/x"))

    assert found == ("spec.managedBy", "field is immutable")
