import asyncio
import math
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrain.framework.metrics import Metrics
from ktrain.framework.metrics.queue import QueueMetrics
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


def series(registry, name, **labels):
    return registry.get_sample_value(name, {"name": "q", "controller": "q", **labels})


def test_depth_is_told_by_priority_and_ages_are_read_when_somebody_scrapes():
    registry = pytest.importorskip("prometheus_client").CollectorRegistry()

    async def scenario(env):
        queue = WorkQueue(env, metrics=QueueMetrics.of(Metrics(registry), "q"))
        before = series(registry, "workqueue_depth", priority="0")
        for n in range(3):
            queue.add(n, priority=-100)
        queue.add(0, priority=0)
        depths = [series(registry, "workqueue_depth", priority=p) for p in ("0", "-100")]
        await queue.get()
        await env.clock.sleep(2)
        await queue.get()
        await env.clock.sleep(3)
        ages = [
            series(registry, f"workqueue_{name}_seconds")
            for name in ("unfinished_work", "longest_running_processor")
        ]  # fmt: skip
        queue.done(0)
        queue.done(1)
        queue.done(await queue.get())
        return before, depths, ages

    assert simulate(scenario) == (0, [1, 2], [8, 5])
    assert [series(registry, "workqueue_depth", priority=p) for p in ("0", "-100")] == [0, 0]
    assert series(registry, "workqueue_unfinished_work_seconds") == 0
    assert series(registry, "workqueue_adds_total") == 3


def test_more_than_25_priorities_share_one_series():
    registry = pytest.importorskip("prometheus_client").CollectorRegistry()

    async def scenario(env):
        queue = WorkQueue(env, metrics=QueueMetrics.of(Metrics(registry), "q"))
        for n in range(1000):
            queue.add(n, priority=n)
        depths = {
            sample.labels["priority"]: sample.value
            for metric in registry.collect() if metric.name == "workqueue_depth"
            for sample in metric.samples
        }  # fmt: skip
        for _ in range(1000):
            queue.done(await queue.get())
        return depths

    depths = simulate(scenario)
    assert len(depths) == 26
    assert depths["exceeded_cardinality_limit"] == 975
    assert sum(depths.values()) == 1000
    assert series(registry, "workqueue_depth", priority="exceeded_cardinality_limit") == 0


class CancelledAt:
    """
    Runs a coroutine and cancels it at its nth wait: when it begins to wait, or (late) when it was just woken.

    `waits` tells how often it waited.
    """

    def __init__(self, coroutine, n, *, late):
        self._coroutine = coroutine
        self._n = n
        self._late = late
        self.waits = 0

    def __await__(self):
        waiting = self._coroutine.__await__()
        send, value = waiting.send, None
        while True:
            try:
                future = send(value)
            except StopIteration as end:
                return end.value
            self.waits += 1
            if self.waits == self._n and not self._late:
                if future is not None:
                    future.cancel()
                    future._asyncio_future_blocking = False
                send, value = waiting.throw, asyncio.CancelledError()
                continue
            try:
                value = yield future
                send = waiting.send
                if self.waits == self._n:
                    send, value = waiting.throw, asyncio.CancelledError()
            except BaseException as error:  # noqa: BLE001 - handed on
                send, value = waiting.throw, error


async def take_all(queue, env, taken):
    while True:
        try:
            key = await queue.get()
        except QueueClosed:
            return
        try:
            taken.append(key)
            await env.clock.sleep(0)
        finally:
            queue.done(key)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("drained", [False, True])
def test_a_cancellation_at_any_wait_of_a_worker_loses_no_key_and_wakes_who_is_next(drained, late):
    async def scenario(env, n):
        queue, taken = WorkQueue(env), []
        shaky = CancelledAt(take_all(queue, env, taken), n, late=late)

        async def victim():
            await shaky

        tasks = [asyncio.create_task(victim()), asyncio.create_task(take_all(queue, env, taken))]
        for round_ in range(4):
            for key in range(3):
                queue.add((round_, key))
            await env.clock.sleep(0 if round_ % 2 else 1)
        await env.clock.sleep(1)
        queue.add("last")
        await (queue.drain() if drained else env.clock.sleep(1))
        queue.shut_down()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        return taken, ends, shaky.waits

    expected = {(round_, key) for round_ in range(4) for key in range(3)} | {"last"}
    for n in count(1):
        taken, ends, waits = simulate(lambda env, n=n: scenario(env, n))
        assert (set(taken), len(taken)) == (expected, len(expected)), f"cancelled at wait {n}"
        assert ends[1] is None
        if waits < n:
            break
        assert isinstance(ends[0], asyncio.CancelledError)
    assert n > 8


