"""Startup rules (KEP-672): groups of replicated jobs, one after the other."""

from __future__ import annotations

import pytest


def rules(*groups):
    """Rules from pairs of names and a status."""
    entries = [
        {"targetReplicatedJobs": names.split(), "waitForReplicatedJobsStatus": status} for names, status in groups
    ]
    return {"startupPolicy": {"startupPolicyOrder": "InOrder", "rules": entries}}


def created(decision):
    return [slot.name.removeprefix("js-") for slot in decision.create]


def resumed(decision):
    return [wake.job.metadata.name.removeprefix("js-") for wake in decision.resume]


def test_replicated_jobs_of_one_rule_start_together_and_the_next_wait_for_all_of_them(jobset, job, run):
    world = jobset("a", {"name": "b", "replicas": 2}, "c", **rules(("a b", "Ready")))

    assert created(run(world)) == ["a-0", "b-0", "b-1"]
    assert created(run(world, job("a-0", ready=1), job("b-0", ready=1), job("b-1"))) == []
    assert created(run(world, job("a-0", ready=1), job("b-0", ready=1), job("b-1", ready=1))) == ["c-0"]


def test_succeeded_waits_for_success_and_ready_is_not_enough(jobset, job, run, condition):
    world = jobset("a", "b", **rules(("a", "Succeeded")))

    assert created(run(world, job("a-0", ready=1))) == []
    after = run(world, job("a-0", "Complete"))

    assert created(after) == ["b-0"]
    assert condition(after, "StartupPolicyInProgress").status == "True"


@pytest.mark.parametrize("last", [(), (("c", "Succeeded"),)])
def test_startup_is_completed_when_the_last_has_started_whatever_its_rule_says(jobset, job, run, condition, last):
    world = jobset("a", "b", "c", **rules(("a", "Succeeded"), ("b", "Ready"), *last))
    ended, ready = job("a-0", "Complete"), job("b-0", ready=1)

    assert condition(run(world, ended, ready, job("c-0")), "StartupPolicyCompleted") is None
    assert condition(run(world, ended, ready, job("c-0", ready=1)), "StartupPolicyCompleted").status == "True"


def test_the_order_is_that_of_the_rules(jobset, job, run):
    world = jobset("a", "b", "c", **rules(("b", "Ready"), ("a", "Ready")))

    assert created(run(world)) == ["b-0"]
    assert created(run(world, job("b-0", ready=1))) == ["a-0"]


def test_a_group_without_replicas_holds_nobody(jobset, run):
    assert created(run(jobset({"name": "a", "replicas": 0}, "b", **rules(("a", "Succeeded"))))) == ["b-0"]


def test_suspended_everything_exists_and_a_resume_walks_the_groups(jobset, job, run, condition):
    world = jobset("a", "b", suspend=True, **rules(("a", "Succeeded")))
    decision = run(world)

    assert created(decision) == ["a-0", "b-0"]
    assert condition(decision, "StartupPolicyInProgress") is None

    held = {"type": "Suspended", "status": "True", "reason": "SuspendedJobs", "message": "jobset is suspended"}
    world = jobset("a", "b", status={"conditions": [held]}, **rules(("a", "Succeeded")))
    first = run(world, job("a-0", suspend=True), job("b-0", suspend=True))
    then = run(world, job("a-0", "Complete"), job("b-0", suspend=True))

    assert (resumed(first), resumed(then)) == (["a-0"], ["b-0"])
    assert condition(then, "Suspended").status == "True"


def test_a_failure_comes_before_the_next_group(jobset, job, run):
    decision = run(jobset("a", "b", **rules(("a", "Succeeded"))), job("a-0", "Failed"))

    assert created(decision) == []
    assert decision.status.terminal_state == "Failed"
