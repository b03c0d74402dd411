import asyncio
import math

import pytest

from ktrain.framework.workqueue.limiters import FastSlow
from ktrain.framework.workqueue.queue import MAX_DELAY_S, QueueClosed, WorkQueue
from ktrain.testing.time import simulate


def test_keys_come_in_order_and_once():
    async def scenario(env):
        queue = WorkQueue(env)
        for key in "abcab":
            queue.add(key)
        return [await queue.get() for _ in range(3)], len(queue)

    assert simulate(scenario) == (["a", "b", "c"], 0)


def test_adds_while_processing_give_exactly_one_more_run():
    async def scenario(env):
        queue = WorkQueue(env)
        queue.add("a")
        key = await queue.get()
        queue.add("a")
        queue.add("a")
        ready_meanwhile = len(queue)
        queue.done(key)
        again = await queue.get()
        queue.done(again)
        return ready_meanwhile, again, len(queue)

    assert simulate(scenario) == (0, "a", 0)


def test_done_without_get_is_an_error():
    async def scenario(env):
        with pytest.raises(KeyError):
            WorkQueue(env).done("a")

    simulate(scenario)


def test_of_two_delays_the_earlier_counts_and_gives_one_run():
    async def scenario(env):
        queue = WorkQueue(env)
        queue.add_after("a", 10)
        queue.add_after("a", 3)
        queue.add_after("a", 7)
        await queue.get()
        first = env.clock.monotonic()
        queue.done("a")
        await env.clock.sleep(60)
        return first, len(queue), queue.statistics().delayed

    assert simulate(scenario) == (3.0, 0, 0)


def test_back_off_doubles_from_5_ms_to_1000_s_with_at_most_a_fifth_of_jitter():
    async def scenario(env):
        queue = WorkQueue(env)
        return [queue.retry("a") for _ in range(40)]

    for n, delay in enumerate(simulate(scenario, seed=3)):
        nominal = min(0.005 * 2**n, 1000)
        assert nominal <= delay <= 1.2 * nominal


def test_forget_starts_the_back_off_anew_and_the_server_can_ask_for_longer():
    async def scenario(env):
        queue = WorkQueue(env)
        for _ in range(10):
            queue.retry("a")
        queue.forget("a")
        return queue.failures("a"), queue.retry("a"), queue.retry("b", at_least_s=30)

    failures, delay, asked = simulate(scenario)
    assert failures == 0
    assert delay <= 0.006
    assert 30 <= asked <= 36


def test_a_cancelled_getter_leaves_its_key_to_the_next():
    async def scenario(env):
        queue = WorkQueue(env)
        first = asyncio.create_task(queue.get())
        second = asyncio.create_task(queue.get())
        await env.clock.sleep(0)
        queue.add("a")
        first.cancel()
        return await second

    assert simulate(scenario) == "a"


def test_shut_down_drops_what_is_queued_and_ends_every_getter():
    async def scenario(env):
        queue = WorkQueue(env)
        getters = [asyncio.create_task(queue.get()) for _ in range(3)]
        await env.clock.sleep(0)
        queue.add_after("later", 5)
        queue.shut_down()
        queue.shut_down()
        queue.add("a")
        ends = await asyncio.gather(*getters, return_exceptions=True)
        return [type(end) for end in ends], len(queue), queue.statistics().delayed

    assert simulate(scenario) == ([QueueClosed] * 3, 0, 0)


def test_drain_hands_out_the_rest_and_waits_for_it():
    async def scenario(env):
        queue = WorkQueue(env)
        seen = []

        async def worker():
            while True:
                try:
                    key = await queue.get()
                except QueueClosed:
                    return
                await env.clock.sleep(1)
                seen.append(key)
                queue.done(key)

        workers = [asyncio.create_task(worker()) for _ in range(2)]
        for key in "abc":
            queue.add(key)
        await env.clock.sleep(0.5)
        queue.add("a")  # dirty while processing: belongs to what was due
        await queue.drain()
        queue.add("d")
        await asyncio.gather(*workers)
        return sorted(seen)

    assert simulate(scenario) == ["a", "a", "b", "c"]


def test_of_two_priorities_the_higher_counts_and_a_raise_goes_to_the_end_of_its_new_level():
    async def scenario(env):
        queue = WorkQueue(env)
        queue.add("low", priority=-100)
        queue.add("raised", priority=-100)
        queue.add("a")
        queue.add("b")
        queue.add("raised", priority=0)
        queue.add("a", priority=-5)
        return [await queue.get() for _ in range(4)], queue.taken_priority("raised")

    assert simulate(scenario) == (["a", "b", "raised", "low"], 0)


def test_an_add_of_a_waiting_key_makes_it_ready_now_and_leaves_nothing_behind():
    async def scenario(env):
        queue = WorkQueue(env)
        queue.add_after("a", 10, priority=7)
        queue.add("a", priority=3)
        key = await queue.get()
        priority = queue.taken_priority(key)
        queue.done(key)
        await env.clock.sleep(60)
        return priority, len(queue), queue.statistics().delayed

    assert simulate(scenario) == (7, 0, 0)


