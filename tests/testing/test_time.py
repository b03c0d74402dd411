"""Code that is stopped and continued on virtual time."""

import asyncio

from ktrain.testing.time import Stoppable, simulate


def test_stopped_code_stands_still_while_time_and_others_go_on():
    async def scenario(env):
        seen = []

        async def tick(name):
            while True:
                await env.clock.sleep(1)
                seen.append((name, env.clock.monotonic()))

        process = Stoppable()
        with process.inside():
            stopped = asyncio.create_task(tick("a"))
        other = asyncio.create_task(tick("b"))
        await env.clock.sleep(1.5)
        process.stop()
        await env.clock.sleep(3)
        assert seen == [("a", 1), ("b", 1), ("b", 2), ("b", 3), ("b", 4)]
        process.resume()
        await env.clock.sleep(1.2)
        stopped.cancel()
        other.cancel()
        return [at for name, at in seen if name == "a"]

    assert simulate(scenario) == [1, 4.5, 5.5]


def test_a_time_out_that_ran_out_while_stopped_comes_after_what_was_ready_before():
    async def scenario(env):
        answer = asyncio.get_running_loop().create_future()

        async def call():
            async with asyncio.timeout(5):
                return await answer

        process = Stoppable()
        with process.inside():
            first = asyncio.create_task(call())
        await env.clock.sleep(1)
        process.stop()
        answer.set_result("in time")
        await env.clock.sleep(60)
        process.resume()
        return await first

    assert simulate(scenario) == "in time"


def test_tasks_that_stopped_code_started_stand_still_too():
    async def scenario(env):
        done = []

        async def child():
            await env.clock.sleep(1)
            done.append(env.clock.monotonic())

        async def parent():
            await asyncio.gather(child(), asyncio.create_task(child()))

        process = Stoppable()
        with process.inside():
            task = asyncio.create_task(parent())
        await env.clock.sleep(0)
        process.stop()
        await env.clock.sleep(10)
        assert not done
        process.resume()
        await task
        return done

    assert simulate(scenario) == [11, 11]
