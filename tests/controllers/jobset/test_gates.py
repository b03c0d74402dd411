"""What feature gates change in a decision: single restarts, elastic sizes, restarts in place."""

from __future__ import annotations

import msgspec
import pytest

from ktrain.api.jobset import JobSetPod
from ktrain.api.trainer import ELASTIC_LABEL
from ktrain.controllers.jobset import Gates, Observed, Undecidable, decide
from ktrain.controllers.jobset.admission import refusals
from ktrain.controllers.jobset.conditions import status_json

SINGLE = Gates(restart_job=True)
ELASTIC = Gates(elastic_jobset=True)
IN_PLACE = Gates(in_place_restart=True)
JOB_ATTEMPT = "jobset.sigs.k8s.io/job-restart-attempt"


@pytest.fixture
def run(now):
    def run_pass(gates, jobset, *jobs, pods=()):
        return decide(Observed(jobset, tuple(jobs), frozenset({"js"}), pods=tuple(pods)), now, gates)

    return run_pass


def of_attempt(job, attempt, **labels):
    """A Job with an attempt of its own."""
    metadata = msgspec.structs.replace(
        job.metadata, labels={**job.metadata.labels, JOB_ATTEMPT: str(attempt), **labels}
    )
    return msgspec.structs.replace(job, metadata=metadata)


def policy(action, maximum=2):
    return {"maxRestarts": maximum, "rules": [{"name": "one", "action": action}]}


def restarts(decision, name):
    return next(
        (entry.job_restarts, entry.job_restarts_count_towards_max)
        for entry in decision.status.replicated_jobs_status
        if entry.name == name
    )


def test_a_single_restart_counts_for_its_slot_and_tells_no_condition(run, jobset, job):
    spec = jobset({"name": "a", "replicas": 3}, failurePolicy=policy("RestartJob"))
    decision = run(SINGLE, spec, job("a-0"), job("a-1", "Failed"), job("a-2"))

    assert restarts(decision, "a") == ((0, 1, 0), (0, 1, 0))
    assert decision.status.restarts == 0
    assert not decision.status.conditions
    assert [notice.reason for notice in decision.notices] == ["RestartJobFailurePolicyAction"]
    assert not decision.create
    assert not decision.delete


def test_a_restart_that_ignores_the_limit_uses_up_nothing_of_it(run, jobset, job):
    decision = run(SINGLE, jobset("a", failurePolicy=policy("RestartJobAndIgnoreMaxRestarts", 0)), job("a-0", "Failed"))

    assert restarts(decision, "a") == ((1,), ()), "and there is no list before something counts"


def test_single_restarts_and_those_of_all_share_one_limit(run, jobset, job):
    counted = {"name": "a", "jobRestarts": [1], "jobRestartsCountTowardsMax": [1]}
    status = {"restarts": 1, "restartsCountTowardsMax": 1, "replicatedJobsStatus": [counted]}
    spec = jobset("a", status=status, failurePolicy=policy("RestartJob", 2))
    decision = run(SINGLE, spec, of_attempt(job("a-0", "Failed", attempt=1), 1))

    assert decision.status.terminal_state == "Failed"
    assert [notice.reason for notice in decision.notices] == ["ReachedMaxRestarts"]


def test_a_job_of_an_earlier_attempt_of_its_slot_is_deleted_alone(run, jobset, job):
    status = {"replicatedJobsStatus": [{"name": "a", "jobRestarts": [0, 1], "jobRestartsCountTowardsMax": [0, 1]}]}
    spec = jobset({"name": "a", "replicas": 2}, status=status)
    decision = run(SINGLE, spec, of_attempt(job("a-0"), 0), of_attempt(job("a-1", "Failed"), 0))

    assert [job.metadata.name for job in decision.delete] == ["js-a-1"]


def test_without_the_gate_what_was_counted_is_dropped(run, jobset, job):
    status = {"replicatedJobsStatus": [{"name": "a", "jobRestarts": [1], "jobRestartsCountTowardsMax": [1]}]}
    decision = run(Gates(), jobset("a", status=status), job("a-0"))

    assert restarts(decision, "a") == ((), ())
    assert set(status_json(decision.status)["replicatedJobsStatus"][0]) == {
        *("name", "ready", "succeeded", "failed", "active", "suspended")
    }


def test_a_job_made_before_the_gate_was_on_is_of_the_first_attempt(run, jobset, job):
    decision = run(SINGLE, jobset("a"), job("a-0"))

    assert not decision.delete
    assert decision.status.replicated_jobs_status[0].active == 1


@pytest.mark.parametrize("labels", [{"jobset.sigs.k8s.io/job-index": "7"}, {"jobset.sigs.k8s.io/job-index": "x"}])
def test_a_job_in_no_slot_stops_all_work_where_slots_count(run, jobset, job, labels):
    with pytest.raises(Undecidable):
        run(SINGLE, jobset("a"), of_attempt(job("a-0"), 0, **labels))


