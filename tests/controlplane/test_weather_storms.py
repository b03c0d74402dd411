"""TrainJobs in storms, and under a controller that dies at any write: the end is that of good weather."""

import asyncio
from functools import partial

import pytest

from ktrain.api.jobset import JOBSETS
from ktrain.framework.errors import TransportError

from .weather import MPI


def lost_answers(weather):
    weather.on("write", probability=0.5).reset()


def conflicts(weather):
    weather.on("apply", times=3).answer(409)
    weather.on("patch", "trainjobs/status", times=3).answer(409)


def errors(weather):
    weather.on("write", probability=0.3).answer(500)
    weather.on("write", probability=0.3).answer(503, committed=True)


def expired_watches(weather):
    weather.proxy.on("watch", where=lambda call: "initial" not in call.verbs, probability=0.5).answer(410)
    weather.proxy.on("watch").error_event(410, after_lines=3)


STORMS = [lost_answers, conflicts, errors, expired_watches]
NAMES = {"torch": "torch", "mpi": MPI}


@pytest.fixture
def end_well(weather):
    """`await end_well()` brings both jobs to their ends, and makes sure that nothing was made or generated twice."""

    async def run():
        await weather.until_job_sets(*NAMES)
        made = {name: await weather.job_set(name) for name in NAMES}
        keys = await weather.keys("mpi")
        await weather.progress(*NAMES, active=1)
        await weather.progress(*NAMES, ended="Completed", succeeded=1)
        await weather.until_ended(*NAMES)

        for name, job_set in made.items():
            job, now = await weather.job(name), await weather.job_set(name)
            assert now.metadata.is_controlled_by(job.metadata.uid)
            assert (now.metadata.uid, now.metadata.generation) == (job_set.metadata.uid, 1)
        assert await weather.keys("mpi") == keys

    return run


async def create(weather):
    for name, runtime in NAMES.items():
        await weather.create(name, runtime=runtime)


@pytest.mark.parametrize("storm", STORMS, ids=lambda storm: storm.__name__)
async def test_a_storm_changes_nothing_in_the_end(weather, end_well, storm):
    async with weather.operator():
        storm(weather)
        await create(weather)
        await end_well()
        assert weather.proxy.calls(where=lambda call: bool(call.faults))


async def test_an_api_server_that_is_away_is_waited_for(weather, end_well):
    async with weather.operator():
        await create(weather)
        await weather.until_job_sets(*NAMES)
        await weather.proxy.gate.refuse()
        await weather.create("late")
        await weather.progress(*NAMES, active=1, ready=1)
        await asyncio.sleep(3)  # so that what is tried meanwhile fails several times
        await weather.proxy.gate.accept()

        await weather.until_job_sets("late")
        await end_well()


async def test_a_death_at_any_write_is_made_good_by_the_next_life(weather, end_well):
    lives = 0
    await create(weather)
    for number in range(1, 5):
        committed = number % 2 == 0
        dead = asyncio.Event()
        rules = [
            weather.on("write", nth=number, where=weather.is_ours).do(partial(die, dead, committed=committed)),
            weather.proxy.on(where=lambda _, dead=dead: dead.is_set()).refuse(),
        ]
        async with weather.operator():
            done = asyncio.create_task(weather.quiet(0.7))
            died = asyncio.create_task(dead.wait())
            await asyncio.wait([done, died], return_when=asyncio.FIRST_COMPLETED)
            lives += dead.is_set()
            done.cancel()
            died.cancel()
        for rule in rules:
            rule.remove()
    async with weather.operator():
        await end_well()

    assert lives >= 2
    assert {call.status for call in weather.writes("apply", JOBSETS)} <= {0, 200, 201}


async def die(dead, _call, send, *, committed):
    """Nothing of this life is heard any more."""
    if committed:
        await send()
    dead.set()
    raise TransportError("the process is dead")
