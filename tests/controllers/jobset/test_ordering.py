"""Startup order, dependencies, suspend and resume."""

from __future__ import annotations

import pytest

IN_ORDER = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}


def created(decision):
    return [slot.name.removeprefix("js-") for slot in decision.create]


def resumed(decision):
    return [wake.job.metadata.name.removeprefix("js-") for wake in decision.resume]


def after(*parents, status="Ready"):
    return [{"name": name, "status": status} for name in parents]


# In order


def test_in_order_only_the_first_that_has_not_started_is_made(jobset, job, run, condition):
    world = jobset({"name": "a", "replicas": 2}, "b", **IN_ORDER)

    first = run(world)
    waiting = run(world, job("a-0", ready=1), job("a-1"))
    second = run(world, job("a-0", ready=1), job("a-1", "Complete"))

    assert (created(first), created(waiting), created(second)) == (["a-0", "a-1"], [], ["b-0"])
    assert condition(second, "StartupPolicyInProgress").status == "True"
    assert condition(second, "StartupPolicyCompleted") is None


def test_in_order_is_completed_when_the_last_has_started(jobset, job, run, condition):
    progress = {"type": "StartupPolicyInProgress", "status": "True", "reason": "r", "message": "m"}
    world = jobset("a", {"name": "none", "replicas": 0}, "b", status={"conditions": [progress]}, **IN_ORDER)

    decision = run(world, job("a-0", ready=1), job("b-0", ready=1))

    assert condition(decision, "StartupPolicyCompleted").reason == "InOrderStartupPolicyCompleted"
    turned = condition(decision, "StartupPolicyInProgress")
    assert (turned.status, turned.reason, turned.last_transition_time) == ("False", "r", None)
    assert [notice.reason for notice in decision.notices] == ["InOrderStartupPolicyCompleted"]


def test_in_order_everything_exists_while_suspended(jobset, run, condition):
    decision = run(jobset("a", "b", suspend=True, **IN_ORDER))

    assert created(decision) == ["a-0", "b-0"]
    assert condition(decision, "StartupPolicyInProgress") is None


def test_in_order_suspended_stays_true_until_the_last_has_started(jobset, job, run, condition):
    suspended = {"type": "Suspended", "status": "True", "reason": "SuspendedJobs", "message": "jobset is suspended"}
    world = jobset("a", "b", status={"conditions": [suspended]}, **IN_ORDER)

    first = run(world, job("a-0", suspend=True), job("b-0", suspend=True))
    second = run(world, job("a-0", ready=1), job("b-0", suspend=True))
    last = run(world, job("a-0", ready=1), job("b-0", ready=1))

    assert (resumed(first), resumed(second), resumed(last)) == (["a-0"], ["b-0"], [])
    assert [condition(d, "Suspended").status for d in (first, second, last)] == ["True", "True", "False"]


# Dependencies


@pytest.mark.parametrize(
    ("status", "state", "starts"),
    [
        ("Ready", {}, False),
        ("Ready", {"ready": 1}, True),
        ("Ready", {"end": "Complete"}, True),
        ("Complete", {"ready": 1}, False),
        ("Complete", {"end": "Complete"}, True),
    ],
)
def test_a_dependant_waits_until_its_parent_is_far_enough(jobset, job, run, status, state, starts):
    world = jobset("a", {"name": "b", "dependsOn": after("a", status=status)})

    assert created(run(world, job("a-0", **state))) == (["b-0"] if starts else [])


def test_all_parents_must_hold_and_others_do_not_wait(jobset, job, run):
    both = [*after("a"), *after("b", status="Complete")]
    world = jobset("a", "b", {"name": "c", "dependsOn": both}, {"name": "d", "dependsOn": after("a")}, "e")

    assert created(run(world)) == ["a-0", "b-0", "e-0"]
    assert created(run(world, job("a-0", ready=1), job("b-0", ready=1), job("e-0"))) == ["d-0"]
    assert created(run(world, job("a-0", ready=1), job("b-0", "Complete"), job("e-0"))) == ["c-0", "d-0"]


