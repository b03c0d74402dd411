"""What the API server refuses behind a JobSet, its Jobs, Service, claims and pods, is told on the TrainJob."""

from __future__ import annotations

import msgspec
import pytest

from ktrain.api import jobset
from ktrain.api import trainer as api
from ktrain.controllers.trainjob.observe import Stall
from ktrain.controllers.trainjob.stalls import LATER, RARELY, SOON, heard, patience
from ktrain.plugins.jobset import JobSetState

from .conftest import NOW
from .stall_world import StallWorld, refusing, run
from .world import KEY

REFUSED = [
    ("count/jobs.batch", "JobCreationFailed", 'JobSet job: job "job-node-0" creation failed with error: '),
    ("count/services", "HeadlessServiceCreationFailed", 'JobSet job: service "job" creation failed with error: '),
    ("count/persistentvolumeclaims", "PVCCreationFailed", 'JobSet job: pvc "data-job" creation failed with error: '),
    ("count/pods", "FailedCreate", "Job job-node-0: Error creating: "),
]
FIRST = {
    "name": "first",
    "template": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}},
}


@pytest.mark.parametrize(("what", "reason", "words"), REFUSED)
def test_what_is_refused_behind_the_job_set_is_told_until_it_is_allowed(what, reason, words):
    async def scenario(world: StallWorld) -> None:
        async with refusing(world, what):
            await world.job()
            await world.settle(7)
            told = await world.told()
            assert told.reason == reason
            assert told.message.startswith(words)
            assert "exceeded quota: few" in told.message
            assert told.message in await world.events(reason)
            assert (await world.read()).status.conditions == ()

            await world.allow(what, 9)
            await world.settle(2000)  # the JobSet's and the Job's controllers have waits of their own
            assert await world.told() is None
            assert len(await world.pods()) == 2

    run(scenario)


def test_a_step_that_is_refused_while_others_have_ended_is_told_too():
    async def scenario(world: StallWorld) -> None:
        await world.stingy_runtime(FIRST)
        async with world.operator():
            await world.job()
            await world.settle(5)
            await world.allow("count/jobs.batch", 1)
            await world.end(0, "Succeeded")
            await world.settle(60)
            told = await world.told()

            assert told.reason == "JobCreationFailed"
            assert told.message.startswith('JobSet job: job "job-node-0" creation failed')

    run(scenario)


@pytest.mark.parametrize("hours", [1, 6])
def test_while_it_lasts_events_are_read_ever_more_rarely_and_the_status_is_written_once(hours):
    async def scenario(world: StallWorld) -> None:
        async with refusing(world, "count/jobs.batch"):
            await world.job()
            await world.settle(hours * 3600)

            looks = len(world.counting.looks)
            assert 9 <= looks // 2 <= 9 + 2 * hours
            assert world.counting.writes.count("PATCH trainjobs/job/status") == 1
            assert world.counting.writes.count("PATCH jobsets/job") == 1
            assert world.counting.reads == []

    run(scenario)


@pytest.mark.parametrize("what", ["count/jobs.batch", "count/pods"])
def test_what_differs_in_the_name_of_a_pod_or_in_the_jobset_s_metadata_is_not_told_anew(what):
    async def scenario(world: StallWorld) -> None:
        async with refusing(world, what):
            await world.job()
            await world.settle(30)
            written = len(world.counting.writes)
            for number in range(20):
                await world.user.patch(jobset.JOBSETS, KEY, {"metadata": {"annotations": {"beat": str(number)}}})
                await world.settle(600)

            assert len(world.counting.writes) == written
            assert "combined" not in (await world.told()).message

    run(scenario)


def test_a_jobset_whose_metadata_moves_all_the_time_is_told_about():
    async def scenario(world: StallWorld) -> None:
        async with refusing(world, "count/jobs.batch"):
            await world.job()
            for number in range(4):
                await world.settle(2)
                await world.user.patch(jobset.JOBSETS, KEY, {"metadata": {"annotations": {"beat": str(number)}}})

            assert (await world.told()).reason == "JobCreationFailed"

    run(scenario)


