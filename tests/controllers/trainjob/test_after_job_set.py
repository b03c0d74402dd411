"""What plugins build to be written after the JobSet: if it is refused, or the process dies, the JobSet runs already."""

from __future__ import annotations

from inspect import Signature, signature

import pytest

from ktrain.api import trainer as api
from ktrain.api.core import SERVICES
from ktrain.api.meta import Key, owner_reference
from ktrain.framework.errors import NotFound
from ktrain.pipeline import Component, Watch

from .failing import Failing
from .test_own_snapshots import weather
from .world import NS, World, play

WRITE = "PATCH services/job-board"


class Board:
    """A plugin that has a Service for each job, after its JobSet."""

    name = "Board"
    after = ("JobSet",)

    def watches(self):
        return (Watch(SERVICES, owned=True),)

    def build(self, info, ctx):
        meta = info.job.metadata
        owners = [owner_reference(api.API_VERSION, "TrainJob", meta.name, meta.uid)]
        metadata = {"name": f"{meta.name}-board", "namespace": meta.namespace, "ownerReferences": owners}
        metadata["labels"] = {"suspended": str(info.job.is_suspended)}
        return (
            Component(
                SERVICES,
                {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}},
            ),
        )


def with_a_board(scenario):
    """The test that a scenario is: on virtual time, in a world that has the plugin."""

    def test(**given):
        async def whole(world: World) -> None:
            world.plugins += (Board(),)
            await scenario(world, **given)

        play(whole)

    test.__name__ = scenario.__name__
    _, *rest = signature(scenario).parameters.values()
    test.__signature__ = Signature(rest)
    return test


async def board(world: World):
    try:
        return await world.user.get(SERVICES, "job-board", NS)
    except NotFound:
        return None


async def refused(world: World) -> None:
    """A job whose JobSet runs, and whose Service was refused."""
    world.quota_exceeded, world.limited = True, "services"
    await world.job()
    await world.progress(active=1, ready=1)
    await world.settle(60)


@pytest.mark.parametrize("restarted", [False, True])
@with_a_board
async def test_it_is_told_and_tried_again_until_it_is_there(world, restarted):
    async with world.operator():
        await refused(world)
        told = (await world.read()).status.diagnosis
        tries = world.counting.writes.count(WRITE)
        if not restarted:
            world.quota_exceeded = False
            await world.settle(600)
    if restarted:
        async with world.operator():
            await world.settle(60)
            assert world.counting.writes.count(WRITE) > 1
            world.quota_exceeded = False
            await world.settle(600)

    assert (told.reason, told.message) == ("Refused", "exceeded quota: gpus")
    assert 5 <= tries <= 20
    assert await board(world)
    assert (await world.read()).status.diagnosis is None
    assert "PATCH jobsets/job" not in world.counting.writes[2:]


@pytest.mark.parametrize("how", ["lose_request", "lose_answer", "reset", "conflict"])
@with_a_board
async def test_it_is_tried_again_also_if_its_write_was_lost(world, how):
    faults = weather(world)
    async with world.operator():
        rule = faults.on("write", SERVICES, times=1)
        if how == "conflict":
            rule.answer(409, reason="Conflict", message="try again")
        else:
            getattr(rule, how)()
        await world.job()
        await world.progress(active=1, ready=1)
        await world.settle(60)

        assert await board(world)
        assert "PATCH jobsets/job" not in world.counting.writes[2:]


@with_a_board
async def test_what_has_been_there_once_is_the_users_to_delete(world):
    async with world.operator():
        await world.job()
        await world.progress(active=1, ready=1)
        await world.settle()
        await world.user.delete(SERVICES, Key(NS, "job-board"))
        await world.settle(60)

        assert await board(world) is None


async def dies_before_it(world: World, **spec) -> None:
    """Have the operator die after the write of a JobSet that begins to run, while that of the Service is under way."""
    faults = weather(world)
    async with world.operator():
        if spec:
            await world.job(**spec)
            await world.progress(suspended=1)
            await world.settle()
        with faults.on("write", SERVICES).lose_request():
            await (world.patch(api.TRAIN_JOBS, spec={"suspend": False}) if spec else world.job())
            assert not (await world.job_set()).spec.suspend


