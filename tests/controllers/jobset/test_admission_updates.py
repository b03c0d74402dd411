"""What may change of a JobSet, and what is said against the rest."""

from __future__ import annotations

import copy

import pytest

from ktrain.controllers.jobset.admission import (
    refusals_on_update,
)

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


def test_equal_amounts_of_resources_are_equal():
    old, new = (
        document(replicated_job(pod={"containers": [{"name": "m", "resources": {"limits": {"cpu": cpu}}}]}))
        for cpu in ("1", "1000m")
    )

    assert refusals_on_update(new, old) == []


def test_the_manager_is_fixed():
    (found,) = updated(lambda spec: spec.update(managedBy="example.com/x"))

    assert found == ("spec.managedBy", "field is immutable")
