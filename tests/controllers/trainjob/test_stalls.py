"""What the API server refuses behind a JobSet, its Jobs, Service, claims and pods, is told on the TrainJob."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from ktrain.api import core
from ktrain.api import trainer as api
from ktrain.api.meta import Resource
from ktrain.controllers.trainjob.observe import Stall
from ktrain.controllers.trainjob.stalls import RARELY, heard
from ktrain.plugins.jobset import JobSetState
from ktrain.testing.time import simulate

from .conftest import NOW, RUNTIME
from .elastic_world import OFF, ElasticWorld
from .world import NS, own_seed

QUOTAS = Resource("", "v1", "ResourceQuota", "resourcequotas", namespaced=True, type=dict)
PLAIN = {"numNodes": 2}
CLAIMED = {
    "volumeClaimPolicies": [
        {
            "templates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }
            ],
            "retentionPolicy": {"whenDeleted": "Delete"},
        }
    ]
}
REFUSED = [
    ("count/jobs.batch", "JobCreationFailed", 'JobSet job: job "job-node-0" creation failed with error: '),
    ("count/services", "HeadlessServiceCreationFailed", 'JobSet job: service "job" creation failed with error: '),
    ("count/persistentvolumeclaims", "PVCCreationFailed", 'JobSet job: pvc "data-job" creation failed with error: '),
    ("count/pods", "FailedCreate", "Job job-node-0: Error creating: "),
]


class StallWorld(ElasticWorld):
    """A world in which quotas allow nothing of some kind."""

    async def stingy_runtime(self, *others: dict, **spec) -> None:
        """`others`: replicated jobs before the nodes; `spec`: more of the JobSet's."""
        (node,) = RUNTIME["spec"]["template"]["spec"]["replicatedJobs"]
        containers = node["template"]["spec"]["template"]["spec"]["containers"]
        if spec:
            containers = [
                container | {"volumeMounts": [{"name": "data", "mountPath": "/data"}]} for container in containers
            ]
        job = {"spec": {"template": {"spec": {"containers": containers}}}}
        depends = {"dependsOn": [{"name": others[0]["name"], "status": "Complete"}]} if others else {}
        nodes = node | depends | {"template": node["template"] | job}
        runtime = RUNTIME | {
            "metadata": {"name": "rt", "namespace": NS},
            "spec": {"mlPolicy": PLAIN, "template": {"spec": {"replicatedJobs": [*others, nodes], **spec}}},
        }
        await self.user.apply(core.untyped(api.TRAINING_RUNTIMES), runtime)

    async def allow(self, what: str, number: int) -> None:
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": NS}}
        await self.user.apply(QUOTAS, quota | {"spec": {"hard": {what: str(number)}}})
        await self.settle()

    async def told(self) -> api.Diagnosis | None:
        return (await self.read()).status.diagnosis


@asynccontextmanager
async def refusing(world: StallWorld, what: str, *others: dict):
    """The operator at work in a namespace that may have nothing of *what*."""
    await world.stingy_runtime(*others, **(CLAIMED if "claims" in what else {}))
    await world.allow(what, 0)
    async with world.operator():
        yield


def run(scenario) -> None:
    async def whole(env) -> None:
        world = StallWorld(env, OFF)
        async with world.server.running(), world.cluster():
            await scenario(world)

    simulate(whole, seed=own_seed())


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
    first = {
        "name": "first",
        "template": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}},
    }

    async def scenario(world: StallWorld) -> None:
        await world.stingy_runtime(first)
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


def test_however_often_it_was_looked_the_next_look_is_half_an_hour_away():
    stalled = Stall("1", NOW, NOW, looks=5000)

    assert heard(stalled, JobSetState(), (), NOW).due == NOW + RARELY


def test_jobs_that_stand_still_together_share_what_is_read():
    async def scenario(world: StallWorld) -> None:
        async with refusing(world, "count/jobs.batch"):
            for number in range(20):
                await world.user.create(api.TRAIN_JOBS, world.body(f"job-{number}"))
            await world.settle(8)

            told = [job.status.diagnosis for job in (await world.user.list(api.TRAIN_JOBS, NS)).items]
            assert [one.reason for one in told] == ["JobCreationFailed"] * 20
            assert len(world.counting.looks) == 2

    run(scenario)


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


def test_a_new_operator_goes_on_telling_without_a_gap():
    async def scenario(world: StallWorld) -> None:
        async with refusing(world, "count/jobs.batch"):
            await world.job()
            await world.settle(60)
        before = await world.told()
        async with world.operator():
            await world.settle(1)
            after = await world.told()

        assert (after.reason, after.message) == (before.reason, before.message)
        assert world.counting.writes.count("PATCH trainjobs/job/status") <= 1

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
