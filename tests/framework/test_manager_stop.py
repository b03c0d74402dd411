"""How a manager ends: grace, errors, and a lease that is lost."""

import anyio
import pytest

from ktrain.api.core import LEASES
from ktrain.api.meta import Key
from ktrain.framework.errors import LeadershipLost
from ktrain.testing.time import simulate

from .managing import Part, World, election, stopped


def failing(env, error, after_s=1.0):
    async def fail():
        await env.clock.sleep(after_s)
        raise error

    return fail


def test_an_error_of_a_service_lets_the_pass_under_way_end_and_is_raised():
    async def scenario(env):
        world = World(env, work_s=5)
        await world.create()
        broken = Part("health", world.journal, failing(env, OSError("socket gone")))
        with pytest.raises(OSError, match="socket gone"):
            await world.manager(services=[broken]).run()
        return world.journal, env.clock.monotonic()

    journal, ended = simulate(scenario)
    assert journal == ["start health", "begin", "stop health", "end"]
    assert ended == pytest.approx(5, abs=0.1)


def test_an_error_and_a_stop_that_takes_too_long_are_raised_together():
    async def scenario(env):
        world = World(env, work_s=1000)
        await world.create()
        broken = Part("broken", world.journal, failing(env, OSError("gone")))
        with pytest.raises(ExceptionGroup) as raised:
            await world.manager(runnables=[broken], grace_s=10).run()
        return [str(error) for error in raised.value.exceptions]

    assert simulate(scenario) == ["gone", "reconciles of test were cancelled 10 s after the stop"]


def test_errors_that_come_during_the_stop_are_logged_and_cancellations_are_none():
    async def scenario(env):
        world = World(env)

        async def fails_when_asked_to_end():
            try:
                await anyio.sleep_forever()
            finally:
                raise ValueError("late")

        late = Part("late", world.journal, fails_when_asked_to_end)
        first = Part("first", world.journal, failing(env, OSError("first")))
        with pytest.raises(OSError, match="first"):
            await world.manager(runnables=[late, first]).run()
        return await stopped(env, World(env).manager(runnables=[Part("late", [], fails_when_asked_to_end)]), 1)

    assert simulate(scenario) is None


def test_with_a_grace_of_0_passes_are_cancelled_at_once_and_that_is_no_error():
    async def scenario(env):
        world = World(env, work_s=1000)
        await world.create()
        error = await stopped(env, world.manager(grace_s=0), 1)
        return error, world.journal, env.clock.monotonic()

    assert simulate(scenario) == (None, ["begin", "cancelled"], 1.0)


def test_with_a_negative_grace_passes_have_all_the_time_they_want():
    async def scenario(env):
        world = World(env, work_s=100)
        await world.create()
        error = await stopped(env, world.manager(grace_s=-1), 1)
        return error, world.journal, round(env.clock.monotonic())

    assert simulate(scenario) == (None, ["begin", "end"], 100)


def test_a_lost_lease_ends_passes_without_grace_and_is_an_error():
    async def scenario(env):
        world = World(env, work_s=1000)
        await world.create()
        candidate = election(world)
        taken = {"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 60}}

        async def take():
            await env.clock.sleep(5)
            await world.client.patch(LEASES, Key("default", "op"), taken)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take)
            with pytest.raises(LeadershipLost, match="its last known holder is somebody"):
                await world.manager(leader_election=candidate, grace_s=60).run()
        lease = await world.client.get(LEASES, "op", "default")
        return world.journal, env.clock.monotonic() < 8, lease.spec.holder_identity

    assert simulate(scenario) == (["begin", "cancelled"], True, "somebody")
