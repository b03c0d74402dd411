"""What is decided in every situation a TrainJob can be in."""

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from ktrain.api import trainer as api
from ktrain.api.meta import Condition, Object
from ktrain.controllers.trainjob.decision import Decision
from ktrain.controllers.trainjob.observe import Applied, Check, Memory
from ktrain.pipeline import PlanError

from .conftest import NOW, a_job_set, meta

ENDED = Condition("Completed", "True", "AllJobsCompleted", "jobset completed successfully", NOW)
COMPLETE = api.TrainJobStatus((Condition("Complete", "True", "AllJobsCompleted"),))
OVERDUE = api.TrainJobStatus((Condition("Failed", "True", "DeadlineExceeded"),))


def conditions(decision):
    return [(c.type, c.status, c.reason) for c in decision.status.conditions]


# Building


def test_a_new_job_gets_its_snapshot_and_its_jobset(fresh):
    decision = fresh.decide()

    assert decision.snapshot.name == "rt"
    (apply,) = decision.applies
    assert (apply.identity, apply.exists) == ("JobSet/job", False)
    assert decision.failure is None
    assert decision.status == api.TrainJobStatus(state="Pending")


def test_a_job_of_another_controller_gets_not_one_write(fresh):
    assert fresh.but(spec={"managedBy": "kueue.x-k8s.io/multikueue"}).decide() == Decision()


def test_a_running_jobset_is_left_alone(settled):
    decision = settled.but(job_set=a_job_set()).decide()

    assert (decision.check, decision.snapshot, decision.applies) == (Check.NONE, None, ())


@pytest.mark.parametrize(("suspend", "jobset_suspended"), [(True, False), (True, True), (False, True)])
def test_a_suspended_jobset_is_written_when_it_differs(settled, suspend, jobset_suspended):
    situation = settled.but(suspend=suspend, job_set=a_job_set(suspend=jobset_suspended), checked=Check.COMPONENTS)
    (apply,) = situation.decide().applies
    written = {"jobsets.jobset.x-k8s.io/job": Applied(apply.digest, 1)}

    assert apply.exists
    assert apply.component.body["spec"]["suspend"] is suspend
    assert situation.but(memory=replace(situation.memory, applied=written)).decide().applies == ()


def test_after_a_restart_a_suspended_jobset_is_compared_before_it_is_written(settled):
    decision = settled.but(suspend=True, job_set=a_job_set(suspend=True)).decide()

    assert decision.check is Check.COMPONENTS
    assert [apply.identity for apply in decision.built] == ["JobSet/job"]


def test_a_suspended_jobset_that_somebody_else_changed_is_compared_again(settled):
    situation = settled.but(suspend=True, job_set=a_job_set(suspend=True), checked=Check.COMPONENTS)
    (apply,) = situation.decide().applies
    memory = replace(situation.memory, applied={"jobsets.jobset.x-k8s.io/job": Applied(apply.digest, generation=1)})
    changed = a_job_set(suspend=True, generation=2)

    assert situation.but(memory=memory, job_set=changed, checked=Check.NONE).decide().check is Check.COMPONENTS


def test_a_child_that_vanished_is_made_again_only_if_the_job_is_really_there(settled):
    assert settled.decide().check is Check.JOB
    assert len(settled.but(checked=Check.JOB).decide().applies) == 1


def test_nothing_is_built_over_a_jobset_on_its_way_out_or_for_a_job_on_its_way_out(settled):
    assert settled.but(suspend=True, job_set=a_job_set(deletion_timestamp=NOW)).decide().applies == ()
    assert settled.but(deleting=True).decide().applies == ()


def test_a_jobset_of_somebody_else_is_left_alone_and_named(settled):
    for owner, words in (("old-uid", "still belongs to a deleted TrainJob"), (None, "has no controller")):
        decision = settled.but(suspend=True, job_set=a_job_set(owner=owner)).decide()

        assert decision.applies == ()
        assert decision.failure.reason == "NameTaken"
        assert words in decision.failure.message


