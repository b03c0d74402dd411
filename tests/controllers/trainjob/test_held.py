"""What a job has after its JobSet, while an earlier one is held by a finalizer: it comes, whoever dies meanwhile."""

from __future__ import annotations

import pytest

from ktrain.api import core
from ktrain.api import trainer as api
from ktrain.api.core import SERVICES
from ktrain.api.meta import Key

from .test_after_job_set import Board, board
from .world import NS, World, play

KEY = Key(NS, "job-board")
HELD = "Service/job-board is being deleted, held by me.io/held; when it is gone, it is made again, and what comes"


class Last(Board):
    """What comes after the board."""

    name = "Last"
    after = ("Board",)

    def build(self, info, ctx):
        (component,) = super().build(info, ctx)
        component.body["metadata"]["name"] = "job-last"
        return (component,)


async def held_back(world: World) -> None:
    """Have a suspended job resumed while its Service is being deleted and does not go."""
    await world.job(suspend=True)
    await world.user.delete(SERVICES, Key(NS, "job-last"))
    await world.user.patch(SERVICES, KEY, {"metadata": {"finalizers": ["me.io/held"]}})
    await world.user.delete(SERVICES, KEY)
    await world.user.patch(api.TRAIN_JOBS, Key(NS, "job"), {"spec": {"suspend": False}})
    await world.settle(0.1)
    assert not (await world.job_set()).spec.suspend


async def let_go(world: World) -> None:
    await world.user.patch(SERVICES, KEY, {"metadata": {"finalizers": None}})
    await world.settle(10)


@pytest.mark.parametrize("seconds", [0, 1, 2, 4, 60])
@pytest.mark.parametrize("gone", ["meanwhile", "later"])
def test_it_comes_with_all_after_it_whenever_the_process_dies(gone, seconds):
    async def scenario(world: World) -> None:
        world.plugins += (Board(), Last())
        async with world.operator():
            await held_back(world)
            await world.progress(active=1)
            await world.settle(seconds)
        if gone == "meanwhile":
            await let_go(world)
        async with world.operator():
            await world.settle(10)
            if gone == "later":
                assert (await world.read()).status.diagnosis.message.startswith(HELD)
                await let_go(world)

        assert (await board(world)).metadata.labels["suspended"] == "False"
        assert (await world.user.get(SERVICES, "job-last", NS)).metadata.labels["suspended"] == "False"
        job = await world.read()
        assert (job.status.diagnosis, job.status.jobs_status[0].active) == (None, 1)

    play(scenario)


def test_it_is_told_once_and_the_status_goes_on():
    async def scenario(world: World) -> None:
        world.plugins += (Board(), Last())
        async with world.operator():
            await held_back(world)
            await world.progress(active=1)
            await world.settle(600)
            job = await world.read()
            events = await world.user.list(core.untyped(core.EVENTS), namespace=NS)

        assert job.status.jobs_status[0].active == 1
        assert (job.status.diagnosis.reason, job.status.diagnosis.message.startswith(HELD)) == ("HeldBack", True)
        assert [event["reason"] for event in events.items] == ["HeldBack"]

    play(scenario)


def test_what_goes_in_a_moment_is_no_news():
    async def scenario(world: World) -> None:
        world.plugins += (Board(), Last())
        async with world.operator():
            await held_back(world)
            await let_go(world)
            events = await world.user.list(core.untyped(core.EVENTS), namespace=NS)

        assert list(events.items) == []
        assert await board(world)

    play(scenario)
