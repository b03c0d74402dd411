"""The last counters of a JobSet come to its TrainJob's status, whatever happens while earlier ones are written."""

from __future__ import annotations

from random import Random

import anyio
import pytest

from ktrain.api import trainer as api

from .world import KEY, World, own_seed, play


async def told(world: World) -> tuple[int, int, int]:
    counters = (await world.read()).status.jobs_status[0]
    return counters.active, counters.ready, counters.succeeded


def test_counters_that_come_while_the_end_is_written_are_told_after_it():
    async def scenario(world: World) -> None:
        async with world.running_job(active=1):
            await world.settle()
            await world.progress(active=2)  # their write is due in half a second
            await world.settle(0.1)
            world.counting.latch = latch = anyio.Event()
            await world.progress("Completed", active=1, succeeded=1)
            await world.settle(0.02)
            assert world.counting.waiting == 1
            await world.progress("Completed", succeeded=2)
            await world.settle(0.02)
            world.counting.latch = None
            latch.set()
            await world.settle(5)

            assert await told(world) == (0, 0, 2)

    play(scenario)


def test_counters_that_turn_back_before_the_cache_shows_what_was_written_of_them_are_told():
    async def scenario(world: World) -> None:
        async with world.running_job(active=1, ready=1):
            await world.settle()
            world.counting.gate = gate = anyio.Event()  # the operator does not see its own writes
            await world.progress(active=1)
            await world.settle(2)
            written = await told(world)
            await world.progress(active=1, ready=1)
            await world.settle(60)  # a pass does not wait that long for the cache
            world.counting.gate = None
            gate.set()
            await world.settle(5)

            assert written == (1, 0, 0)
            assert await told(world) == (1, 1, 0)

    play(scenario)


@pytest.mark.parametrize("seed", range(6))
def test_in_any_weather_the_last_counters_of_a_job_that_ends_are_told(seed):
    """Writes of the status and the watch of TrainJobs stand still and go on."""
    random = Random(own_seed() + seed)

    def go_on(world: World, held: str) -> None:
        if gate := getattr(world.counting, held):
            setattr(world.counting, held, None)
            gate.set()

    async def step(world: World, condition: str | None) -> None:
        held = random.choice(("latch", "gate"))
        if random.random() < 0.7:
            await world.progress(condition, active=1, ready=random.randrange(2))
        elif getattr(world.counting, held):
            go_on(world, held)
        else:
            setattr(world.counting, held, anyio.Event())
        await world.settle(random.choice((0.01, 0.1, 0.5)))

    async def scenario(world: World) -> None:
        async with world.operator():
            for _ in range(20):
                await world.job()
                end = random.randrange(10)
                for number in range(12):
                    await step(world, "Completed" if number >= end else None)
                go_on(world, "latch")
                go_on(world, "gate")
                await world.settle(10)

                counters = (await world.job_set()).status.replicated_jobs_status[0]
                assert await told(world) == (counters.active, counters.ready, counters.succeeded)
                await world.user.delete(api.TRAIN_JOBS, KEY)  # the server collects its children
                await world.settle()

    play(scenario)
