import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrain.framework.workqueue import QueueClosed, WorkQueue
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


actions = st.lists(
    st.tuples(
        st.sampled_from(["add", "add_after", "retry", "forget", "wait"]),
        st.integers(0, 4),
        st.floats(0, 20, allow_nan=False),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=60)
@given(actions=actions, workers=st.integers(1, 4), seed=st.integers(0, 1000))
def test_no_key_is_lost_or_in_two_workers_whatever_happens(actions, workers, seed):
    async def scenario(env):
        queue = WorkQueue(env)
        busy, last_run, asked, added = set(), {}, set(), {}

        async def worker():
            while True:
                try:
                    key = await queue.get()
                except QueueClosed:
                    return
                assert key not in busy
                busy.add(key)
                last_run[key] = env.clock.monotonic()
                await env.clock.sleep(env.random.uniform(0, 2))
                busy.remove(key)
                queue.done(key)

        tasks = [asyncio.create_task(worker()) for _ in range(workers)]
        for action, key, amount in actions:
            match action:
                case "add":
                    queue.add(key)
                    added[key] = env.clock.monotonic()
                case "add_after":
                    queue.add_after(key, amount)
                case "retry":
                    queue.retry(key)
                case "forget":
                    queue.forget(key)
                case "wait":
                    await env.clock.sleep(amount)
            if action in ("add", "add_after", "retry"):
                asked.add(key)
        await env.clock.sleep(2000)
        statistics = queue.statistics()
        queue.shut_down()
        await asyncio.gather(*tasks)
        return last_run, asked, added, statistics

    last_run, asked, added, statistics = simulate(scenario, seed=seed)
    assert set(last_run) == asked
    assert all(last_run[key] >= when for key, when in added.items())
    assert (statistics.ready, statistics.processing, statistics.delayed) == (0, 0, 0)
