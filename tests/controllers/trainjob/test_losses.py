"""What the pods of a running job need, also those that come in place of failed ones: lost, it is made again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from ktrain.api import core
from ktrain.api.meta import Key
from ktrain.plugins import coscheduling, volcano
from ktrain.plugins.flux import Flux
from ktrain.plugins.mpi import MPI
from ktrain.plugins.workload import Workload
from ktrain.plugins.workload.groups import group_name
from ktrain.plugins.workload.versions import VERSIONS

from .world import NS, World, play

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrain.api import trainer as api
    from ktrain.api.meta import Json, Resource

SECRETS, CONFIG_MAPS = core.untyped(core.SECRETS), core.untyped(core.CONFIG_MAP_METADATA)
MPI_POLICY, FLUX_POLICY = {"mlPolicy": {"mpi": {}}}, {"mlPolicy": {"flux": {}}}


class Needed(NamedTuple):
    """A policy of runtimes, its plugin, and one of the objects that pods need of it: what they mount, or their gang."""

    policy: Json
    plugin: type
    resource: Resource
    name: Callable[[api.TrainJob], str]
    content: str
    """The field that is the same when it is made again; none if it is drawn anew."""


def named(suffix: str) -> Callable[[api.TrainJob], str]:
    return lambda job: job.metadata.name + suffix


def gang(policy: str, plugin: type, resource: Resource, name: Callable[[api.TrainJob], str]) -> Needed:
    return Needed({"podGroupPolicy": {policy: {}}}, plugin, core.untyped(resource), name, "spec")


NEEDED = {
    "mpi's keys": Needed(MPI_POLICY, MPI, SECRETS, named("-mpi-ssh-auth"), ""),
    "mpi's hosts": Needed(MPI_POLICY, MPI, CONFIG_MAPS, named("-mpi-hostfile"), "data"),
    "flux's certificate": Needed(FLUX_POLICY, Flux, SECRETS, named("-flux-curve"), "data"),
    "flux's scripts": Needed(FLUX_POLICY, Flux, CONFIG_MAPS, named("-flux-entrypoint"), "data"),
    "coscheduling's group": gang("coscheduling", coscheduling.CoScheduling, coscheduling.POD_GROUPS, named("")),
    "volcano's group": gang("volcano", volcano.Volcano, volcano.POD_GROUPS, named("")),
    "workload's group": gang("workload", Workload, VERSIONS[-2].pod_groups, lambda job: group_name(job, "trainer")),
}


@pytest.fixture(params=NEEDED)
def needed(request) -> Needed:
    return NEEDED[request.param]


async def key_of(world: World, needed: Needed) -> Key:
    return Key(NS, needed.name(await world.read()))


@pytest.mark.parametrize("restarted", [False, True])
def test_it_is_written_again_and_nothing_else_is(needed, restarted):
    async def scenario(world: World) -> None:
        await world.use(needed.policy, needed.plugin())
        async with world.running_job(active=1):
            key = await key_of(world, needed)
            before, job_set = await world.user.get(needed.resource, *reversed(key)), await world.job_set()
            if not restarted:
                await world.user.delete(needed.resource, key)
                await world.settle()
        if restarted:
            await world.user.delete(needed.resource, key)
            async with world.operator():
                await world.settle()

        after = await world.user.get(needed.resource, *reversed(key))
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        if needed.content:
            assert after[needed.content] == before[needed.content]
        else:
            assert after["data"] != before["data"]
        assert await world.job_set() == job_set
        assert world.counting.writes == [f"PATCH {needed.resource.plural}/{key.name}"]

    play(scenario)


@pytest.mark.parametrize("end", ["Completed", "Failed"])
def test_of_a_job_that_has_ended_nothing_is_made_again(needed, end):
    async def scenario(world: World) -> None:
        await world.use(needed.policy, needed.plugin())
        async with world.running_job(end, succeeded=1):
            await world.user.delete(needed.resource, await key_of(world, needed))
            await world.settle(60)

            assert world.counting.writes == []

    play(scenario)


def test_while_nobody_deletes_anything_nothing_is_asked_or_written(needed):
    async def scenario(world: World) -> None:
        await world.use(needed.policy, needed.plugin())
        async with world.running_job(active=1):
            for ready in (1, 0):
                await world.progress(active=1, ready=ready)
                await world.settle()

            assert world.counting.reads == []
            assert set(world.counting.writes) == {"PATCH trainjobs/job/status"}

    play(scenario)
