"""Fields of a TrainJob without effect are reported in an event where no webhook did."""

from __future__ import annotations

from ktrain.api import core

from .world import NS, World, play

LATER = 600


async def events(world: World) -> list[tuple[str, str, str]]:
    found = (await world.user.list(core.untyped(core.EVENTS), NS)).items
    return [(one["type"], one["reason"], one["note"]) for one in found]


def test_fields_without_effect_are_reported_once_for_the_life_of_a_job():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(trainer={"numProcPerNode": 2})
            await world.progress()
            await world.settle(LATER)
            told = await events(world)
        async with world.operator():
            await world.settle(LATER)

            assert await events(world) == told

        assert told == [
            (
                "Warning",
                "FieldsWithoutEffect",
                "spec.trainer.numProcPerNode: no effect, because no policy or plugin of the runtime uses it",
            )
        ]

    play(scenario)


def test_a_job_that_is_refused_at_first_has_one_report_as_well():
    async def scenario(world: World) -> None:
        async with world.operator():
            world.quota_exceeded = True
            await world.job(trainer={"numProcPerNode": 2})
            await world.settle(60)
            world.quota_exceeded = False
            await world.settle(60)
            reasons = [reason for _, reason, _ in await events(world)]

        assert sorted(reasons) == ["FieldsWithoutEffect", "TrainJobResourcesCreationFailed"]

    play(scenario)


def test_a_job_whose_fields_all_count_has_no_event():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(trainer={"numNodes": 2, "env": [{"name": "A", "value": "a"}]})
            await world.settle(LATER)

            assert await events(world) == []

    play(scenario)
