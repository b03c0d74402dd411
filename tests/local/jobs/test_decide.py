from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from ktrain.api.core import ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodSpec, PodStatus
from ktrain.api.meta import Condition, ObjectMeta, OwnerReference
from ktrain.local.jobs import pods as pod_factory
from ktrain.local.jobs.backoff import Backoff, Tuning
from ktrain.local.jobs.decide import decide
from ktrain.local.jobs.managing import Wanted
from ktrain.local.jobs.status import stored
from ktrain.local.jobs.types import (
    INDEX_FAILURE_COUNT,
    INDEX_KEY,
    TRACKING_FINALIZER,
    Job,
    JobSpec,
    JobStatus,
    UncountedPods,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TUNING = Tuning()


def make_job(status=None, **spec):
    spec = {"parallelism": 2, "completions": 2, "completion_mode": "Indexed", **spec}
    return Job(
        metadata=ObjectMeta(name="job", namespace="ns", uid="job-uid"),
        spec=JobSpec(**spec),
        status=status or JobStatus(start_time=NOW),
    )


def make_pod(
    index, phase="Running", *, deleting=False, exit_code=None, ready=False, tracked=True, ended_at=NOW, **kwargs
):
    states = ()
    if exit_code is not None:
        ended = ContainerStateTerminated(exit_code=exit_code, finished_at=ended_at)
        states = (ContainerStatus(name="c", state=ContainerState(terminated=ended)),)
    conditions = (Condition(type="Ready", status="True"),) if ready else ()
    return Pod(
        metadata=ObjectMeta(
            name=f"job-{index}-{phase.lower()}",
            namespace="ns",
            uid=f"pod-{index}-{phase}",
            annotations={INDEX_KEY: str(index)},
            finalizers=(TRACKING_FINALIZER,) if tracked else (),
            deletion_timestamp=NOW if deleting else None,
            owner_references=(OwnerReference(kind="Job", name="job", uid="job-uid", controller=True),),
        ),
        spec=PodSpec(node_name="n", **kwargs),
        status=PodStatus(phase=phase, container_statuses=states, conditions=conditions),
    )


def run(job, *pods, backoff=None, now=NOW):
    return decide(job, pods, backoff or Backoff(), now, TUNING)


def conditions(status):
    return [(c["type"], c["status"], c["reason"]) for c in status.get("conditions", [])]


def test_a_new_job_gets_one_pod_per_index_and_a_start_time():
    decision = run(make_job(JobStatus()))

    assert decision.create == (Wanted(0), Wanted(1))
    assert decision.status == {
        "ready": 0,
        "terminating": 0,
        "active": 2,
        "uncountedTerminatedPods": {},
        "startTime": "2026-01-01T00:00:00Z",
    }


def test_running_pods_leave_nothing_to_do():
    decision = run(make_job(), make_pod(0), make_pod(1, ready=True))

    assert not decision.create
    assert not decision.drop
    assert decision.status["active"] == 2
    assert decision.status["ready"] == 1


def test_a_failed_pod_is_recorded_released_counted_and_replaced_after_the_back_off():
    job = make_job()
    failed = make_pod(0, "Failed", exit_code=1)

    decision = run(job, failed, make_pod(1))

    assert decision.record["uncountedTerminatedPods"] == {"failed": ["pod-0-Failed"]}
    assert "failed" not in decision.record
    assert decision.release == (failed,)
    assert decision.status["failed"] == 1
    assert decision.create == ()
    assert decision.requeue_after == timedelta(seconds=10)

    later = run(
        job,
        make_pod(0, "Failed", tracked=False),
        make_pod(1),
        backoff=decision.backoff,
        now=NOW + timedelta(seconds=10),
    )

    assert [wanted.index for wanted in later.create] == [0]


def test_a_pass_that_died_after_the_finalizer_went_still_counts_the_pod_once():
    status = JobStatus(start_time=NOW, uncounted_terminated_pods=UncountedPods(failed=("pod-0-Failed",)))

    decision = run(make_job(status), make_pod(0, "Failed", tracked=False), make_pod(1))

    assert decision.record == decision.status
    assert decision.status["failed"] == 1
    assert decision.status["uncountedTerminatedPods"] == {}


def test_a_recorded_pod_that_kept_its_finalizer_is_counted_when_it_goes():
    status = JobStatus(start_time=NOW, uncounted_terminated_pods=UncountedPods(failed=("pod-0-Failed",)))

    decision = run(make_job(status), make_pod(0, "Failed"), make_pod(1))

    assert decision.record["uncountedTerminatedPods"] == {"failed": ["pod-0-Failed"]}
    assert "failed" not in decision.record
    assert decision.status["failed"] == 1


def test_all_indexes_done_completes_in_two_conditions_with_one_reason():
    decision = run(make_job(), make_pod(0, "Succeeded"), make_pod(1, "Succeeded"))

    assert conditions(decision.record) == [("SuccessCriteriaMet", "True", "CompletionsReached")]
    assert conditions(decision.status) == [
        ("SuccessCriteriaMet", "True", "CompletionsReached"),
        ("Complete", "True", "CompletionsReached"),
    ]
    assert decision.status["completedIndexes"] == "0,1"
    assert decision.status["succeeded"] == 2
    assert decision.status["completionTime"] == "2026-01-01T00:00:00Z"


def test_the_back_off_limit_fails_the_job_only_when_exceeded_and_stops_the_others_first():
    status = JobStatus(start_time=NOW, failed=1)
    running = make_pod(1)

    at_limit = run(make_job(status, backoff_limit=2), make_pod(0, "Failed"), running)
    over = run(make_job(status, backoff_limit=1), make_pod(0, "Failed"), running)

    assert conditions(at_limit.status) == []
    assert conditions(over.status) == [("FailureTarget", "True", "BackoffLimitExceeded")]
    assert over.delete == (running,)


def test_failure_is_final_only_when_no_pod_is_left():
    interim = Condition(type="FailureTarget", status="True", reason="R", message="M", last_transition_time=NOW)
    job = make_job(JobStatus(start_time=NOW, conditions=(interim,)))
    stopping = make_pod(1, deleting=True)

    waiting = run(job, stopping)
    done = run(job, make_pod(1, "Failed", deleting=True))

    assert conditions(waiting.status) == [("FailureTarget", "True", "R")]
    assert waiting.status["failed"] == 1
    assert waiting.status["terminating"] == 1
    assert conditions(done.status)[-1] == ("Failed", "True", "R")


@pytest.mark.parametrize(("limit", "restarts", "fails"), [(0, 0, False), (0, 1, True), (3, 2, False), (3, 3, True)])
def test_restarts_in_place_count_against_the_limit_under_on_failure(limit, restarts, fails):
    pod = make_pod(0, restart_policy="OnFailure")
    pod = msgspec.structs.replace(
        pod,
        status=msgspec.structs.replace(
            pod.status, container_statuses=(ContainerStatus(name="c", restart_count=restarts),)
        ),
    )

    decision = run(make_job(backoff_limit=limit), pod, make_pod(1))

    assert (conditions(decision.status) != []) == fails


def test_suspending_drops_pods_uncounted_and_forgets_the_start():
    pods = make_pod(0), make_pod(1)

    decision = run(make_job(suspend=True), *pods)

    assert decision.drop == pods
    assert decision.status["terminating"] == 2
    assert "startTime" not in decision.status
    assert conditions(decision.status) == [("Suspended", "True", "JobSuspended")]


def test_resuming_restarts_the_clock_and_the_pods():
    suspended = Condition(type="Suspended", status="True", reason="JobSuspended", last_transition_time=NOW)
    later = NOW + timedelta(hours=1)

    decision = run(make_job(JobStatus(conditions=(suspended,))), now=later)

    assert len(decision.create) == 2
    assert decision.status["startTime"] == "2026-01-01T01:00:00Z"
    assert conditions(decision.status) == [("Suspended", "False", "JobResumed")]


def test_a_job_never_suspended_has_no_suspended_condition():
    assert "conditions" not in run(make_job()).status


def test_the_deadline_fails_the_job_and_is_waited_for_before():
    job = make_job(active_deadline_seconds=60)

    before = run(job, make_pod(0), make_pod(1), now=NOW + timedelta(seconds=20))
    after = run(job, make_pod(0), make_pod(1), now=NOW + timedelta(seconds=60))

    assert before.requeue_after == timedelta(seconds=40)
    assert conditions(after.status) == [("FailureTarget", "True", "DeadlineExceeded")]


def test_a_deleted_running_pod_has_failed_and_is_replaced_at_once_unless_only_failed_ones_are():
    deleted = make_pod(0, deleting=True)

    by_default = run(make_job(), deleted, make_pod(1))
    patient = run(make_job(pod_replacement_policy="Failed"), deleted, make_pod(1))

    assert by_default.status["failed"] == 1
    assert "failed" not in patient.status
    assert patient.create == ()


def test_scale_down_removes_the_least_useful_pods_without_counting_them():
    ready, pending = make_pod(0, ready=True), make_pod(1, "Pending")
    job = make_job(completion_mode="NonIndexed", parallelism=1, completions=5)

    decision = run(job, ready, pending)

    assert decision.drop == (pending,)


def test_success_in_the_same_pass_forgives_earlier_failures():
    failed = make_pod(0, "Failed", exit_code=1, ended_at=NOW - timedelta(seconds=5))
    succeeded = make_pod(1, "Succeeded", exit_code=0)

    decision = run(make_job(), failed, succeeded, backoff=Backoff(3, NOW))

    assert decision.backoff == Backoff()
    assert [wanted.index for wanted in decision.create] == [0]


def test_pod_failure_policy_fails_the_job_on_an_exit_code():
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    spec = msgspec.json.decode(
        msgspec.json.encode({"completions": 1, "completionMode": "Indexed", "podFailurePolicy": {"rules": [rule]}}),
        type=JobSpec,
    )
    job = msgspec.structs.replace(make_job(), spec=spec)

    decision = run(job, make_pod(0, "Failed", exit_code=42))

    assert conditions(decision.status)[0] == ("FailureTarget", "True", "PodFailurePolicy")
    assert decision.status["conditions"][0]["message"] == (
        "Container c for pod ns/job-0-failed failed with exit code 42 matching FailJob rule at index 0"
    )


def test_an_index_fails_alone_under_back_off_limit_per_index():
    job = make_job(backoff_limit=2**31 - 1, backoff_limit_per_index=0)

    decision = run(job, make_pod(0, "Failed", exit_code=1), make_pod(1))

    assert decision.status["failedIndexes"] == "0"
    assert decision.create == ()
    assert conditions(decision.status) == []


def test_a_status_that_did_not_change_compares_equal_to_the_stored_one():
    job = make_job(
        JobStatus(active=2, ready=0, terminating=0, uncounted_terminated_pods=UncountedPods(), start_time=NOW)
    )

    assert run(job, make_pod(0), make_pod(1)).status == stored(job)


def test_a_pod_carries_index_hostname_finalizer_and_owner():
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}], "subdomain": "s"}}
    job = make_job(template=msgspec.Raw(msgspec.json.encode(template)))

    pod = pod_factory.build(job, 1)

    assert pod["metadata"]["generateName"] == "job-1-"
    assert pod["metadata"]["labels"] == {"a": "b", INDEX_KEY: "1"}
    assert pod["metadata"]["finalizers"] == [TRACKING_FINALIZER]
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "job-uid"
    assert pod["spec"]["hostname"] == "job-1"
    assert pod["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"


def test_a_long_job_name_is_cut_so_that_the_generated_name_fits():
    job = msgspec.structs.replace(make_job(), metadata=ObjectMeta(name="j" * 60, uid="u"))

    assert len(pod_factory.build(job, 12)["metadata"]["generateName"]) == 58


@pytest.mark.parametrize("text", ["", "x", "-1", "\u00b2", "9" * 5000])
def test_a_malformed_index_is_no_index_and_its_pod_goes(text):
    pod = make_pod(0)
    broken = msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, annotations={INDEX_KEY: text, INDEX_FAILURE_COUNT: text})
    )

    decision = run(make_job(), broken)

    assert decision.drop == (broken,)
