"""Turns between the flows of a client."""

import asyncio
from contextlib import suppress

import anyio
import pytest
import structlog

from ktrain.api.core import CONFIG_MAPS
from ktrain.api.meta import Key
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.client.fairness import FLOW, Fairness
from ktrain.framework.client.transport import Response
from ktrain.framework.controller.controller import Controller
from ktrain.framework.errors import ClientBusy, TooManyRequests, TransportError
from ktrain.testing.time import simulate

STORED = b'{"kind":"ConfigMap","metadata":{"name":"a","namespace":"ns"}}'


class Slow:
    """An API server that takes as long for a name as that says, in seconds, and throttles the name `throttled`."""

    def __init__(self):
        self.at_once = 0
        self.most = 0
        self.served = []

    async def request(self, method, path, *, timeout_s, **options):
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        name = path.rpartition("/")[2]
        try:
            if name == "throttled":
                return Response(429, {"retry-after": "1"}, b'{"code":429}')
            wanted_s = float(name)
            await asyncio.sleep(min(wanted_s, timeout_s))
            if wanted_s > timeout_s:
                raise TransportError("no answer")
            self.served.append(FLOW.get())
            return Response(200, {}, STORED)
        finally:
            self.at_once -= 1


async def get_all(client, flow, names, errors=()):
    """Read these at once, as one controller; return when the first and the last answer came."""
    FLOW.set(flow)
    clock, times = client.env.clock, []

    async def one(name):
        with suppress(*errors):
            await client.get(CONFIG_MAPS, name, "ns")
        times.append(clock.monotonic())

    await asyncio.gather(*(one(name) for name in names))
    return times[0], times[-1]


def test_calls_that_find_room_do_not_wait():
    async def main(env):
        fairness = Fairness(env, max_in_flight=4)
        for _ in range(2):
            acquiring = fairness.acquire("a", timeout_s=1)
            with pytest.raises(StopIteration):  # it ends without giving up control
                acquiring.send(None)
        return fairness.in_flight, fairness.waiting

    assert simulate(main) == (2, 0)


def test_a_flow_alone_gets_half_and_each_of_n_flows_finds_a_share():
    async def main(env):
        server = Slow()
        client = Client(server, env, field_manager="me", max_in_flight=12)
        await get_all(client, "a", ["1"] * 30)
        alone, server.most = server.most, 0
        await asyncio.gather(*(asyncio.create_task(get_all(client, flow, ["1"] * 30)) for flow in "abc"))
        return alone, server.most

    assert simulate(main) == (6, 11)


def test_a_flow_that_floods_does_not_hold_up_another():
    async def main(env):
        client = Client(Slow(), env, field_manager="me", max_in_flight=10, timeout_s=1000)
        flood = asyncio.create_task(get_all(client, "flood", ["1"] * 500))
        await asyncio.sleep(0.5)
        calm = await get_all(client, "calm", ["0.1"])
        return calm, await flood

    (_, calm_s), (_, flood_s) = simulate(main)
    assert calm_s == 0.6
    assert flood_s == pytest.approx(100, abs=1)


def test_a_flow_whose_calls_all_hang_does_not_hold_up_two_others():
    async def main(env):
        client = Client(Slow(), env, field_manager="me", max_in_flight=10)
        hang = asyncio.create_task(get_all(client, "hang", ["99"] * 50, (TransportError, ClientBusy)))
        await asyncio.sleep(1)
        others = (asyncio.create_task(get_all(client, flow, ["0.1"] * 10)) for flow in "ab")
        times = await asyncio.gather(*others)
        hang.cancel()
        return max(last for _, last in times)

    assert simulate(main) < 2


def test_an_object_that_is_throttled_holds_no_turn_while_it_waits_and_no_worker_longer_than_the_budget():
    async def main(env):
        server = Slow()
        client = Client(server, env, field_manager="me", max_in_flight=4)
        throttled = asyncio.create_task(get_all(client, "same", ["throttled"] * 20, (TooManyRequests,)))
        others = await get_all(client, "same", ["0.01"] * 20)
        return others[1], (await throttled)[1]

    others_s, throttled_s = simulate(main)
    assert others_s < 0.2
    assert 1 < throttled_s <= 2.5