def test_the_end_of_a_foreign_jobset_is_not_the_jobs(settled):
    decision = settled.but(job_set=a_job_set(owner="old-uid", conditions=(ENDED,))).decide()

    assert decision.status == api.TrainJobStatus(state="Pending")


def test_what_the_webhook_would_refuse_is_refused_here_too(fresh):
    decision = fresh.but(spec={"runtimePatches": [{"manager": "foo"}]}).decide()

    assert decision.applies == ()
    assert "must be a domain-prefixed path" in decision.failure.message


def test_a_jobset_that_cannot_be_stored_is_refused_with_what_to_do(fresh):
    decision = fresh.but(spec={"trainer": {"args": ["x" * 1000] * 1600}}).decide()

    assert decision.applies == ()
    assert decision.failure.message.startswith("JobSet/job would have 16")
    assert "at most 1572864 can be stored; move what is long" in decision.failure.message


def test_a_thousand_nodes_are_no_larger_than_two(fresh):
    def size(nodes):
        (apply,) = fresh.but(spec={"trainer": {"numNodes": nodes}}).decide().applies
        return len(msgspec.json.encode(apply.component.body))

    assert size(1000) - size(2) == 6


# Snapshots


def test_a_missing_runtime_is_a_failure_in_gos_words(fresh):
    decision = fresh.but(runtime=None).decide()

    assert decision.failure.message == (
        'TrainingRuntime specified in TrainJob is not found: TrainingRuntime.trainer.kubeflow.org "rt" not found'
    )
    assert (decision.snapshot, decision.applies) == (None, ())


def test_a_snapshot_counts_and_the_live_runtime_does_not(settled):
    decision = settled.but(runtime=None, checked=Check.JOB).decide()

    assert decision.failure is None
    assert len(decision.applies) == 1


def test_a_snapshot_of_somebody_else_is_refused_in_gos_words(fresh):
    foreign = Object(metadata=meta("job-runtime-snapshot", "other"))
    decision = fresh.but(snapshot=foreign).decide()

    assert decision.failure.message == (
        "unable to get runtime snapshot: invalid runtime snapshot: "
        "a snapshot configmap exists but is owned by another object"
    )


def test_a_snapshot_is_read_when_it_is_not_remembered_or_has_changed(settled):
    changed = Object(metadata=meta("job-runtime-snapshot", resource_version="10"))
    situation = settled.but(suspend=True, job_set=a_job_set(suspend=True), checked=Check.COMPONENTS)

    assert situation.but(memory=Memory()).decide().check is Check.SNAPSHOT
    assert situation.but(snapshot=changed).decide().check is Check.SNAPSHOT
    assert situation.decide().check is Check.NONE


def test_an_unreadable_snapshot_says_so(settled):
    memory = replace(settled.memory, snapshot=PlanError("invalid runtime snapshot: it is empty"))
    decision = settled.but(memory=memory, checked=Check.JOB).decide()

    assert decision.failure.message == "unable to get runtime snapshot: invalid runtime snapshot: it is empty"


def test_a_snapshot_of_another_runtime_is_refused(settled):
    situation = settled.but(spec={"runtimeRef": {"name": "other", "kind": "TrainingRuntime"}}, checked=Check.JOB)

    assert 'but found runtime with name, api group and kind of "rt",' in situation.decide().failure.message


def test_a_vanished_snapshot_of_a_running_job_is_taken_again_and_nothing_else_is_written(settled):
    decision = settled.but(snapshot=None, job_set=a_job_set(), checked=Check.JOB).decide()

    assert decision.snapshot is not None
    assert decision.applies == ()


def test_a_running_job_needs_its_runtime_no_more(settled):
    decision = settled.but(snapshot=None, runtime=None, job_set=a_job_set(), checked=Check.JOB).decide()

    assert (decision.snapshot, decision.failure) == (None, None)


# Status


def test_counters_follow_the_jobset_and_stay_when_it_is_gone(settled):
    running = settled.but(job_set=a_job_set()).decide().status
    gone = settled.but(status=running, checked=Check.JOB).decide().status

    assert running.jobs_status == (api.JobStatus("node", active=1),)
    assert gone.jobs_status == running.jobs_status


