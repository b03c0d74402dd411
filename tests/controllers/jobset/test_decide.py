"""One pass, decided: which Jobs come, go and wait, and what the status says."""

from __future__ import annotations

import msgspec
import pytest

from ktrain.controllers.jobset import Undecidable
from ktrain.controllers.jobset.conditions import status_json


def created(decision):
    return [slot.name.removeprefix("js-") for slot in decision.create]


def deleted(decision):
    return [job.metadata.name.removeprefix("js-") for job in decision.delete]


def stored(decision):
    """The status of a decision as the next pass finds it."""
    return status_json(decision.status)


# Creation


def test_a_new_jobset_gets_its_service_and_every_job(jobset, run):
    decision = run(jobset("a", {"name": "b", "replicas": 2}), services=())

    assert decision.service is not None
    assert created(decision) == ["a-0", "b-0", "b-1"]


def test_two_billion_jobs_are_made_five_hundred_at_a_time(jobset, job, run):
    everyone = jobset("z", {"name": "a", "replicas": 2_000_000_000})
    first = created(run(everyone))
    second = created(run(everyone, *map(job, first)))

    assert first == ["z-0", *(f"a-{index}" for index in range(499))]
    assert second == [f"a-{index}" for index in range(499, 999)]


def test_an_existing_service_of_that_name_is_left_alone_whoever_made_it(jobset, run):
    assert run(jobset("a"), services=("js",)).service is None


def test_without_dns_there_is_no_service(jobset, run):
    assert run(jobset("a", network={"enableDNSHostnames": False}), services=()).service is None


def test_a_settled_jobset_needs_nothing(jobset, job, run):
    first = run(jobset("a"), job("a-0", ready=1))

    second = run(jobset("a", status=stored(first)), job("a-0", ready=1))

    assert second == type(second)()


def test_a_deleted_job_is_made_again_also_one_that_had_succeeded(jobset, job, run):
    assert created(run(jobset("a", "b"), job("b-0"))) == ["a-0"]


def test_a_terminating_job_holds_its_own_slot_only(jobset, job, run):
    restarted = jobset({"name": "a", "replicas": 2}, status={"restarts": 1}, failurePolicy={"maxRestarts": 1})

    decision = run(restarted, job("a-0", attempt=0, terminating=True))

    assert created(decision) == ["a-1"]
    assert deleted(decision) == []


def test_missing_claims_are_made_and_existing_ones_are_not(jobset, run):
    policy = {"templates": [{"metadata": {"name": name}, "spec": {}} for name in ("data", "models")]}

    decision = run(jobset("a", volumeClaimPolicies=[policy]), claims=("models-js",))

    assert [claim["metadata"]["name"] for claim in decision.claims] == ["data-js"]


# Counters


def test_counters_have_an_entry_for_each_replicated_job_by_name_descending(jobset, job, run, counters):
    decision = run(jobset("a", {"name": "c", "replicas": 0}, "b"), job("a-0", ready=1), job("b-0", "Complete"))

    assert [entry.name for entry in decision.status.replicated_jobs_status] == ["c", "b", "a"]
    assert counters(decision) == {"c": {}, "b": {"succeeded": 1}, "a": {"ready": 1, "active": 1}}


@pytest.mark.parametrize(
    ("parallelism", "completions", "ready", "succeeded", "is_ready"),
    [(5, None, 2, 3, True), (3, 2, 1, 1, True), (2, 3, 1, 2, True), (4, 5, 1, 2, False), (1, 1, 0, 0, False)],
)
def test_ready_counts_succeeded_pods_up_to_what_can_run_at_once(
    jobset, job, run, counters, parallelism, completions, ready, succeeded, is_ready
):
    a = job("a-0", parallelism=parallelism, completions=completions, ready=ready, succeeded=succeeded)

    assert counters(run(jobset("a"), a))["a"].get("ready", 0) == is_ready


@pytest.mark.parametrize("interim", ["FailureTarget", "SuccessCriteriaMet", "Suspended"])
def test_interim_conditions_do_not_end_a_job(jobset, job, run, counters, interim):
    decision = run(jobset("a"), job("a-0", interim, active=1))

    assert counters(decision) == {"a": {"active": 1}}


def test_jobs_of_a_previous_attempt_count_nowhere_and_are_deleted(jobset, job, run, counters):
    restarted = jobset("a", "b", status={"restarts": 1})

    decision = run(restarted, job("a-0", "Failed"), job("b-0", "Complete"))

    assert counters(decision) == {"a": {}, "b": {}}
    assert deleted(decision) == ["a-0", "b-0"]
    assert created(decision) == []


def test_a_job_with_an_unknown_replicated_job_counts_for_none_and_keeps_its_name(jobset, job, run, counters):
    ghost = job("a-0", "Complete")
    labels = {**ghost.metadata.labels, "jobset.sigs.k8s.io/replicatedjob-name": "ghost"}
    ghost = msgspec.structs.replace(ghost, metadata=msgspec.structs.replace(ghost.metadata, labels=labels))

    decision = run(jobset("a"), ghost)

    assert counters(decision) == {"a": {}}
    assert created(decision) == []
    assert decision.status.terminal_state == "Completed"


@pytest.mark.parametrize("attempt", [None, "", "one", "1.0"])
def test_a_job_without_a_valid_attempt_stops_all_work(jobset, job, run, attempt):
    with pytest.raises(Undecidable, match="js-a-0"):
        run(jobset("a"), job("a-0", attempt=attempt))


# The end


def test_a_finished_jobset_deletes_active_jobs_only_and_creates_none(jobset, job, run):
    end = {"type": "Completed", "status": "True", "reason": "AllJobsCompleted", "message": "m"}
    finished = jobset("a", "b", "c", "d", status={"conditions": [end], "terminalState": "Completed"})

    decision = run(finished, job("a-0", "Complete"), job("b-0"), job("c-0", "Failed"), services=())

    assert deleted(decision) == ["b-0"]
    assert created(decision) == []
    assert decision.service is None
    assert decision.notices == ()


def test_the_pass_that_finishes_deletes_nothing(jobset, job, run):
    decision = run(jobset("a", "b", successPolicy={"operator": "Any"}), job("a-0", "Complete"), job("b-0"))

    assert decision.status.terminal_state == "Completed"
    assert deleted(decision) == []


@pytest.mark.parametrize(("ttl_s", "expired", "requeue_after_s"), [(0, True, None), (10, True, None), (25, False, 15)])
def test_the_time_to_live_counts_from_the_end(jobset, run, ttl_s, expired, requeue_after_s):
    end = {
        "type": "Failed",
        "status": "True",
        "reason": "r",
        "message": "m",
        "lastTransitionTime": "2026-01-02T03:03:55Z",
    }

    decision = run(jobset("a", ttlSecondsAfterFinished=ttl_s, status={"conditions": [end]}))

    assert (decision.expired, decision.requeue_after_s) == (expired, requeue_after_s)


def test_a_finish_without_a_time_is_an_error_rather_than_a_deletion(jobset, run):
    end = {"type": "Failed", "status": "True", "reason": "r", "message": "m"}

    with pytest.raises(Undecidable, match="unable to find the time when the JobSet ns/js finished"):
        run(jobset("a", ttlSecondsAfterFinished=0, status={"conditions": [end]}))


def test_an_unfinished_jobset_does_not_expire(jobset, job, run):
    assert run(jobset("a", ttlSecondsAfterFinished=0), job("a-0")).expired is False