def test_a_controller_whose_calls_all_hang_does_not_hold_up_another():
    async def main(env):
        client = Client(Slow(), env, field_manager="me", max_in_flight=10)
        cache = Cache(client, env)
        done_s = []

        async def hang(key):
            await get_all(client, FLOW.get(), ["99"] * 50, (TransportError, ClientBusy))

        async def go_on(key):
            await client.get(CONFIG_MAPS, "0.1", "ns")
            done_s.append(env.clock.monotonic())

        async with anyio.create_task_group() as tasks:
            await tasks.start(cache.run)
            for name, reconcile in (("hanging", hang), ("other", go_on)):
                controller = Controller(name, reconcile, env=env, cache=cache)
                await tasks.start(controller.run)
                controller.enqueue(Key("ns", "a"))
                await env.clock.sleep(1)
            tasks.cancel_scope.cancel()
        return done_s

    (done_s,) = simulate(main)
    assert done_s < 1.5


def test_turns_alternate_between_flows_that_wait():
    async def main(env):
        server = Slow()
        client = Client(server, env, field_manager="me", max_in_flight=2, timeout_s=100)
        holding = asyncio.create_task(get_all(client, "z", ["1"]))
        await asyncio.sleep(0.1)
        waiting = [asyncio.create_task(get_all(client, flow, ["1"] * 3)) for flow in "ab"]
        await asyncio.gather(holding, *waiting)
        return "".join(server.served)

    assert simulate(main) == "zababab"


def test_a_call_that_gets_no_turn_in_time_says_who_has_them():
    async def main(env):
        fairness = Fairness(env, max_in_flight=2)
        await fairness.acquire("busy", timeout_s=5)
        with pytest.raises(ClientBusy, match=r"no turn within 5 s: 1 calls .* 1 of them by busy, and 0 more wait"):
            await fairness.acquire("busy", timeout_s=5)
        took_s = env.clock.monotonic()
        fairness.release("busy")
        await fairness.acquire("busy", timeout_s=5)
        return took_s, fairness.in_flight, fairness.waiting

    assert simulate(main) == (5.0, 1, 0)


@pytest.mark.parametrize("seed", range(20))
def test_no_turn_is_lost_whenever_those_who_wait_are_cancelled(seed):
    async def main(env):
        fairness = Fairness(env, max_in_flight=4)

        async def use(flow):
            await fairness.acquire(flow, timeout_s=env.random.uniform(0.5, 3))
            try:
                await env.clock.sleep(env.random.uniform(0, 1))
            finally:
                fairness.release(flow)

        tasks = [asyncio.create_task(use(env.random.choice("abc"))) for _ in range(60)]
        for task in tasks:
            await env.clock.sleep(env.random.choice([0, 0, 0.1, 0.5]))
            if env.random.random() < 0.3:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return fairness.in_flight, fairness.waiting, fairness._held

    assert simulate(main, seed=seed) == (0, 0, {})


def test_a_turn_that_comes_in_the_moment_of_cancellation_goes_to_the_next():
    async def main(env):
        fairness = Fairness(env, max_in_flight=2)
        await fairness.acquire("a", timeout_s=1)
        first, second = (asyncio.create_task(fairness.acquire("a", timeout_s=9)) for _ in range(2))
        await asyncio.sleep(0.1)
        fairness.release("a")  # to the first, which is cancelled before it runs
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await second
        return first.cancelled(), fairness.in_flight

    assert simulate(main) == (True, 1)


def test_a_client_of_an_election_never_waits():
    async def main(env):
        server = Slow()
        client = Client(server, env, field_manager="me", max_in_flight=None)
        await get_all(client, "", ["1"] * 500)
        return server.most, env.clock.monotonic()

    assert simulate(main) == (500, 1.0)


def test_a_long_wait_is_logged_with_whose_it_was_and_a_short_one_is_not():
    async def main(env):
        client = Client(Slow(), env, field_manager="me", max_in_flight=2)
        await get_all(client, "some", ["0.5"] * 4)

    with structlog.testing.capture_logs() as logs:
        simulate(main)

    (line,) = logs
    assert (line["event"], line["flow"], line["seconds"], line["path"][-3:]) == ("api.waited", "some", 1.5, "0.5")


def test_waits_are_measured_and_calls_that_did_not_wait_are_not():
    async def main(env):
        waits = []
        fairness = Fairness(env, max_in_flight=2, waited=lambda seconds, *_: waits.append(seconds))
        await fairness.acquire("a", timeout_s=1)
        waiting = asyncio.create_task(fairness.acquire("a", timeout_s=9))
        await asyncio.sleep(3)
        fairness.release("a")
        await waiting
        return waits

    assert simulate(main) == [3.0]
