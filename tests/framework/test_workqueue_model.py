"""The workqueue against a simple model, and cancelled at every wait."""

import asyncio
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrain.framework.workqueue.queue import QueueClosed, WorkQueue
from ktrain.testing.time import simulate


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


@settings(max_examples=60)
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


@settings(max_examples=200)
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
