"""Whoever suspends a job wants its pods to go, and that needs nothing but its JobSet."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from ktrain.api import core, jobset
from ktrain.api import trainer as api
from ktrain.api.meta import Key
from ktrain.framework.errors import LeadershipLost
from ktrain.pipeline.errors import PlanError

from .conftest import NOW, a_job_set
from .failing import Failing
from .test_after_job_set import Board
from .test_decide import COMPLETE, ENDED
from .test_own_snapshots import SNAPSHOT, weather
from .world import NS, World, play

STOPPED = "PATCH jobsets/job"


@asynccontextmanager
async def running(world: World, *, restarted: bool):
    """A job that runs, and the operator that began it or, `restarted`, another."""
    async with world.operator():
        await world.job()
        await world.progress(active=1)
        await world.settle()
        if not restarted:
            yield
    if restarted:
        async with world.operator():
            await world.settle()
            yield


async def lose_snapshot_and_runtime(world: World) -> None:
    await world.user.delete(api.TRAINING_RUNTIMES, Key(NS, "rt"))
    await world.user.delete(core.CONFIG_MAPS, Key(NS, SNAPSHOT))
    await world.settle()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_job_without_snapshot_and_runtime_is_suspended_and_resumed_when_it_has_one_again(restarted):
    async def scenario(world: World) -> None:
        async with running(world, restarted=restarted):
            before = await world.job_set()
            await lose_snapshot_and_runtime(world)
            world.counting.calls.clear()
            await world.patch(api.TRAIN_JOBS, spec={"suspend": True})
            await world.settle(30)
            stopped, told = await world.job_set(), (await world.read()).status.diagnosis
            assert world.counting.writes.count(STOPPED) == 1
            await world.runtime()
            await world.settle(60)
            await world.patch(api.TRAIN_JOBS, spec={"suspend": None})
            await world.settle(60)

        assert (stopped.spec.suspend, stopped.metadata.uid) == (True, before.metadata.uid)
        assert stopped.spec.replicated_jobs == before.spec.replicated_jobs
        assert told.reason == "RuntimeUnusable"
        after = await world.job_set()
        assert (after.spec, after.metadata.uid) == (before.spec, before.metadata.uid)
        assert (await world.read()).status.diagnosis is None

    play(scenario)


def test_a_snapshot_that_cannot_be_read_keeps_no_job_from_being_suspended():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job()
        world.counting.refused = (SNAPSHOT,)
        async with world.operator():
            await world.patch(api.TRAIN_JOBS, spec={"suspend": True})
            await world.settle(5)
            assert (await world.job_set()).spec.suspend
            assert (await world.read()).status.diagnosis.reason == "Refused"

    play(scenario)


def test_what_is_refused_of_a_jobset_keeps_it_from_running_no_longer():
    async def scenario(world: World) -> None:
        faults = weather(world)
        async with running(world, restarted=False):
            changed = faults.on("apply", jobset.JOBSETS, where=lambda call: b"new-label" in call.body)
            refusal = changed.answer(422, reason="Invalid", message="spec.replicatedJobs: field is immutable")
            template = {"metadata": {"labels": {"new-label": "a"}}}
            patch = {"manager": "me.io/x", "trainingRuntimeSpec": {"template": template}}
            await world.patch(api.TRAIN_JOBS, spec={"suspend": True, "runtimePatches": [patch]})
            await world.settle(5)
            assert refusal.hits
            assert (await world.job_set()).spec.suspend
            assert "field is immutable" in (await world.read()).status.diagnosis.message

    play(scenario)


FAILURES = [
    ("build", PlanError("it is broken"), "BuildFailed"),
    *(
        (point, RuntimeError("it is broken"), "PluginFailed")
        for point in ("build", "size", "jobs_status", "terminal_condition", "removals")
    ),
]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("point", "error", "reason"), FAILURES)
def test_a_plugin_that_fails_at_any_point_keeps_no_job_from_being_suspended(point, error, reason, restarted):
    async def scenario(world: World) -> None:
        plugin = Failing(point, error)
        world.plugins += (plugin,)
        async with running(world, restarted=restarted):
            plugin.fails = True
            await world.patch(api.TRAIN_JOBS, spec={"suspend": True})
            await world.settle(30)
            assert (await world.job_set()).spec.suspend
            diagnosis = (await world.read()).status.diagnosis
            assert (diagnosis.reason, "it is broken" in diagnosis.message) == (reason, True)

    play(scenario)


class Earlier(Board):
    """Its Service comes before the JobSet, and differs if the job is suspended."""

    before = ("JobSet",)
    after = ()


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("fault", ["lose_request", "lose_answer", "reset"])
def test_what_gets_no_answer_keeps_no_job_from_being_suspended(fault, restarted):
    async def scenario(world: World) -> None:
        world.plugins += (Earlier(),)
        faults = weather(world)
        async with running(world, restarted=restarted):
            getattr(faults.on("write", core.SERVICES), fault)()
            await world.patch(api.TRAIN_JOBS, spec={"suspend": True})
            await world.settle(120)
            assert (await world.job_set()).spec.suspend

    play(scenario)


class Fence:
    """A transport that, once it is `lost`, refuses writes as a client does that may not write any more."""

    def __init__(self, inner) -> None:
        self.inner = inner
        self.stream = inner.stream
        self.aclose = inner.aclose
        self.is_lost = False

    async def request(self, method, path, **more):
        if self.is_lost and method != "GET":
            raise LeadershipLost("another may lead by now")
        return await self.inner.request(method, path, **more)


def test_who_may_not_write_any_more_does_not_try_to_suspend():
    async def scenario(world: World) -> None:
        world.plugins += (Earlier(),)
        world.counting.inner = fence = Fence(world.counting.inner)
        async with running(world, restarted=False):
            world.counting.calls.clear()
            fence.is_lost = True
            await world.patch(api.TRAIN_JOBS, spec={"suspend": True})
            assert world.counting.writes.count("PATCH services/job-board") >= 1
            assert STOPPED not in world.counting.writes
            assert world.counting.reads == []

    play(scenario)


@pytest.mark.parametrize(
    ("how", "stops"),
    [
        ({}, True),
        ({"job_set": a_job_set(suspend=True)}, False),
        ({"job_set": a_job_set(conditions=(ENDED,))}, False),
        ({"job_set": a_job_set(deletion_timestamp=NOW)}, False),
        ({"job_set": a_job_set(owner="other")}, False),
        ({"status": COMPLETE}, False),
        ({"deleting": True}, False),
        ({"suspend": False}, False),
    ],
)
def test_while_a_plugin_cannot_say_how_a_job_is_only_what_runs_and_should_not_is_stopped(settled, how, stops):
    plugin = Failing("jobs_status")
    plugin.fails = True
    situation = settled.but(suspend=True, job_set=a_job_set(), plugins=(*settled.plugins, plugin))
    decision = situation.but(**how).decide()

    assert (decision.stops is not None) is stops
    assert (decision.applies, decision.is_built, decision.failure.reason) == ((), False, "PluginFailed")
