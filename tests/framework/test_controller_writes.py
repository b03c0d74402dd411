"""A pass sees what the one before it wrote: how long a key waits for that, and who does not."""

from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from ktrain.api.core import CONFIG_MAPS
from ktrain.api.meta import Key
from ktrain.framework.controller.controller import Result
from ktrain.framework.metrics import Metrics
from ktrain.testing.time import simulate

from .controlling import A, config_map, running


def test_a_pass_sees_what_the_one_before_wrote_even_if_the_watch_is_late():
    """The defect that makes operators create children twice: here the watch is three seconds behind."""

    async def scenario(env):
        seen = []

        async def reconcile(client, informer, key):
            if key != A:
                return None
            seen.append((informer.get(key).data.get("step"), env.clock.monotonic()))
            if len(seen) == 3:
                return None
            await client.patch(CONFIG_MAPS, key, {"data": {"step": str(len(seen))}})
            return Result(requeue_after_s=0.001)

        async with running(env, reconcile, transport=lambda server: Late(server.transport(), env)) as (_, client):
            await client.create(CONFIG_MAPS, config_map("a"))
            await env.clock.sleep(60)
        return seen

    seen = simulate(scenario)
    assert [step for step, _ in seen] == [None, "1", "2"]
    assert seen[1][1] - seen[0][1] == pytest.approx(3, abs=0.1)


def test_a_deletion_counts_as_seen_when_the_object_is_gone_from_the_cache():
    async def scenario(env):
        seen = []

        async def reconcile(client, informer, key):
            if key != A:
                return None
            seen.append(informer.get(key) is not None)
            if len(seen) == 1:
                await client.delete(CONFIG_MAPS, key)
                return Result(requeue_after_s=0.001)
            return None

        async with running(env, reconcile, transport=lambda server: Late(server.transport(), env)) as (_, client):
            await client.create(CONFIG_MAPS, config_map("a"))
            await env.clock.sleep(60)
        return seen

    assert simulate(scenario)[:2] == [True, False]


def test_waiting_for_own_writes_ends_after_five_seconds_and_holds_back_no_other_key():
    async def scenario(env):
        starts = []

        async def reconcile(client, informer, key):
            if key.namespace != "default" or informer.get(key) is None:
                return
            starts.append((key.name, env.clock.monotonic()))
            if key == A and len(starts) == 1:
                late.delay_s = 1000  # from here on the watch shows nothing
                await client.patch(CONFIG_MAPS, key, {"data": {"x": "1"}})
                controller.enqueue(key)
                controller.enqueue(Key("default", "b"))

        def transport(server):
            nonlocal late
            late = Late(server.transport(), env, delay_s=0)
            return late

        late = None
        async with running(env, reconcile, transport=transport) as (controller, client):
            await client.create(CONFIG_MAPS, config_map("b"))
            await env.clock.sleep(1)
            starts.clear()
            await client.create(CONFIG_MAPS, config_map("a"))
            await env.clock.sleep(20)
        first = starts[0][1]
        return [(name, round(when - first)) for name, when in starts]

    assert simulate(scenario) == [("a", 0), ("b", 0), ("a", 5)]


def test_holds_are_bounded_beyond_that_the_worker_waits_with_its_key(monkeypatch):
    monkeypatch.setattr("ktrain.framework.controller.holds.MAX_HOLDS", 2)
    registry = CollectorRegistry()

    async def scenario(env):
        starts, held = [], []

        async def reconcile(client, informer, key):
            if key.namespace == "default" and (stored := informer.get(key)) and not stored.data.get("x"):
                starts.append((key.name, env.clock.monotonic()))
                await client.patch(CONFIG_MAPS, key, {"data": {"x": "1"}})
            held.append(registry.get_sample_value("ktrain_own_write_holds", {"controller": "test"}))

        options = {"transport": lambda server: Late(server.transport(), env), "metrics": Metrics(registry)}
        async with running(env, reconcile, **options) as (_, client):
            for name in "abcd":
                await client.create(CONFIG_MAPS, config_map(name))
            await env.clock.sleep(60)
        return starts, max(held)

    starts, most = simulate(scenario)
    assert [name for name, _ in starts] == ["a", "b", "c", "d"]
    assert most <= 2
    assert registry.get_sample_value("ktrain_own_write_holds", {"controller": "test"}) == 0
    waits = registry.get_sample_value("ktrain_own_write_wait_seconds_count", {"controller": "test"})
    assert waits == 4


class Late:
    """A transport whose watches show everything some seconds late."""

    def __init__(self, inner, env, *, delay_s=3.0):
        self._inner = inner
        self._env = env
        self.delay_s = delay_s
        self.request = inner.request

    @asynccontextmanager
    async def stream(self, path, **options):
        async with self._inner.stream(path, **options) as stream:
            yield stream._replace(lines=self._delayed(stream.lines))

    async def _delayed(self, lines):
        async for line in lines:
            if b'"BOOKMARK"' not in line:
                await self._env.clock.sleep(self.delay_s)
            yield line