def test_a_cancelled_drain_leaves_the_queue_draining_and_a_second_one_sees_it_through():
    async def scenario(env):
        queue = WorkQueue(env)
        queue.add("a")
        await queue.get()
        first = asyncio.create_task(queue.drain())
        await env.clock.sleep(1)
        first.cancel()
        await env.clock.sleep(1)
        second = asyncio.create_task(queue.drain())
        queue.add("b")
        await env.clock.sleep(1)
        waited = not second.done()
        queue.done("a")
        await second
        return waited, first.cancelled(), len(queue)

    assert simulate(scenario) == (True, True, 0)


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


class Model:
    """A queue with strict priorities, by searching through a dict."""

    def __init__(self):
        self.due = {}  # key -> [state, priority, order]; the order of a waiting key begins with its time
        self.processing = {}
        self.order = count()

    def add(self, key, priority, now):
        self._merge(key, priority, now, now)

    def add_after(self, key, priority, now, delay):
        self._merge(key, priority, now, now + delay if delay > 0 else now)

    def _merge(self, key, priority, now, when):
        entry = self.due.get(key)
        if entry is None or (entry[0] == "waiting" and when < entry[2][0]):
            entry = self.due[key] = [
                "waiting",
                max(priority, entry[1] if entry else priority),
                (when, next(self.order)),
            ]
        elif entry[0] == "ready" and priority > entry[1]:
            self.due[key] = ["ready", priority, (now, next(self.order))]
        else:
            entry[1] = max(entry[1], priority)
        if when <= now and entry[0] == "waiting":
            self._make_due(key, now)

    def _make_due(self, key, now):
        state = "held" if key in self.processing else "ready"
        self.due[key] = [state, self.due[key][1], (now, next(self.order))]

    def wait(self, now):
        for key in sorted((k for k, e in self.due.items() if e[0] == "waiting"), key=lambda k: self.due[k][2]):
            if self.due[key][2][0] <= now:
                self._make_due(key, now)

    def get(self):
        key = min((k for k, e in self.due.items() if e[0] == "ready"), key=lambda k: (-self.due[k][1], self.due[k][2]))
        self.processing[key] = self.due.pop(key)[1]
        return key

    def done(self, key, now):
        del self.processing[key]
        if key in self.due and self.due[key][0] == "held":
            self._make_due(key, now)

    def state(self, name):
        return sorted(key for key, entry in self.due.items() if entry[0] == name)


steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add_after", "get", "get", "done", "wait"]),
        st.integers(0, 5),
        st.sampled_from([-100, 0, 0, 3]),
        st.integers(0, 6),
    ),
    max_size=100,
)


@settings(deadline=None, max_examples=200)
@given(steps=steps)
def test_it_does_what_the_simple_model_does(steps):
    async def scenario(env):
        queue, model = WorkQueue(env), Model()
        for step, key, priority, delay in steps:
            now = env.clock.monotonic()
            match step:
                case "add":
                    queue.add(key, priority=priority)
                    model.add(key, priority, now)
                case "add_after":
                    queue.add_after(key, delay, priority=priority)
                    model.add_after(key, priority, now, delay)
                case "get" if model.state("ready"):
                    taken = await queue.get()
                    assert taken == model.get()
                    assert queue.taken_priority(taken) == model.processing[taken]
                case "done" if key in model.processing:
                    queue.done(key)
                    model.done(key, now)
                case "wait":
                    await env.clock.sleep(delay)
                    await env.clock.sleep(0)  # timers of the same instant fire in any order
                    model.wait(env.clock.monotonic())
            rows = {state: sorted(one.key for one in queue.dump() if one.state == state) for state in
                    ("processing", "ready", "held", "waiting")}  # fmt: skip
            assert rows == {"processing": sorted(model.processing)} | {
                state: model.state(state) for state in ("ready", "held", "waiting")
            }
            assert len(queue) == len(rows["ready"]) == sum(queue.statistics().depths.values())

    simulate(scenario)
