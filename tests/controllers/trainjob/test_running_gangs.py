"""Gangs beside a job that runs: what waits is told, once; what goes with its job, or is somebody else's, stays away."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from ktrain.api import core
from ktrain.api import trainer as api
from ktrain.api.meta import Key, Resource
from ktrain.plugins import coscheduling, volcano
from ktrain.plugins.workload import Workload
from ktrain.plugins.workload.groups import group_name
from ktrain.plugins.workload.versions import VERSIONS

from .world import KEY, NS, World, play

V1ALPHA2 = VERSIONS[-2]
SINCE = "2030-01-01T00:00:00Z"


def condition(type_: str, status: str, reason: str, message: str) -> dict[str, Any]:
    fields = {"type": type_, "status": status, "reason": reason, "message": message}
    return {"conditions": [fields | {"lastTransitionTime": SINCE}]}


class Gang(NamedTuple):
    """A gang plugin, and what its scheduler says."""

    policy: str
    plugin: type
    group: Resource
    waits: dict[str, Any]
    in_other_words: dict[str, Any]
    placed: dict[str, Any]
    told: str
    patience_s: float


GANGS = {
    "workload": Gang(
        "workload",
        Workload,
        V1ALPHA2.pod_groups,
        condition("PodGroupScheduled", "False", "Unschedulable", "0/3 nodes are available"),
        condition("PodGroupScheduled", "False", "Unschedulable", "0/4 nodes are available"),
        condition("PodGroupScheduled", "True", "Scheduled", ""),
        "PodGroup {name} is not scheduled: 0/3 nodes are available; its pods' own conditions say what is missing",
        5,
    ),
    "volcano": Gang(
        "volcano",
        volcano.Volcano,
        volcano.POD_GROUPS,
        {"phase": "Pending"} | condition("Unschedulable", "True", "NotEnoughResources", "2/2 tasks in gang"),
        {"phase": "Inqueue"} | condition("Unschedulable", "True", "NotEnoughResources", "1/2 tasks in gang"),
        {"phase": "Running"} | condition("Unschedulable", "True", "NotEnoughResources", "1/2 tasks in gang"),
        "PodGroup {name} is unschedulable: NotEnoughResources: 2/2 tasks in gang",
        5,
    ),
    "coscheduling": Gang(
        "coscheduling",
        coscheduling.CoScheduling,
        coscheduling.POD_GROUPS,
        {"phase": "Pending"},
        {"phase": "Scheduling"},
        {"phase": "Running"},
        "PodGroup {name} is Pending since more than 60 s: 2 pods have to start together, and they have not all been"
        " made; the pods' own conditions say what is missing",
        60,
    ),
}


@pytest.fixture(params=GANGS)
def gang(request) -> Gang:
    return GANGS[request.param]


async def group_key(world: World, gang: Gang) -> Key:
    return Key(NS, group_name(await world.read(), "trainer")) if gang.policy == "workload" else KEY


async def says(world: World, gang: Gang, status: dict[str, Any]) -> None:
    await world.user.patch(gang.group, await group_key(world, gang), {"status": status}, subresource="status")
    await world.settle()


async def events(world: World) -> list[tuple[str, str]]:
    found = await world.user.list(core.untyped(core.EVENTS), NS)
    return [(event["reason"], event["note"]) for event in found.items]


def test_a_gang_that_waits_is_told_once_in_an_event_and_in_the_status_until_it_is_placed(gang):
    async def scenario(world: World) -> None:
        await world.use({"podGroupPolicy": {gang.policy: {}}}, gang.plugin())
        async with world.running_job(active=1):
            told = gang.told.format(name=(await group_key(world, gang)).name)
            await says(world, gang, gang.waits)
            assert (await world.read()).status.diagnosis is None

            await world.settle(gang.patience_s)
            assert await events(world) == [("Unschedulable", told)]
            diagnosis = (await world.read()).status.diagnosis
            assert (diagnosis.reason, diagnosis.message) == ("Unschedulable", told)

            world.counting.calls.clear()
            for status in (gang.in_other_words, gang.waits) * 5:
                await says(world, gang, status)
            assert world.counting.writes == []
            assert await events(world) == [("Unschedulable", told)]

            await says(world, gang, gang.in_other_words)
            await world.settle(60)
            assert (await world.read()).status.diagnosis.message != told
            assert len(await events(world)) == 2
            assert world.counting.writes == ["PATCH trainjobs/job/status"]

            await says(world, gang, gang.placed)
            assert (await world.read()).status.diagnosis is None
            assert (await world.read()).status.conditions == ()

    play(scenario)


def test_a_job_that_is_suspended_or_has_just_been_resumed_waits_for_nothing(gang):
    async def scenario(world: World) -> None:
        await world.use({"podGroupPolicy": {gang.policy: {}}}, gang.plugin())
        async with world.running_job(active=1):
            await says(world, gang, gang.waits)
            await world.settle(gang.patience_s)
            await world.patch(api.TRAIN_JOBS, spec={"suspend": True})
            assert (await world.read()).status.diagnosis is None

            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})
            assert (await world.read()).status.diagnosis is None
            await world.settle(gang.patience_s)
            assert (await world.read()).status.diagnosis.reason == "Unschedulable"

    play(scenario)


def test_a_workload_and_its_groups_that_are_both_gone_are_made_again_in_their_order():
    gang = GANGS["workload"]

    async def scenario(world: World) -> None:
        await world.use({"podGroupPolicy": {gang.policy: {}}}, gang.plugin())
        async with world.running_job(active=1):
            where = await group_key(world, gang)
            await world.user.delete(V1ALPHA2.workloads, KEY)
            await world.user.delete(gang.group, where)
            await world.settle()

            workload = await world.user.get(V1ALPHA2.workloads, "job", NS)
            group = await world.user.get(gang.group, where.name, NS)
            assert workload.metadata.uid in {owner.uid for owner in group.metadata.owner_references}
            assert world.counting.writes == ["PATCH workloads/job", f"PATCH podgroups/{where.name}"]

    play(scenario)


def test_a_group_that_goes_with_its_job_is_not_made_again(gang):
    async def scenario(world: World) -> None:
        await world.use({"podGroupPolicy": {gang.policy: {}}}, gang.plugin())
        async with world.operator():
            await world.job()
            world.counting.calls.clear()
            await world.user.delete(api.TRAIN_JOBS, KEY, propagation="Background")
            await world.settle(60)

            assert not [write for write in world.counting.writes if write.startswith("PATCH")]

    play(scenario)


def test_somebody_elses_group_of_that_name_is_left_alone(gang):
    async def scenario(world: World) -> None:
        await world.use({"podGroupPolicy": {gang.policy: {}}}, gang.plugin())
        async with world.operator():
            await world.job()
            where = await group_key(world, gang)
            ours = await world.user.get(core.untyped(gang.group), *reversed(where))
            metadata = {"name": where.name, "namespace": NS}
        await world.user.delete(gang.group, where)
        await world.user.create(core.untyped(gang.group), ours | {"metadata": metadata})
        async with world.operator():
            await says(world, gang, gang.waits)
            await world.settle(120)

            assert world.counting.writes == []
            assert await events(world) == []

    play(scenario)
