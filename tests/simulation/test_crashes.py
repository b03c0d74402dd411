"""Faults F1 and F2: the process dies, or is cancelled, at any call."""

import pytest

from ktrain.api.meta import Key
from ktrain.testing.simulation import Crash, Moment

from .widgets import WIDGETS, Operator, converged, end_state, life


@pytest.fixture
def ended(in_world):
    """Live the users' life against an operator; return the end state and the number of its calls."""

    def run(crash=None, seed=0):
        async def scenario(world):
            operator = Operator()
            process = world.start(operator.main, crash=crash)
            await life(world)
            await world.settled()
            assert converged(world)
            assert not operator.overlaps
            if crash is not None:
                assert process.lives == 2
            return end_state(world), process.calls

        return in_world(scenario, seed=seed)

    return run


@pytest.mark.parametrize("moment", Moment)
def test_a_crash_at_any_call_changes_nothing_in_the_end(ended, moment):
    reference, calls = ended()
    assert calls > 10

    for number in range(1, calls + 1):
        state, _ = ended(Crash(number, moment))
        assert state == reference, f"after a crash at call {number}, {moment.value}"


def test_one_seed_is_one_run_call_by_call(in_world):
    def run(seed):
        async def scenario(world):
            world.faults.on("write", probability=0.3).answer(500)
            world.faults.on("watch").cut(every_s=3)
            world.start(Operator(workers=3).main)
            await life(world)
            await world.settled(quiet_s=5)
            return [str(call) for call in world.faults.calls()]

        return in_world(scenario, seed=seed)

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_twenty_kills_at_any_time(in_world):
    async def scenario(world):
        operator = Operator()
        process = world.start(operator.main, restart_s=0.2)
        for _ in range(20):
            await life(world)
            await world.env.clock.sleep(world.env.random.uniform(0, 2))
            process.kill()
            for found in list(world.objects(WIDGETS)):
                await world.client.delete(WIDGETS, Key("default", found["metadata"]["name"]))
        await life(world)
        await world.settled()
        assert converged(world)
        return process.lives

    assert in_world(scenario) == 21


def test_cancellation_at_any_call_leaves_a_process_that_ends(in_world):
    """SIGTERM while call n is under way: the manager returns in time, nothing is left running, a successor finishes."""

    def run(number):
        async def scenario(world):
            first = None

            async def terminated(call, send):
                if world.faults.log.total == number:
                    first.terminate()
                return await send()

            world.faults.on().do(terminated)
            operator = Operator()
            first = world.start(operator.main, restart_s=None)
            await life(world)
            if number:
                assert await world.until(lambda: not first.running, timeout_s=35) < 31
            assert first.ended is None
            total = first.calls
            second = world.start(Operator().main)
            await world.settled()
            assert converged(world)
            return total, second.calls

        return in_world(scenario)

    calls, _ = run(number=0)
    for number in range(1, calls + 1):
        run(number)