@pytest.mark.parametrize("spec", [{}, {"suspend": True}], ids=["begun", "resumed"])
@with_a_board
async def test_it_is_written_by_the_next_process_if_one_dies_before_it(world, spec):
    await dies_before_it(world, **spec)
    async with world.operator():
        await world.progress(active=1)
        await world.settle()

    assert (await board(world)).metadata.labels["suspended"] == "False"
    assert world.counting.writes.count(WRITE) == 1
    assert "PATCH jobsets/job" not in world.counting.writes


@pytest.mark.parametrize("spec", [{}, {"suspend": True}], ids=["begun", "resumed"])
@with_a_board
async def test_a_process_that_has_begun_a_job_says_so_only_when_it_is_written_or_told(world, spec):
    faults = weather(world)
    async with world.operator():
        if spec:
            await world.job(**spec)
        with faults.on("write", SERVICES).answer(500):
            await (world.patch(api.TRAIN_JOBS, spec={"suspend": False}) if spec else world.job())
            await world.progress(active=1)
            await world.settle(2)
    async with world.operator():
        await world.settle()

    assert (await board(world)).metadata.labels["suspended"] == "False"
    assert (await world.read()).status.jobs_status[0].active == 1


@with_a_board
async def test_while_it_lasts_the_status_goes_on(world):
    faults = weather(world)
    async with world.operator():
        faults.on("write", SERVICES).answer(500)
        await world.job()
        await world.progress(active=1)
        await world.settle(8)

        status = (await world.read()).status
        assert status.jobs_status[0].active == 1
        assert status.diagnosis is not None


@with_a_board
async def test_a_new_process_asks_for_the_snapshot_only_and_writes_nothing_if_all_is_there(world):
    async with world.operator():
        await world.job()
    async with world.operator():
        await world.settle(5)
        assert world.counting.writes == []
        await world.progress(active=1)
        await world.settle(5)
        assert world.counting.writes == ["PATCH trainjobs/job/status"]
        assert [path.rsplit("/", 1)[-1] for path in world.counting.reads] == ["job-runtime-snapshot"]


@pytest.mark.parametrize("point", ["jobs_status", "terminal_condition"])
@with_a_board
async def test_a_pass_that_fails_in_between_does_not_have_it_forgotten(world, point):
    plugin = Failing(point)
    world.plugins += (plugin,)
    async with world.operator():
        await refused(world)
        plugin.fails = True
        await world.progress(active=1)
        await world.settle(200)
        world.quota_exceeded = plugin.fails = False
        await world.settle(2000)
        assert await board(world)


@pytest.mark.parametrize("restarted", [False, True])
@with_a_board
async def test_it_comes_when_what_somebody_else_has_in_its_place_is_gone(world, restarted):
    theirs = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "job-board", "namespace": NS}}

    faults = weather(world)
    async with world.operator():
        with faults.on("write", SERVICES).answer(500):
            await world.job()
            await world.user.create(SERVICES, theirs | {"spec": {"ports": [{"port": 80}]}})
        await world.progress(active=1, ready=1)
        await world.settle(60)
        assert (await world.read()).status.diagnosis.reason == "BuildFailed"
        if not restarted:
            await world.user.delete(SERVICES, Key(NS, "job-board"))
            await world.settle(600)
    if restarted:
        async with world.operator():
            await world.settle(60)
            await world.user.delete(SERVICES, Key(NS, "job-board"))
            await world.settle(600)

    assert (await board(world)).metadata.controller.kind == "TrainJob"
    assert (await world.read()).status.diagnosis is None


@with_a_board
async def test_it_comes_when_an_earlier_one_of_its_name_is_gone_at_last(world):
    key = Key(NS, "job-board")
    async with world.operator():
        await world.job(suspend=True)
        await world.user.patch(SERVICES, key, {"metadata": {"finalizers": ["me.io/held"]}})
        await world.user.delete(SERVICES, key)
        await world.patch(api.TRAIN_JOBS, spec={"suspend": False})
        await world.progress(active=1)
        await world.settle(5)
        assert (await world.read()).status.jobs_status[0].active == 1
        await world.user.patch(SERVICES, key, {"metadata": {"finalizers": None}})
        await world.settle(5)

        assert (await board(world)).metadata.labels["suspended"] == "False"
