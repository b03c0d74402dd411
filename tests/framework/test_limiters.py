import pytest

from ktrain.framework.workqueue.limiters import Bucket, Exponential, FastSlow, MaxOf, MaxWait
from ktrain.testing.time import simulate


def test_exponential_doubles_from_5_ms_to_1000_s_and_jitter_adds_at_most_a_fifth():
    async def scenario(env):
        limiter = Exponential(env)
        return [limiter.delay_s("a") for _ in range(2000)]

    delays = simulate(scenario, seed=3)
    for n, delay in enumerate(delays):
        nominal = min(0.005 * 2 ** min(n, 60), 1000)
        assert nominal <= delay <= 1.2 * nominal


def test_keys_that_fail_together_do_not_come_back_together():
    async def scenario(env):
        limiter = Exponential(env)
        return {limiter.delay_s(key) for key in range(100)}

    assert len(simulate(scenario)) == 100


def test_without_jitter_the_sequence_is_the_one_of_client_go():
    async def scenario(env):
        limiter = Exponential(env, jitter=0)
        return [limiter.delay_s("a") for _ in range(20)]

    delays = simulate(scenario)
    assert delays[:8] == pytest.approx([0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64])
    assert delays[17:] == pytest.approx([655.36, 1000, 1000])


def test_forget_begins_anew_with_that_key_alone():
    async def scenario(env):
        limiter = Exponential(env, jitter=0)
        for _ in range(5):
            limiter.delay_s("a")
            limiter.delay_s("b")
        limiter.forget("a")
        limiter.forget("never seen")
        return limiter.failures("a"), limiter.failures("b"), limiter.failing(), limiter.delay_s("a")

    assert simulate(scenario) == (0, 5, 1, 0.005)


def test_a_bucket_lets_a_burst_go_then_spaces_all_keys_and_fills_up_again():
    async def scenario(env):
        bucket = Bucket(env, rate=10, burst=3)
        first = [bucket.delay_s(key) for key in "abcde"]
        await env.clock.sleep(100)
        return first, [bucket.delay_s(key) for key in "abcd"], (bucket.failures("a"), bucket.failing())

    first, later, counts = simulate(scenario)
    assert first == pytest.approx([0, 0, 0, 0.1, 0.2])
    assert later == pytest.approx([0, 0, 0, 0.1])
    assert counts == (0, 0)


def test_fast_slow_gives_a_few_quick_tries():
    limiter = FastSlow(fast_s=0.1, slow_s=60, tries=2)

    assert [limiter.delay_s("a") for _ in range(4)] == [0.1, 0.1, 60, 60]
    assert limiter.delay_s("b") == 0.1


def test_max_of_is_the_longest_delay_and_every_part_counts_and_forgets():
    slow, fast = FastSlow(fast_s=1, slow_s=5, tries=2), FastSlow(fast_s=2, slow_s=3, tries=1)
    limiter = MaxOf(slow, fast)

    assert [limiter.delay_s("a") for _ in range(3)] == [2, 3, 5]
    assert (limiter.failures("a"), slow.failures("a"), limiter.failing()) == (3, 3, 1)
    limiter.forget("a")
    assert (limiter.failures("a"), slow.failures("a"), fast.failures("a")) == (0, 0, 0)


def test_max_wait_caps_another_and_leaves_its_counting():
    limiter = MaxWait(FastSlow(fast_s=1, slow_s=60, tries=1), 10)

    assert [limiter.delay_s("a") for _ in range(2)] == [1, 10]
    assert (limiter.failures("a"), limiter.failing()) == (2, 1)
    limiter.forget("a")
    assert limiter.delay_s("a") == 1
