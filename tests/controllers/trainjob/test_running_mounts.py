"""What the pods of a running job mount is made again when somebody deletes it."""

from __future__ import annotations

import gc
from typing import NamedTuple

import pytest

from ktrain.api import core
from ktrain.api import trainer as api
from ktrain.api.meta import Key, Resource
from ktrain.plugins.flux import Flux
from ktrain.plugins.mpi import MPI

from .world import NS, World, play

SECRETS, CONFIG_MAPS = core.untyped(core.SECRETS), core.untyped(core.CONFIG_MAP_METADATA)


class Mounted(NamedTuple):
    """A framework, and one of the objects that its pods mount."""

    policy: str
    plugin: type
    resource: Resource
    name: str
    is_drawn: bool = False


MOUNTED = [
    Mounted("mpi", MPI, SECRETS, "job-mpi-ssh-auth", is_drawn=True),
    Mounted("mpi", MPI, CONFIG_MAPS, "job-mpi-hostfile"),
    Mounted("flux", Flux, SECRETS, "job-flux-curve"),
    Mounted("flux", Flux, CONFIG_MAPS, "job-flux-entrypoint"),
]


@pytest.fixture(params=MOUNTED, ids=lambda one: one.name)
def mounted(request) -> Mounted:
    return request.param


async def prepared(world: World, mounted: Mounted) -> None:
    gc.collect()  # worlds are alike to the UID: what one took from its runtime would pass for the next one's
    world.plugins += (mounted.plugin(),)
    await world.user.patch(api.TRAINING_RUNTIMES, Key(NS, "rt"), {"spec": {"mlPolicy": {mounted.policy: {}}}})


@pytest.mark.parametrize("restarted", [False, True])
def test_it_is_written_again_and_nothing_else_is(mounted, restarted):
    async def scenario(world: World) -> None:
        await prepared(world, mounted)
        async with world.operator():
            await world.job()
            await world.progress(active=1)
            await world.settle()
            before, job_set = await world.user.get(mounted.resource, mounted.name, NS), await world.job_set()
            if not restarted:
                world.counting.calls.clear()
                await world.user.delete(mounted.resource, Key(NS, mounted.name))
                await world.settle()
        if restarted:
            await world.user.delete(mounted.resource, Key(NS, mounted.name))
            async with world.operator():
                await world.settle()

        after = await world.user.get(mounted.resource, mounted.name, NS)
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert (after["data"] == before["data"]) is not mounted.is_drawn
        assert await world.job_set() == job_set
        assert world.counting.writes == [f"PATCH {mounted.resource.plural}/{mounted.name}"]

    play(scenario)


@pytest.mark.parametrize("condition", ["Completed", "Failed"])
def test_of_a_job_that_has_ended_nothing_is_made_again(mounted, condition):
    async def scenario(world: World) -> None:
        await prepared(world, mounted)
        async with world.operator():
            await world.job()
            await world.progress(condition, succeeded=1)
            await world.settle()
            world.counting.calls.clear()
            await world.user.delete(mounted.resource, Key(NS, mounted.name))
            await world.settle(60)

            assert world.counting.writes == []

    play(scenario)


def test_while_nobody_deletes_anything_nothing_is_asked_or_written(mounted):
    async def scenario(world: World) -> None:
        await prepared(world, mounted)
        async with world.operator():
            await world.job()
            await world.settle()
            world.counting.calls.clear()
            for ready in (0, 1):
                await world.progress(active=1, ready=ready)
                await world.settle()

            assert world.counting.reads == []
            assert set(world.counting.writes) == {"PATCH trainjobs/job/status"}

    play(scenario)
