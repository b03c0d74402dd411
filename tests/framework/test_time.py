import asyncio

import pytest

from ktrain.framework.env import SystemClock
from ktrain.testing.time import EPOCH, Deadlock, simulate


def test_waiting_takes_no_real_time_and_moves_both_clocks():
    async def scenario(env):
        await env.clock.sleep(3 * 86400)
        return env.clock.monotonic(), (env.clock.now() - EPOCH).total_seconds()

    assert simulate(scenario) == pytest.approx((3 * 86400, 3 * 86400))


def test_timers_fire_in_the_order_of_their_times():
    async def scenario(env):
        fired = []

        async def wait(seconds):
            await env.clock.sleep(seconds)
            fired.append((seconds, env.clock.monotonic()))

        await asyncio.gather(*(wait(s) for s in (5, 1, 3)))
        return fired

    assert simulate(scenario) == [(1, 1.0), (3, 3.0), (5, 5.0)]


def test_one_seed_gives_one_run():
    async def scenario(env):
        return [env.random.random() for _ in range(3)]

    assert simulate(scenario, seed=7) == simulate(scenario, seed=7) != simulate(scenario, seed=8)


def test_waiting_for_nothing_is_reported_as_a_deadlock():
    async def scenario(env):
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match="no timer is set"):
        simulate(scenario)


async def test_the_clock_of_leases_is_the_loops_and_counts_what_the_machine_slept():
    clock = SystemClock()
    before = clock.boottime() - clock.monotonic()
    await clock.sleep(0.01)

    assert before > -0.01
    assert clock.boottime() - clock.monotonic() == pytest.approx(before, abs=0.01)


def test_on_a_virtual_loop_the_clock_of_leases_is_virtual():
    async def main(env):
        clock = SystemClock()
        began_s = clock.boottime()
        await env.clock.sleep(3600)
        return clock.boottime() - began_s

    assert simulate(main) == pytest.approx(3600, abs=1)
