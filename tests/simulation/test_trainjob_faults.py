"""
The TrainJob controller in bad weather, in virtual time: what was seen of others under it, and what is seen of this one.

Weather that takes minutes, limits in seconds that no machine's speed should decide, and deaths at each and every call.
What passes between sockets, and on a real server, is in `tests/controlplane/test_weather_*.py`.
"""

import pytest

from ktrain.api.core import CONFIG_MAPS, LEASES
from ktrain.api.jobset import JOBSETS
from ktrain.api.trainer import TRAIN_JOBS
from ktrain.framework.cache.silence import BOOKMARK_INTERVAL_S, GRACE_S
from ktrain.testing.simulation import Crash, Moment, World
from ktrain.testing.time import simulate

from .test_weather import WEATHERS
from .trainjobs import (
    CRDS,
    OUT_OF_TIME,
    OneChildEach,
    create,
    end_state,
    has_ended,
    life,
    operator,
    play_job_sets,
    runtimes,
)

NAMES = ("first", "plain", "again", "mpi", "held", "endless")
EXPECTED = {name: [("Complete", "AllJobsCompleted")] for name in NAMES} | {"endless": OUT_OF_TIME}


@pytest.fixture
def in_world():
    """Run `scenario(world)` in a world with runtimes, a JobSet controller and what must always hold."""

    def run(scenario, seed=0):
        async def main(env):
            async with World.made(env, crds=CRDS) as world:
                world.always(OneChildEach())
                await runtimes(world)
                world.start(play_job_sets(world), name="jobsets")
                return await scenario(world)

        return simulate(main, seed=seed)

    return run


@pytest.fixture
def ended(in_world):
    """
    Live the users' life; return the end state, and the numbers of the calls that were writes.

    Where an end is expected, it is waited for: what has failed twenty times is tried again after a quarter of an hour.
    """

    def run(crash=None, weather=None, seed=0, expected=None):
        async def scenario(world):
            process = world.start(operator(), crash=crash)
            await world.env.clock.sleep(1)
            if weather:
                weather(world.faults)
            await life(world)
            if weather:
                await world.env.clock.sleep(30)
                world.faults.clear()
            await world.until(lambda: has_ended(world, *NAMES), timeout_s=2500)
            if expected:
                await world.until(lambda: in_bad_weather(end_state(world)) == expected, timeout_s=2500)
            await world.settled(quiet_s=30 if weather else 5)
            assert process.lives == (2 if crash else 1)
            calls = world.faults.calls()
            return end_state(world), [number for number, call in enumerate(calls, 1) if "write" in call.verbs]

        return in_world(scenario, seed=seed)

    return run


def snapshots_late(faults):
    """What is built from a snapshot is there before it, and is left alone when the operator dies between the two."""
    faults.on("create", CONFIG_MAPS).delay(0.05)


@pytest.mark.parametrize("weather", [None, snapshots_late], ids=["fine", "snapshots late"])
def test_a_death_at_any_write_changes_nothing_in_the_end(ended, weather):
    reference, writes = ended(weather=weather)
    assert {name: how for name, (how, *_) in reference[0].items()} == EXPECTED
    assert len(writes) > 20

    # That a write did not happen is what its predecessor's death has shown already, but for the first of a pass.
    deaths = {Moment.AFTER_SEND: writes, Moment.BEFORE_SEND: writes[::4]}
    for moment, numbers in deaths.items():
        for number in numbers:
            state, _ = ended(Crash(number, moment), weather)
            assert state == reference, f"after a death at call {number}, {moment.value}"


def in_bad_weather(state):
    """What comes after a JobSet is written no more if the job has ended before it could be."""
    jobs, specs, others = state
    return jobs, specs, others | {"held-board"}


def deletions_refused(faults):
    """What is to go when a job ends goes later than the job's end."""
    faults.on("delete", JOBSETS).refuse()