def test_what_was_said_of_an_earlier_job_of_the_name_is_not_told():
    async def scenario(world: StallWorld) -> None:
        async with world.cluster(), refusing(world, "count/pods"):
            await world.job()
            await world.settle(20)
            assert (await world.told()).reason == "FailedCreate"
            await world.user.delete(api.TRAIN_JOBS, KEY)
            await world.settle(60)
        assert await world.job_set() is None
        world.counting.looks.clear()
        async with world.operator():  # alone: nobody makes Jobs
            await world.job()
            await world.settle(20)

            assert world.counting.looks
            assert await world.told() is None

    run(scenario, alone=True)


STEPS = {"first": (2, []), "then": (2, [("first", "Ready")]), "last": (1, [("first", "Complete")])}
PATIENCE = [
    ({}, SOON),
    ({"first": {"active": 2}}, LATER),
    ({"first": {"active": 2, "ready": 1}}, LATER),
    ({"first": {"active": 2, "ready": 2}}, LATER),
    ({"first": {"active": 2, "ready": 2}, "then": {"active": 2, "ready": 1}}, LATER),
    ({"first": {"active": 2, "ready": 2}, "then": {"active": 2, "ready": 2}}, None),
    ({"first": {"active": 1, "ready": 1, "succeeded": 1}, "then": {"active": 2, "ready": 2}}, None),
    ({"first": {"succeeded": 2}, "then": {"active": 2, "ready": 2}}, LATER),
    ({"first": {"succeeded": 2}, "then": {"succeeded": 2}}, SOON),
    ({"first": {"succeeded": 2}, "then": {"active": 2, "ready": 1}, "last": {"active": 1, "ready": 1}}, LATER),
    ({"first": {"succeeded": 2}, "then": {"succeeded": 2}, "last": {"active": 1, "ready": 1}}, None),
]


@pytest.mark.parametrize(("counters", "expected"), PATIENCE)
def test_all_jobs_of_steps_that_need_not_wait_for_others_are_to_be_ready(counters, expected):
    steps = [
        {
            "name": name,
            "replicas": replicas,
            "dependsOn": [{"name": other, "status": status} for other, status in needs],
        }
        for name, (replicas, needs) in STEPS.items()
    ]
    status = {"replicatedJobsStatus": [{"name": name} | counters.get(name, {}) for name in STEPS]}
    job_set = msgspec.convert({"spec": {"replicatedJobs": steps}, "status": status}, JobSetState)

    assert patience(job_set) == expected


def test_of_a_job_whose_next_step_waits_for_one_that_runs_no_event_is_read():
    async def scenario(world: StallWorld) -> None:
        await world.stingy_runtime(FIRST)
        async with world.operator():
            await world.job()
            await world.settle(5)
            await world.make_ready()
            await world.settle(3 * 3600)

            assert world.counting.looks == []

    run(scenario)


def test_however_often_it_was_looked_the_next_look_is_half_an_hour_away():
    stalled = Stall(None, NOW, NOW, looks=5000)

    assert heard(stalled, JobSetState(), (), NOW).due == NOW + RARELY


def test_of_a_job_that_gets_on_no_event_is_read():
    async def scenario(world: StallWorld) -> None:
        await world.stingy_runtime()
        async with world.operator():
            await world.job()
            await world.settle(3)
            await world.make_ready()
            await world.settle(3600)
            await world.end(0, "Succeeded")
            await world.end(1, "Succeeded")
            await world.settle(3600)

            assert [c.type for c in (await world.read()).status.conditions] == ["Complete"]
            assert world.counting.looks == []

    run(scenario)


@pytest.mark.parametrize("what", ["count/jobs.batch", "count/pods"])
def test_a_new_operator_goes_on_telling_without_a_gap(what):
    async def scenario(world: StallWorld) -> None:
        async with refusing(world, what):
            await world.job()
            await world.settle(60)
        before = await world.told()
        async with world.operator():
            for wait_s in (1, 10, 100, 1000):
                await world.settle(wait_s)
                assert await world.told() == before
            assert "PATCH trainjobs/job/status" not in world.counting.writes
            await world.allow(what, 9)
            await world.settle(2000)
            assert await world.told() is None

    run(scenario)


def test_an_operator_that_may_not_read_events_works_as_if_there_were_none():
    async def scenario(world: StallWorld) -> None:
        world.counting.refused = ("/events",)
        async with refusing(world, "count/jobs.batch"):
            await world.job()
            await world.settle(600)
            assert await world.told() is None

            await world.allow("count/jobs.batch", 1)
            await world.settle(600)
            assert len(await world.pods()) == 2

    run(scenario)
