"""The TrainJob controller in a world of its own: the embedded API server, the other controllers, virtual time."""

from __future__ import annotations

import anyio
import pytest
import structlog

from ktrain.api import core, jobset
from ktrain.api import trainer as api
from ktrain.api.meta import Key

from .conftest import RUNTIME
from .world import KEY, NS, World, play

SNAPSHOT = "job-runtime-snapshot"


def test_a_whole_life_costs_four_writes_and_no_read():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job()
            for ready in range(3):
                await world.progress(active=1, ready=ready)
            await world.settle()
            await world.progress("Completed", succeeded=1)
            await world.settle(60)

            assert world.counting.writes == [
                "POST configmaps",
                "PATCH jobsets/job",
                "PATCH trainjobs/job/status",
                "PATCH trainjobs/job/status",
            ]
            assert world.counting.reads == []
        job = await world.read()
        assert [(c.type, c.reason, c.message) for c in job.status.conditions] == [("Complete", "Because", "it is so")]
        assert job.status.jobs_status == (api.JobStatus("node", succeeded=1),)

    play(scenario)


class Passes:
    """A plugin that counts passes: each asks for counters once."""

    name = "Passes"
    before = ("JobSet",)
    count = 0

    def jobs_status(self, _job, _ctx):
        self.count += 1


def test_a_pass_is_caused_by_what_others_do_and_not_by_our_own_writes():
    async def scenario(world: World) -> None:
        passes = Passes()
        world.plugins += (passes,)
        async with world.operator():
            await world.job()
            assert (passes.count, len(world.counting.writes)) == (1, 2)
            await world.progress(active=1)
            await world.settle()
            assert (passes.count, len(world.counting.writes)) == (3, 3), "the change, and when its write is due"
            await world.progress("Completed", succeeded=1)
            await world.settle()
            assert (passes.count, len(world.counting.writes)) == (4, 4)

    play(scenario)


def test_a_status_that_somebody_else_changes_is_put_right():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job()
            await world.progress(active=1)
            await world.settle()
            forged = {"name": "node", "active": 0, "ready": 0, "succeeded": 7, "failed": 0, "suspended": 0}
            await world.patch(api.TRAIN_JOBS, subresource="status", status={"jobsStatus": [forged]})
            await world.settle()

            assert (await world.read()).status.jobs_status == (api.JobStatus("node", active=1),)

    play(scenario)


@pytest.mark.parametrize("workers", [1, 5])
def test_as_many_passes_run_at_a_time_as_are_configured(workers):
    async def scenario(world: World) -> None:
        async with world.operator(workers=workers):
            world.counting.latch = anyio.Event()
            for number in range(8):
                await world.job(name=f"job-{number}", suspend=True)
            await world.settle()

            assert world.counting.waiting == workers
            world.counting.latch.set()
            await world.settle()
            assert world.counting.waiting == 0

    play(scenario)


def test_what_pods_reported_stays_in_the_status():
    async def scenario(world: World) -> None:
        reported = {"progressPercentage": 40, "lastUpdatedTime": "2030-01-01T00:00:00Z"}
        async with world.operator():
            await world.job()
            await world.patch(api.TRAIN_JOBS, subresource="status", status={"trainerStatus": reported})
            await world.progress(active=1)
            await world.settle()
            await world.progress("Completed", succeeded=1)
            await world.settle()

            status = (await world.user.get(core.untyped(api.TRAIN_JOBS), "job", NS))["status"]
            assert status["trainerStatus"] == reported
            assert [each["succeeded"] for each in status["jobsStatus"]] == [1]
            assert status["conditions"][0]["type"] == "Complete"

    play(scenario)


def test_a_restart_over_a_settled_world_writes_nothing():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(suspend=True)
        async with world.operator():
            await world.settle(60)

            assert world.counting.writes == []

    play(scenario)


def test_suspending_and_resuming_write_the_jobset_once_each():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job()
            world.counting.calls.clear()
            await world.patch(api.TRAIN_JOBS, spec={"suspend": True})
            suspended = await world.job_set()
            await world.patch(api.TRAIN_JOBS, metadata={"labels": {"a": "b"}})
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})

            assert suspended.spec.suspend
            assert not (await world.job_set()).spec.suspend
            assert world.counting.writes.count("PATCH jobsets/job") == 2
            assert world.counting.reads == []

    play(scenario)


@pytest.mark.parametrize(("end", "condition"), [("Completed", "Complete"), ("Failed", "Failed")])
def test_finished_work_is_never_done_again(end, condition):
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job()
            await world.progress(end, succeeded=1)
            await world.settle()
            await world.user.delete(jobset.JOBSETS, KEY)
            for number in range(10):
                await world.patch(api.TRAIN_JOBS, metadata={"labels": {"look": str(number)}})
            assert await world.job_set() is None
        async with world.operator():
            await world.settle(3600)

            assert world.counting.writes == []
            assert [c.type for c in (await world.read()).status.conditions] == [condition]
            assert await world.job_set() is None

    play(scenario)


@pytest.mark.parametrize(("end", "condition"), [("Completed", "Complete"), ("Failed", "Failed")])
def test_an_end_counts_also_if_the_jobset_is_deleted_before_anybody_looks(end, condition):
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job()
            world.counting.latch = anyio.Event()
            await world.progress(active=1)
            await world.settle(2)
            await world.progress(end, succeeded=1)
            await world.user.delete(jobset.JOBSETS, KEY)
            await world.settle(2)
            world.counting.latch.set()
            await world.settle(60)

            status = (await world.read()).status
            assert [(c.type, c.reason) for c in status.conditions] == [(condition, "Because")]
            assert status.jobs_status == (api.JobStatus("node", succeeded=1),)
            assert await world.job_set() is None

    play(scenario)


