"""Plugins that fail when a job ends, whichever way: it ends, and what is left to be removed is told and retried."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from ktrain.api import core, jobset
from ktrain.api import trainer as api
from ktrain.api.meta import Key
from ktrain.framework.errors import NotFound
from ktrain.pipeline import Component, Removal
from ktrain.pipeline.errors import PlanError

from .failing import Failing
from .test_after_job_set import Board
from .test_own_snapshots import weather
from .world import NS, World, play

POINTS = ("terminal_condition", "jobs_status", "removals")
ERRORS = (RuntimeError("boom"), PlanError("boom"))


class Cleaning(Board):
    """Its Service goes when the job stops."""

    def removals(self, job, ctx):
        found = ctx.lookup(core.SERVICES, Key(NS, "job-board"))
        return (Removal.of(core.SERVICES, found),) if found else ()


async def has_board(world: World) -> bool:
    try:
        await world.user.get(core.SERVICES, "job-board", NS)
    except NotFound:
        return False
    return True


async def told(world: World) -> str:
    found = await world.user.list(core.untyped(core.EVENTS), namespace=NS)
    return " ".join(event["note"] for event in found.items)


def ends(job: api.TrainJob) -> list[str]:
    return [condition.reason for condition in job.status.conditions if condition.type in ("Complete", "Failed")]


@pytest.mark.parametrize("error", ERRORS, ids=["raises", "refuses"])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("end", ["Completed", "DeadlineExceeded"])
def test_a_plugin_that_fails_keeps_no_job_from_its_end_and_is_told(end, point, error):
    async def scenario(world: World) -> None:
        plugin = Failing(point, error)
        world.plugins += (Cleaning(), plugin)
        async with world.operator():
            await world.job(activeDeadlineSeconds=30)
            await world.progress(active=1)
            await world.settle()
            plugin.fails = True
            await (world.progress("Completed", succeeded=1) if end == "Completed" else world.settle(29))
            await world.settle(5)

            job = await world.read()
            assert len(ends(job)) == 1
            assert (ends(job) == ["DeadlineExceeded"]) is (end != "Completed")
            assert (await world.job_set() is None) is (end != "Completed")
            assert not await has_board(world)
            assert "boom" in await told(world)

            plugin.fails = False
            await world.settle(60)
            assert (await world.read()).status.diagnosis is None

    play(scenario)


@asynccontextmanager
async def failing(world: World, point: str):
    """Have a job run whose plugin begins to fail."""
    plugin = Failing(point)
    world.plugins += (plugin,)
    async with world.operator():
        await world.job()
        plugin.fails = True
        yield


@asynccontextmanager
async def running(world: World, *plugins: object):
    """Have a job run that has something to be removed; yields the faults that may be laid on the operator's calls."""
    world.plugins += (Cleaning(), *plugins)
    faults = weather(world)
    async with world.operator():
        await world.job()
        await world.progress(active=1)
        await world.settle()
        yield faults


def test_a_refused_deletion_beside_a_plugin_that_fails_is_tried_with_a_back_off():
    async def scenario(world: World) -> None:
        plugin = Failing("jobs_status", RuntimeError("boom"))
        async with running(world, plugin) as faults:
            plugin.fails = True
            faults.on("delete", core.SERVICES).answer(403, message="no deletion")
            await world.progress("Completed", succeeded=1)
            await world.settle(120)

            tries = [write for write in world.counting.writes if write.startswith("DELETE services")]
            assert 1 < len(tries) < 25
            events = await world.user.list(core.untyped(core.EVENTS), namespace=NS)
            assert len([event for event in events.items if "boom" in event["note"]]) == 1

    play(scenario)


def test_a_deletion_that_is_taken_at_last_is_no_failure():
    async def scenario(world: World) -> None:
        async with running(world) as faults:
            refusal = faults.on("delete", core.SERVICES).answer(403, message="no deletion")
            await world.progress("Completed", succeeded=1)
            await world.settle(3)
            assert "no deletion" in await told(world)
            refusal.remove()
            await world.settle(60)

            assert not await has_board(world)
            assert (await world.read()).status.diagnosis is None

    play(scenario)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_could_not_be_removed_goes_when_its_plugin_can_say_it(restarted):
    class Slow(Cleaning):
        fails = True

        def removals(self, job, ctx):
            if self.fails:
                raise RuntimeError("boom")
            return super().removals(job, ctx)

    async def scenario(world: World) -> None:
        plugin = Slow()
        world.plugins += (plugin,)
        async with world.operator():
            await world.job()
            await world.progress("Completed", succeeded=1)
            await world.settle(30)
            assert await has_board(world)
            assert (await world.read()).status.diagnosis.reason == "PluginFailed"
            plugin.fails = restarted
            await world.settle(60)
        plugin.fails = False
        async with world.operator():
            await world.settle(10)

        assert not await has_board(world)
        assert (await world.read()).status.diagnosis is None

    play(scenario)


def test_a_job_whose_plugins_fail_for_good_costs_ever_fewer_passes():
    async def scenario(world: World) -> None:
        plugin = Failing("removals")
        asked = []
        plugin.removals, fail = lambda *given: (asked.append(1), fail(*given)), plugin.removals
        world.plugins += (plugin,)
        async with world.operator():
            await world.job()
            plugin.fails = True
            await world.progress("Completed", succeeded=1)
            await world.settle(1000)

        assert 8 <= len(asked) <= 25

    play(scenario)


@pytest.mark.parametrize("point", POINTS)
def test_a_plugin_that_fails_keeps_no_job_from_being_deleted(point):
    async def scenario(world: World) -> None:
        async with failing(world, point):
            await world.user.delete(api.TRAIN_JOBS, Key(NS, "job"))
            await world.settle(10)
            assert await world.job_set() is None

    play(scenario)


@pytest.mark.parametrize("point", POINTS)
def test_a_jobset_that_its_time_to_live_takes_away_stays_away(point):
    async def scenario(world: World) -> None:
        async with failing(world, point):
            await world.progress("Completed", succeeded=1)
            await world.user.delete(jobset.JOBSETS, Key(NS, "job"))
            await world.settle(60)
            assert ends(await world.read()) == ["Because"]
            assert await world.job_set() is None

    play(scenario)


def test_a_deletion_that_is_refused_is_told_and_keeps_no_other_from_going():
    async def scenario(world: World) -> None:
        world.plugins += (Cleaning(),)
        faults = weather(world)
        async with world.operator():
            await world.job(activeDeadlineSeconds=10)
            await world.progress(active=1)
            with faults.on("delete", jobset.JOBSETS).answer(403, reason="Forbidden", message="you may not"):
                await world.settle(30)
                assert ends(await world.read()) == ["DeadlineExceeded"]
                assert not await has_board(world)
                assert await world.job_set()
                assert "you may not" in (await world.read()).status.diagnosis.message
                assert (await told(world)).count("you may not") == 1
            await world.settle(60)

        assert await world.job_set() is None
        assert (await world.read()).status.diagnosis is None

    play(scenario)


class Strange:
    """A plugin whose object makes the controller itself stumble."""

    name = "Strange"
    before = ("JobSet",)

    def build(self, info, ctx):
        return (Component(core.CONFIG_MAP_METADATA, {"metadata": {"name": "c", "namespace": 7}}),)


def test_a_deadline_is_kept_though_nobody_foresaw_what_a_plugin_builds():
    async def scenario(world: World) -> None:
        world.plugins += (Strange(),)
        async with world.operator():
            await world.job(activeDeadlineSeconds=200)
            await world.settle(201)
            assert ends(await world.read()) == ["DeadlineExceeded"]

    play(scenario)