def test_a_retry_keeps_the_priority_with_which_the_key_was_taken():
    async def scenario(env):
        queue = WorkQueue(env)
        queue.add("a", priority=-100)
        queue.retry(await queue.get())
        queue.done("a")
        await env.clock.sleep(1)
        await queue.get()
        kept = queue.taken_priority("a")
        queue.retry("a", priority=9)
        queue.done("a")
        await env.clock.sleep(1)
        await queue.get()
        return kept, queue.taken_priority("a")

    assert simulate(scenario) == (-100, 9)


def test_a_delay_that_is_over_means_now_an_absurd_one_half_a_year_and_no_number_is_an_error():
    async def scenario(env):
        queue = WorkQueue(env)
        queue.add_after("now", -5)
        with pytest.raises(ValueError, match="not a number"):
            queue.add_after("never", math.nan)
        queue.add_after("later", math.inf)
        first = await queue.get()
        queue.done(first)
        second = await queue.get()
        return first, second, env.clock.monotonic()

    assert simulate(scenario) == ("now", "later", MAX_DELAY_S)


def test_a_busy_key_with_a_far_requeue_leaves_no_pile_of_old_times():
    async def scenario(env):
        queue = WorkQueue(env)
        for _ in range(10_000):
            queue.add_after("busy", 3600)
            queue.add("busy")
            queue.done(await queue.get())
        return queue.statistics().delayed, len(queue._waiting._heap)

    delayed, entries = simulate(scenario)
    assert delayed == 0
    assert entries < 100


def test_hundred_thousand_keys_ripen_in_steps_that_let_others_run():
    async def scenario(env):
        queue = WorkQueue(env)
        for n in range(100_000):
            queue.add_after(n, 10)
        longest = 0
        while len(queue) < 100_000:
            before = len(queue)
            await env.clock.sleep(0 if before else 10)
            longest = max(longest, len(queue) - before)
        taken = [await queue.get() for _ in range(100_000)]
        return longest, taken == list(range(100_000)), len(queue)

    longest, in_order, left = simulate(scenario)
    assert longest <= 2000
    assert in_order
    assert left == 0


def test_another_limiter_decides_how_long_failed_keys_wait():
    async def scenario(env):
        queue = WorkQueue(env, limiter=FastSlow(fast_s=1, slow_s=60, tries=1))
        delays = [queue.retry("a"), queue.retry("a")]
        failing = queue.statistics().failing
        queue.forget("a")
        return delays, failing, queue.retry("a")

    assert simulate(scenario) == ([1, 60], 1, 1)


def test_drain_hands_out_by_priority_and_drops_what_waits_for_its_time():
    async def scenario(env):
        queue = WorkQueue(env)
        queue.add("low", priority=-100)
        queue.add("high", priority=1)
        queue.add_after("later", 3600)
        draining = asyncio.create_task(queue.drain())
        await env.clock.sleep(0)
        taken = []
        while not draining.done():
            taken.append(await queue.get())
            queue.done(taken[-1])
            await env.clock.sleep(0)
        with pytest.raises(QueueClosed):
            await queue.get()
        return taken, queue.statistics().delayed

    assert simulate(scenario) == (["high", "low"], 0)


def test_shut_down_ends_a_drain_and_a_second_drain_or_shut_down_does_no_harm():
    async def scenario(env):
        queue = WorkQueue(env)
        queue.add("busy")
        queue.add("left")
        await queue.get()
        draining = asyncio.create_task(queue.drain())
        await env.clock.sleep(1)
        waited = not draining.done()
        queue.shut_down()
        await draining
        await queue.drain()
        queue.shut_down()
        queue.done("busy")
        return waited, queue.closed, len(queue), queue.statistics().processing

    assert simulate(scenario) == (True, True, 0, 0)


def test_a_dump_shows_what_is_in_progress_first_and_ends_at_its_limit():
    async def scenario(env):
        queue = WorkQueue(env)
        queue.add("running", priority=4)
        await queue.get()
        queue.add("running", priority=6)
        queue.retry("failed")
        queue.add("ready")
        queue.add_after("later", 100)
        await env.clock.sleep(3)
        rows = [(one.key, one.state, one.age_s, one.priority, one.failures) for one in queue.dump()]
        return rows, len(queue.dump(2))

    rows, bounded = simulate(scenario)
    assert rows[:3] == [("running", "processing", 3, 4, 0), ("running", "held", 3, 6, 0), ("ready", "ready", 3, 0, 0)]
    assert [row[:2] for row in rows[3:]] == [("failed", "ready"), ("later", "waiting")]
    assert rows[3][4] == 1
    assert rows[4][2] == -97
    assert bounded == 2
