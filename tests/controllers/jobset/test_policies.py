"""Success, failure and restarts."""

from __future__ import annotations

import pytest

from ktrain.controllers.jobset import Undecidable


def outcome(decision):
    return decision.status.terminal_state


def reasons(decision):
    return [notice.reason for notice in decision.notices]


# Success


@pytest.mark.parametrize(
    ("policy", "succeeded", "expected"),
    [
        (None, ["a-0", "b-0"], ""),
        (None, ["a-0", "b-0", "b-1"], "Completed"),
        ({"operator": "Any"}, ["b-1"], "Completed"),
        ({"operator": "All", "targetReplicatedJobs": ["b"]}, ["b-0", "b-1"], "Completed"),
        ({"operator": "All", "targetReplicatedJobs": ["b"]}, ["a-0", "b-1"], ""),
        ({"operator": "Any", "targetReplicatedJobs": ["b"]}, ["a-0"], ""),
        ({"operator": "All", "targetReplicatedJobs": ["none"]}, ["a-0"], "Completed"),
    ],
)
def test_success_needs_one_or_all_jobs_of_the_targets(jobset, job, run, policy, succeeded, expected):
    spec = {"successPolicy": policy} if policy else {}
    shorts = ["a-0", "b-0", "b-1"]

    decision = run(
        jobset("a", {"name": "b", "replicas": 2}, {"name": "none", "replicas": 0}, **spec),
        *(job(short, "Complete" if short in succeeded else "") for short in shorts),
    )

    assert outcome(decision) == expected


def test_success_is_told_by_condition_and_event(jobset, job, run, condition, now):
    decision = run(jobset("a"), job("a-0", "Complete"))

    completed = condition(decision, "Completed")
    assert (completed.status, completed.reason) == ("True", "AllJobsCompleted")
    assert completed.message == "jobset completed successfully"
    assert completed.last_transition_time == now
    assert reasons(decision) == ["AllJobsCompleted"]


def test_without_replicas_a_jobset_never_completes(jobset, run):
    decision = run(jobset({"name": "none", "replicas": 0}))

    assert decision.status.conditions == ()


def test_failure_beats_success_in_the_same_pass(jobset, job, run):
    decision = run(jobset("a", "b", successPolicy={"operator": "Any"}), job("a-0", "Complete"), job("b-0", "Failed"))

    assert outcome(decision) == "Failed"


# Failure


def test_without_a_policy_the_first_failure_in_time_is_final(jobset, job, run, condition):
    decision = run(jobset("a", "b"), job("a-0", "Failed", failed_s_ago=1), job("b-0", "Failed", failed_s_ago=9))

    failed = condition(decision, "Failed")
    assert failed.reason == "FailedJobs"
    assert failed.message == "jobset failed due to one or more job failures (first failed job: js-b-0)"
    assert reasons(decision) == ["FailedJobs"]
    assert decision.notices[0].type == "Warning"


def test_an_empty_policy_allows_no_restart_and_says_so(jobset, job, run, condition):
    decision = run(jobset("a", failurePolicy={}), job("a-0", "Failed"))

    failed = condition(decision, "Failed")
    assert failed.reason == "ReachedMaxRestarts"
    assert failed.message == "jobset failed due to reaching max number of restarts (first failed job: js-a-0)"
    assert outcome(decision) == "Failed"


def test_a_restart_raises_the_counters_and_touches_no_job(jobset, job, run, condition):
    decision = run(jobset("a", "b", failurePolicy={"maxRestarts": 1}), job("a-0", "Failed"), job("b-0", "Complete"))

    assert (decision.status.restarts, decision.status.restarts_count_towards_max) == (1, 1)
    assert decision.create == decision.delete == ()
    restarting = condition(decision, "RestartingJobSet")
    assert (restarting.status, restarting.reason) == ("True", "DefaultFailurePolicy")
    assert restarting.message == "applying RestartJobSet failure policy action (first failed job: js-a-0)"
    assert reasons(decision) == ["DefaultFailurePolicy", "RestartJobSetFailurePolicyAction"]


def test_the_budget_is_spent_by_counting_restarts_only(jobset, job, run):
    rule = {"name": "free", "action": "RestartJobSetAndIgnoreMaxRestarts", "targetReplicatedJobs": ["a"]}
    policy = {"maxRestarts": 1, "rules": [rule]}
    status = {"restarts": 5, "restartsCountTowardsMax": 1}

    free = run(jobset("a", "b", failurePolicy=policy, status=status), job("a-0", "Failed", attempt=5))
    counted = run(jobset("a", "b", failurePolicy=policy, status=status), job("b-0", "Failed", attempt=5))

    assert (free.status.restarts, free.status.restarts_count_towards_max) == (6, 1)
    assert (counted.status.restarts, outcome(counted)) == (5, "Failed")