def test_a_job_that_was_never_suspended_has_no_conditions(settled):
    assert conditions(settled.but(job_set=a_job_set()).decide()) == []


def test_suspension_and_resumption_are_one_condition(settled):
    suspended = settled.but(suspend=True, job_set=a_job_set()).decide()
    resumed = settled.but(status=api.TrainJobStatus((Condition("Suspended", "True", "Suspended"),)))

    assert suspended.check is Check.COMPONENTS
    decision = settled.but(suspend=True, job_set=a_job_set(), checked=Check.COMPONENTS).decide()
    assert conditions(decision) == [("Suspended", "True", "Suspended")]
    assert conditions(resumed.but(job_set=a_job_set()).decide()) == [("Suspended", "False", "Resumed")]


def test_the_end_comes_with_the_jobsets_reason_and_time(settled):
    (condition,) = settled.but(job_set=a_job_set(conditions=(ENDED,))).decide().status.conditions

    assert condition == Condition("Complete", "True", "AllJobsCompleted", "jobset completed successfully", NOW)


def test_the_end_is_final(settled):
    failed = Condition("Failed", "True", "FailedJobs", "", NOW)
    situation = settled.but(suspend=True, status=COMPLETE, job_set=a_job_set(conditions=(failed,)))

    assert situation.decide().status.conditions == COMPLETE.conditions
    assert situation.but(job_set=None).decide().applies == ()


def test_an_unsupported_runtime_fails_for_good(fresh):
    decision = fresh.but(spec={"runtimeRef": {"name": "x", "kind": "FancyRuntime"}}).decide()

    assert conditions(decision) == [("Failed", "True", "TrainingRuntimeNotSupported")]
    assert decision.status.conditions[0].message == "unsupported runtime: FancyRuntime.trainer.kubeflow.org"
    assert (decision.snapshot, decision.applies) == (None, ())


# Deadline

HOUR = 3600


def test_before_the_deadline_the_job_is_looked_at_again_in_time(settled):
    decision = settled.but(spec={"activeDeadlineSeconds": HOUR + 10}, job_set=a_job_set()).decide()

    assert (conditions(decision), decision.requeue_after_s) == ([], 10)


def test_past_the_deadline_the_job_fails_and_its_jobset_goes(settled):
    decision = settled.but(spec={"activeDeadlineSeconds": HOUR}, job_set=a_job_set()).decide()

    assert conditions(decision) == [("Failed", "True", "DeadlineExceeded")]
    assert [removal.uid for removal in decision.removals] == ["js-uid"]
    assert decision.requeue_after_s is None


def test_the_jobset_of_an_overdue_job_goes_until_it_is_gone(settled):
    situation = settled.but(spec={"activeDeadlineSeconds": HOUR}, status=OVERDUE, job_set=a_job_set())

    assert situation.decide().removals
    assert situation.but(memory=replace(settled.memory, deleted=frozenset({"js-uid"}))).decide().removals == ()
    assert situation.but(job_set=a_job_set(deletion_timestamp=NOW)).decide().removals == ()
    assert situation.but(job_set=a_job_set(owner="other")).decide().removals == ()
    assert situation.but(job_set=None).decide().applies == ()


def test_an_overdue_job_whose_jobset_has_ended_keeps_that_end(settled):
    decision = settled.but(spec={"activeDeadlineSeconds": 1}, job_set=a_job_set(conditions=(ENDED,))).decide()

    assert conditions(decision) == [("Complete", "True", "AllJobsCompleted")]
    assert decision.removals == ()


def test_the_deadlines_clock_stands_while_suspended_and_starts_anew_on_resumption(settled):
    deadline = {"activeDeadlineSeconds": 60}
    suspended = settled.but(suspend=True, spec=deadline, job_set=a_job_set(suspend=True), checked=Check.COMPONENTS)
    resumed = Condition("Suspended", "False", "Resumed", "TrainJob is resumed", NOW - timedelta(seconds=20))
    running = settled.but(spec=deadline, status=api.TrainJobStatus((resumed,)), job_set=a_job_set())

    assert suspended.decide().requeue_after_s is None
    assert running.decide().requeue_after_s == 40