@pytest.mark.parametrize("weather", [*WEATHERS, deletions_refused], ids=lambda weather: weather.__name__)
def test_the_end_is_that_of_good_weather(ended, weather):
    reference, _ = ended()
    state, _ = ended(weather=weather, expected=reference)

    assert in_bad_weather(state) == reference


def test_twenty_kills_at_any_time(in_world):
    async def scenario(world):
        process = world.start(operator(), restart_s=0.2)
        names = []
        for number in range(20):
            names.append(f"job-{number}")
            await create(world, names[-1], runtime="mpi" if number % 4 == 0 else "torch")
            await world.env.clock.sleep(world.env.random.uniform(0.3, 2))
            process.kill()
        await world.until(lambda: has_ended(world, *names))
        return process.lives

    assert in_world(scenario) == 21


def has_job_sets(world, *names):
    return {found["metadata"]["name"] for found in world.objects(JOBSETS)}.issuperset(names)


def test_sixty_jobs_have_their_job_sets_in_three_seconds_though_each_write_takes_300_ms_more(in_world):
    names = [f"job-{number}" for number in range(60)]

    async def scenario(world):
        world.faults.on("write").delay(0.3)
        world.start(operator())
        await world.env.clock.sleep(1)
        await create(world, *names)
        return await world.until(lambda: has_job_sets(world, *names))

    assert in_world(scenario) < 3


def test_a_write_that_is_never_answered_delays_its_own_job_only_and_ten_seconds_at_most(in_world):
    names = [f"job-{number}" for number in range(20)]

    async def scenario(world):
        world.start(operator())
        await world.env.clock.sleep(1)
        world.faults.on("apply", JOBSETS, name="victim", times=1).lose_request()
        began_s = world.env.clock.monotonic()
        await create(world, "victim", *names)
        others_s = await world.until(lambda: has_job_sets(world, *names))
        await world.until(lambda: has_job_sets(world, "victim"))
        return others_s, world.env.clock.monotonic() - began_s

    others_s, victim_s = in_world(scenario)
    assert others_s < 0.5
    assert victim_s <= 10


@pytest.mark.parametrize("resource", [JOBSETS, TRAIN_JOBS], ids=["children", "parents"])
def test_a_watch_that_went_silent_is_noticed(in_world, resource):
    async def scenario(world):
        world.start(operator())
        await create(world, "before")
        await world.env.clock.sleep(2 * BOOKMARK_INTERVAL_S + 1)
        await create(world, "endless")
        await world.env.clock.sleep(0.2)
        world.faults.on("watch", resource, times=1).silence()
        await create(world, "job")
        return await world.until(lambda: has_ended(world, "job"), timeout_s=80)

    assert in_world(scenario) <= BOOKMARK_INTERVAL_S + GRACE_S + 3


def test_a_leader_that_is_asked_to_end_hands_over_within_a_second(in_world):
    async def scenario(world):
        replicas = [world.start(operator(elected=True), name) for name in ("a", "b")]
        await create(world, "before")
        await world.until(lambda: has_ended(world, "before"))
        (lease,) = world.objects(LEASES)
        first = lease["spec"]["holderIdentity"]
        leader = next(r for r in replicas if r.calls == max(r.calls for r in replicas))
        leader.restart_s = None
        leader.terminate()
        await create(world, "after")
        seconds = await world.until(lambda: has_job_sets(world, "after"))
        (lease,) = world.objects(LEASES)
        return seconds, lease["spec"]["holderIdentity"] != first

    seconds, handed_over = in_world(scenario)
    assert handed_over
    assert seconds <= 1


def test_settled_jobs_cost_no_call(in_world):
    async def scenario(world):
        world.start(operator())
        await life(world)
        await world.until(lambda: has_ended(world, *NAMES))
        await world.settled(quiet_s=30)
        calls = world.faults.log.total
        await world.env.clock.sleep(240)
        return world.faults.log.total - calls

    assert in_world(scenario) == 0