def sized(parallelism, completions):
    numbers = {"parallelism": parallelism, "completions": completions}
    return {"spec": {name: number for name, number in numbers.items() if number is not None}}


@pytest.mark.parametrize(
    ("parallelism", "completions", "sizes"),
    [(4, 4, [4]), (2, 2, []), (4, 3, []), (None, None, [1]), (3, None, [])],
)
def test_a_job_of_another_size_than_its_template_is_resized_if_both_numbers_agree(
    run, jobset, job, parallelism, completions, sizes
):
    spec = jobset({"name": "a", "template": sized(parallelism, completions)})
    decision = run(ELASTIC, spec, job("a-0", parallelism=2, completions=2))

    assert [resize.size for resize in decision.resize] == sizes
    assert not run(Gates(), spec, job("a-0", parallelism=2, completions=2)).resize


def test_a_template_that_says_nothing_of_size_patches_nothing_that_has_size_one(run, jobset, job):
    assert not run(ELASTIC, jobset({"name": "a", "template": {"spec": {}}}), job("a-0")).resize


def pod(attempt=None, phase="Running", restarted=0):
    annotations = {} if attempt is None else {"jobset.sigs.k8s.io/in-place-restart-attempt": str(attempt)}
    status = {"phase": phase, "containerStatuses": [{"restartCount": restarted}]}
    return msgspec.convert({"metadata": {"name": "p", "annotations": annotations}, "status": status}, JobSetPod)


@pytest.fixture
def in_place(run, jobset, job):
    """Decides about a JobSet of two pods: its current and its previous attempt, and how it ended."""

    def decided(*pods, maximum=3, **stored):
        spec = jobset(
            {"name": "a", "template": sized(2, 2)},
            status={"replicatedJobsStatus": [], **stored},
            failurePolicy={"restartStrategy": "InPlaceRestart", "maxRestarts": maximum},
        )
        status = run(IN_PLACE, spec, job("a-0", parallelism=2, completions=2), pods=pods).status
        return (
            status.current_in_place_restart_attempt,
            status.previous_in_place_restart_attempt,
            status.terminal_state,
        )

    return decided


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], (None, None, "")),
        ([pod(0)], (None, None, "")),
        ([pod(0), pod(0)], (0, None, "")),
        ([pod(1), pod(0)], (None, 0, "")),
        ([pod(1), pod()], (None, 0, "")),
        ([pod(2), pod(2)], (2, None, "")),
        ([pod(2), pod(2, phase="Failed")], (None, 1, "")),
        ([pod(4), pod(0)], (None, None, "Failed")),
        ([pod(0, restarted=4), pod(0)], (None, None, "Failed")),
    ],
)
def test_all_at_one_attempt_makes_it_current_one_ahead_makes_the_one_before_previous(in_place, pods, expected):
    assert in_place(*pods) == expected


def test_the_previous_attempt_never_goes_back(in_place):
    assert in_place(pod(2), pod(0), previousInPlaceRestartAttempt=4) == (None, 4, "")


def test_restarts_that_do_not_count_leave_more_attempts(in_place):
    assert in_place(pod(4), pod(3), restarts=0) == (None, None, "Failed")
    assert in_place(pod(4), pod(4), maximum=4) == (4, None, "")


@pytest.mark.parametrize("attempt", ["one", "-1", "1.0"])
def test_an_attempt_that_is_no_number_stops_all_work(in_place, attempt):
    with pytest.raises(Undecidable):
        in_place(pod(attempt))


@pytest.mark.parametrize(
    ("gates", "labels", "may"),
    [
        (ELASTIC, {}, True),
        (Gates(elastic_train_jobs=True), {ELASTIC_LABEL: "job"}, True),
        (Gates(elastic_train_jobs=True), {}, False),
        (Gates(), {ELASTIC_LABEL: "job"}, False),
    ],
)
def test_without_the_gate_at_most_the_jobsets_of_elastic_train_jobs_change_in_size(
    run, jobset, job, gates, labels, may
):
    template = sized(3, 3)
    template["spec"]["completionMode"] = "Indexed"
    spec = jobset({"name": "a", "template": template})
    spec = msgspec.structs.replace(spec, metadata=msgspec.structs.replace(spec.metadata, labels=labels))
    resizes = run(gates, spec, job("a-0", parallelism=2, completions=2)).resize
    wire = {"metadata": {"labels": labels}, "spec": {"replicatedJobs": [{"name": "a", "template": template}]}}
    smaller = msgspec.json.decode(msgspec.json.encode(wire).replace(b":3", b":2"))

    assert bool(resizes) is may
    assert [str(cause.field) for cause in refusals(smaller, wire, gates)] == ([] if may else ["spec.replicatedJobs"])