def test_the_first_rule_in_the_list_beats_the_earlier_failure(jobset, job, run, condition):
    rules = [
        {"name": "First", "action": "RestartJobSet", "targetReplicatedJobs": ["b"]},
        {"name": "Second", "action": "FailJobSet", "targetReplicatedJobs": ["a"]},
    ]
    a, b = job("a-0", "Failed", failed_s_ago=9), job("b-0", "Failed", failed_s_ago=1)

    decision = run(jobset("a", "b", failurePolicy={"maxRestarts": 5, "rules": rules}), a, b)

    assert condition(decision, "RestartingJobSet").reason == "FailurePolicy_First"
    assert "js-b-0" in condition(decision, "RestartingJobSet").message


def test_fail_jobset_ignores_the_budget(jobset, job, run, condition):
    rules = [{"name": "fatal", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}]
    policy = {"maxRestarts": 5, "rules": rules}

    decision = run(jobset("a", failurePolicy=policy), job("a-0", "Failed", reason="DeadlineExceeded"))

    assert condition(decision, "Failed").reason == "FailJobSetFailurePolicyAction"
    assert condition(decision, "Failed").message.startswith("applying FailJobSet failure policy action (first")


def test_a_rule_for_another_reason_leaves_the_default(jobset, job, run, condition):
    rules = [{"name": "fatal", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}]

    decision = run(jobset("a", failurePolicy={"maxRestarts": 5, "rules": rules}), job("a-0", "Failed"))

    assert condition(decision, "RestartingJobSet").reason == "DefaultFailurePolicy"


@pytest.mark.parametrize(
    ("patterns", "matches"),
    [
        (["exit code 4[23]"], True),
        (["^failed"], False),
        (["nothing", "at index 0$"], True),
        (["(?i)CONTAINER"], True),
        (["("], False),
        (["(?=Container)"], False),
        ([r"(a+)+\1"], False),
    ],
)
def test_patterns_are_re2_searches_and_what_is_no_pattern_matches_nothing(
    jobset, job, run, condition, patterns, matches
):
    message = "Container main for pod ns/js-a-0-0-x failed with exit code 42 matching FailJob rule at index 0"
    rules = [{"name": "r", "action": "FailJobSet", "onJobFailureMessagePatterns": patterns}]

    decision = run(jobset("a", failurePolicy={"maxRestarts": 1, "rules": rules}), job("a-0", "Failed", message=message))

    assert (condition(decision, "Failed") is not None) is matches


@pytest.mark.parametrize("action", ["RestartJob", "RestartJobAndIgnoreMaxRestarts"])
def test_restarting_single_jobs_needs_a_feature_that_is_off(jobset, job, run, action):
    policy = {"maxRestarts": 1, "rules": [{"name": "r", "action": action}]}

    with pytest.raises(Undecidable, match=f"^{action} failure policy action cannot be used when the feature gate"):
        run(jobset("a", failurePolicy=policy), job("a-0", "Failed"))


# Restarting


RESTARTING = {"type": "RestartingJobSet", "status": "True", "reason": "DefaultFailurePolicy", "message": "m"}
RESTARTED = {"restarts": 1, "restartsCountTowardsMax": 1, "conditions": [RESTARTING]}


@pytest.mark.parametrize(("strategy", "expected"), [("Recreate", ["b-0"]), ("BlockingRecreate", [])])
def test_blocking_recreate_waits_for_the_last_old_job(jobset, job, run, strategy, expected):
    policy = {"maxRestarts": 1, "restartStrategy": strategy}

    decision = run(jobset("a", "b", failurePolicy=policy, status=RESTARTED), job("a-0", terminating=True))

    assert [slot.name.removeprefix("js-") for slot in decision.create] == expected


def test_a_restart_is_over_when_every_job_is_ready_or_has_succeeded(jobset, job, run, condition):
    world = jobset("a", "b", failurePolicy={"maxRestarts": 1}, status=RESTARTED)

    early = run(world, job("a-0", attempt=1, ready=1), job("b-0", attempt=1))
    late = run(world, job("a-0", attempt=1, ready=1), job("b-0", "Complete", attempt=1))

    assert condition(early, "RestartingJobSet").status == "True"
    assert condition(late, "RestartingJobSet").status == "False"
    assert condition(late, "RestartingJobSet").reason == "JobsReady"


def test_giving_up_ends_the_restart(jobset, job, run, condition):
    decision = run(jobset("a", failurePolicy={"maxRestarts": 1}, status=RESTARTED), job("a-0", "Failed", attempt=1))

    assert condition(decision, "RestartingJobSet").reason == "JobSetFailed"
    assert reasons(decision) == ["ReachedMaxRestarts", "JobSetFailed"]
    assert decision.status.restarts == 1