def test_a_parent_without_replicas_holds_nobody(jobset, run):
    world = jobset({"name": "a", "replicas": 0}, {"name": "b", "dependsOn": after("a", status="Complete")})

    assert created(run(world)) == ["b-0"]


def test_a_dependant_that_runs_is_left_alone_when_its_parent_regresses(jobset, job, run):
    world = jobset("a", {"name": "b", "dependsOn": after("a")})

    decision = run(world, job("a-0"), job("b-0"))

    assert decision.delete == decision.suspend == decision.create == ()


def test_a_dependant_does_not_exist_while_suspended_and_resumes_only_after_its_parent(jobset, job, run, condition):
    rjs = ("a", {"name": "b", "dependsOn": after("a")})

    assert created(run(jobset(*rjs, suspend=True))) == ["a-0"]
    assert resumed(run(jobset(*rjs), job("a-0", suspend=True), job("b-0", suspend=True))) == ["a-0"]


# Suspend and resume


def test_suspending_stops_what_runs_and_keeps_what_ended(jobset, job, run, condition):
    decision = run(jobset("a", "b", "c", suspend=True), job("a-0"), job("b-0", "Complete"), job("c-0", suspend=True))

    assert [job.metadata.name for job in decision.suspend] == ["js-a-0"]
    assert condition(decision, "Suspended").message == "jobset is suspended"


def test_a_suspended_jobset_can_still_fail(jobset, job, run, condition):
    decision = run(jobset("a", "b", suspend=True), job("a-0", "Failed"), job("b-0"))

    assert condition(decision, "Failed").status == "True"
    assert decision.suspend == ()


def test_a_jobset_that_never_was_suspended_has_no_such_condition(jobset, job, run, condition):
    assert condition(run(jobset("a"), job("a-0")), "Suspended") is None


def test_resuming_ends_a_restarts_condition_only_by_readiness(jobset, job, run, condition):
    conditions = [
        {"type": "Suspended", "status": "True", "reason": "SuspendedJobs", "message": "m"},
        {"type": "RestartingJobSet", "status": "True", "reason": "DefaultFailurePolicy", "message": "m"},
    ]

    suspended = run(jobset("a", suspend=True, status={"conditions": conditions}), job("a-0", suspend=True, ready=1))
    resumed = run(jobset("a", status={"conditions": conditions}), job("a-0", suspend=True))

    assert condition(suspended, "RestartingJobSet").reason == "JobSetSuspended"
    assert condition(resumed, "RestartingJobSet").reason == "DefaultFailurePolicy"
    assert condition(resumed, "Suspended").reason == "ResumeJobs"


def test_a_resume_brings_five_fields_of_the_template_and_removes_none(jobset, job, run):
    toleration = {"key": "k", "operator": "Exists", "tolerationSeconds": 5}
    template = {
        "spec": {
            "template": {
                "metadata": {"labels": {"l": "1"}, "annotations": {"n": "2"}},
                "spec": {
                    "nodeSelector": {"zone": "x"},
                    "tolerations": [toleration, {"key": "new"}],
                    "schedulingGates": [{"name": "g"}],
                    "containers": [{"name": "main", "image": "other"}],
                },
            }
        }
    }
    sleeping = job("a-0", suspend=True, tolerations=[{"key": "old"}, toleration], start_time=True)

    (wake,) = run(jobset({"name": "a", "template": template}), sleeping).resume

    assert wake.reset_start is True
    assert wake.patch == {
        "spec": {
            "suspend": False,
            "template": {
                "metadata": {"labels": {"l": "1"}, "annotations": {"n": "2"}},
                "spec": {
                    "nodeSelector": {"zone": "x"},
                    "tolerations": [{"key": "old"}, toleration, {"key": "new"}],
                    "schedulingGates": [{"name": "g"}],
                },
            },
        }
    }