def test_a_kind_of_runtime_that_nobody_knows_fails_the_job_in_one_write():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(runtimeRef={"name": "rt", "kind": "Fancy", "apiGroup": "me.io"})
            await world.settle(3600)

            assert world.counting.writes == ["PATCH trainjobs/job/status"]
            (condition,) = (await world.read()).status.conditions
            assert (condition.type, condition.reason) == ("Failed", "TrainingRuntimeNotSupported")

    play(scenario)


def test_a_running_jobset_that_somebody_edits_is_left_alone():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job()
            world.counting.calls.clear()
            await world.patch(jobset.JOBSETS, metadata={"labels": {"a": "b"}}, spec={"ttlSecondsAfterFinished": 5})
            await world.settle(60)

            assert world.counting.writes == []

    play(scenario)


def test_a_missing_runtime_is_explained_within_five_seconds_and_waited_for():
    async def scenario(world: World) -> None:
        await world.user.delete(api.TRAINING_RUNTIMES, Key(NS, "rt"))
        async with world.operator():
            with structlog.testing.capture_logs() as lines:
                await world.job()
                early = await world.read()
                await world.settle(3)
                late = await world.read()
                await world.settle(600)
            said = [one["event"] for one in lines if one["log_level"] != "debug"]
            assert said == ["reconcile.blocked"], "nothing has failed, and once is enough"
            assert len([one for one in lines if one["event"] == "reconcile.started"]) <= 3
            await world.runtime()
            await world.settle(1)

            assert early.status == api.TrainJobStatus()
            assert late.status.diagnosis.reason == "RuntimeUnusable"
            assert "is not found" in late.status.diagnosis.message
            assert await world.job_set() is not None
            await world.progress(active=1)
            await world.settle(2)
            assert (await world.read()).status.diagnosis is None
        events = await world.user.list(core.untyped(core.EVENTS), NS)
        (event,) = events.items
        assert (event["reason"], event["action"]) == ("TrainJobResourcesCreationFailed", "Reconciling")

    play(scenario)


def test_a_hopeless_job_does_not_spin():
    async def scenario(world: World) -> None:
        await world.user.delete(api.TRAINING_RUNTIMES, Key(NS, "rt"))
        async with world.operator():
            await world.job()
            await world.settle(3600)

            assert world.counting.writes == ["PATCH trainjobs/job/status"]

    play(scenario)


def test_a_foreign_jobset_is_not_touched_and_its_end_is_not_believed():
    async def scenario(world: World) -> None:
        body = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "job", "namespace": NS},
            "spec": {"replicatedJobs": RUNTIME["spec"]["template"]["spec"]["replicatedJobs"]},
        }
        async with world.operator():
            before = await world.user.create(core.untyped(jobset.JOBSETS), body)
            await world.progress("Completed", succeeded=1)
            await world.job()
            await world.settle(5)
            after = await world.user.get(core.untyped(jobset.JOBSETS), "job", NS)

            assert after["spec"] == before["spec"]
            assert "ownerReferences" not in after["metadata"]
            status = (await world.read()).status
            assert (status.conditions, status.diagnosis.reason) == ((), "NameTaken")

    play(scenario)


def test_a_foreign_snapshot_is_not_overwritten():
    async def scenario(world: World) -> None:
        metadata = {"name": SNAPSHOT, "namespace": NS}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"runtime": "mine"}}
        async with world.operator():
            await world.user.create(core.CONFIG_MAPS, body)
            await world.job()
            await world.settle(5)

            assert (await world.user.get(core.CONFIG_MAPS, SNAPSHOT, NS)).data == {"runtime": "mine"}
            assert await world.job_set() is None
            assert "owned by another object" in (await world.read()).status.diagnosis.message

    play(scenario)


def test_runtimes_change_under_a_job_without_effect_until_its_snapshot_is_deleted():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(suspend=True)
            labels = {"template": {"metadata": {"labels": {"v": "2"}}}}
            await world.patch(api.TRAINING_RUNTIMES, "rt", spec=labels)
            await world.patch(api.TRAIN_JOBS, metadata={"labels": {"a": "b"}})
            unchanged = await world.job_set()
            await world.user.delete(core.CONFIG_MAPS, Key(NS, SNAPSHOT))
            await world.settle()

            assert unchanged.metadata.labels == {}
            assert (await world.job_set()).metadata.labels == {"v": "2"}

    play(scenario)


def test_a_snapshot_survives_a_restart_and_the_end_of_its_runtime():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(suspend=True)
        await world.user.delete(api.TRAINING_RUNTIMES, Key(NS, "rt"))
        async with world.operator():
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})

            assert not (await world.job_set()).spec.suspend

    play(scenario)


def test_a_deadline_fails_the_job_first_and_then_deletes_its_jobset():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(activeDeadlineSeconds=30)
            assert await world.job_set() is not None
            world.counting.calls.clear()
            await world.settle(120)

            assert world.counting.writes == ["PATCH trainjobs/job/status", "DELETE jobsets/job"]
            assert await world.job_set() is None
            assert (await world.read()).status.conditions[0].reason == "DeadlineExceeded"

    play(scenario)


def test_a_deleted_jobset_comes_back_and_a_deleted_jobs_does_not():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job()
            first = await world.job_set()
            await world.user.delete(jobset.JOBSETS, KEY)
            await world.settle()
            second = await world.job_set()
            await world.user.delete(api.TRAIN_JOBS, KEY)
            await world.settle(60)

            assert second.metadata.uid != first.metadata.uid
            assert await world.job_set() is None

    play(scenario)
