"""When an informer shows a write, and when it is not worth waiting for one."""

import asyncio

import pytest

from ktrain.api.core import CONFIG_MAPS, PODS
from ktrain.api.meta import Key
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.errors import KindMissing
from ktrain.framework.writes import Write, recording
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.time import simulate

from .following import SYNCED, event, pod, running

FOREVER = float("inf")
KEY = Key("default", "a")


def body(name="a", **metadata):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", **metadata}}


def write(version, *, uid="u", **labels):
    return Write("", "configmaps", KEY, uid, version, labels)


def on_a_server(scenario, **scope):
    """Run a scenario with a client, an informer of config maps, and its cache."""

    async def main(env):
        client = Client(ApiServer(env).transport(), env, field_manager="test")
        cache = Cache(client, env)
        informer = cache.informer(CONFIG_MAPS, **scope)
        running = asyncio.create_task(cache.run())
        await cache.wait_for_sync(10)
        try:
            return await scenario(client, cache, informer)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    return simulate(main)


def test_a_write_that_takes_the_object_out_of_the_selector_is_waited_for_until_it_is_gone():
    async def scenario(client, cache, informer):
        with recording() as writes:
            await client.create(CONFIG_MAPS, body(labels={"l": "1"}))
            seen = await cache.wait_for_writes(writes), informer.get(KEY) is not None
            writes.clear()
            await client.patch(CONFIG_MAPS, KEY, {"metadata": {"labels": {"l": None}}})
            return seen, await cache.wait_for_writes(writes), informer.get(KEY)

    assert on_a_server(scenario, label_selector="l=1") == ((True, True), True, None)


@pytest.mark.parametrize("scope", [{"label_selector": "l=1"}, {"namespace": "other"}])
def test_a_write_outside_the_scope_is_not_waited_for(scope):
    async def scenario(client, cache, informer):
        with recording() as writes:
            await client.create(CONFIG_MAPS, body())
            return cache.shows(writes), len(informer)

    assert on_a_server(scenario, **scope) == (True, 0)


def test_a_deletion_that_finalizers_hold_up_shows_with_its_time_and_not_only_when_it_is_done():
    async def scenario(client, cache, informer):
        with recording() as writes:
            await client.create(CONFIG_MAPS, body(finalizers=["example.org/x"]))
            await client.delete(CONFIG_MAPS, KEY)
            shown = await cache.wait_for_writes(writes)
            return shown, informer.get(KEY).metadata.deletion_timestamp is not None

    assert on_a_server(scenario) == (True, True)


def test_a_deletion_shows_when_another_object_has_taken_the_name():
    async def scenario(client, cache, informer):
        await client.create(CONFIG_MAPS, body())
        with recording() as writes:
            await client.delete(CONFIG_MAPS, KEY)
            await client.create(CONFIG_MAPS, body())
            return await cache.wait_for_writes(writes), informer.get(KEY).metadata.uid == writes[1].uid

    assert on_a_server(scenario) == (True, True)


@pytest.mark.parametrize("ending", ["missing", "released"])
def test_who_waits_for_a_write_is_let_go_when_the_informer_ends(ending):
    async def scenario(client, cache, informer):
        waiting = asyncio.create_task(informer.wait_for(write(10**9)))
        deleted = asyncio.create_task(informer.wait_for(write(0)))
        await client.create(CONFIG_MAPS, body())
        await asyncio.sleep(1)
        before = waiting.done()
        if ending == "missing":
            informer.partitions[0].failed(KindMissing("gone"))
        else:
            cache.release(informer)
        await asyncio.wait([waiting, deleted], timeout=1)
        return before, waiting.done(), deleted.done()

    assert on_a_server(scenario) == (False, True, True)


def test_after_the_server_went_back_old_versions_prove_nothing():
    async def scenario(client, cache, informer):
        await informer.partitions[0].replace({}, 5_000)
        before = informer.shows(write(4_000))
        await informer.partitions[0].replace({}, 3_000)
        return before, informer.shows(write(4_000))

    assert on_a_server(scenario) == (True, False)


def test_a_deletion_of_what_the_same_pass_has_made_is_waited_for_although_the_cache_knows_neither_yet(script):
    script.streams.append([*SYNCED, 1.0, event("ADDED", pod("new", 8)), 1.0, event("DELETED", pod("new", 9)), FOREVER])
    made = Write("", "pods", Key("ns", "new"), "uid-new", 8, {})
    deleted = Write("", "pods", Key("ns", "new"), "uid-new", 0, {})

    async def main(env):
        async with running(script, env) as cache:
            informer = cache.informer(PODS)
            await informer.wait_for_sync()
            shown = await cache.wait_for_writes([made, deleted])
            return shown, env.clock.monotonic(), informer.get(Key("ns", "new"))

    assert simulate(main) == (True, pytest.approx(2), None)


def test_of_two_informers_of_one_kind_the_slower_one_is_waited_for_as_well(script):
    made = event("ADDED", pod("new", 8, l="1"))
    script.streams += [[*SYNCED, 1.0, made, FOREVER], [*SYNCED, 3.0, made, FOREVER]]
    write = Write("", "pods", Key("ns", "new"), "uid-new", 8, {"l": "1"})

    async def main(env):
        async with running(script, env) as cache:
            informers = cache.informer(PODS), cache.informer(PODS, label_selector="l=1")
            await cache.wait_for_sync(0.5)
            await env.clock.sleep(2)
            early = [informer.shows(write) for informer in informers], cache.shows([write])
            return early, await cache.wait_for_writes([write]), env.clock.monotonic()

    assert simulate(main) == (([True, False], False), True, pytest.approx(3))


def test_who_gave_up_waiting_leaves_nothing_behind_in_an_informer_that_hears_nothing():
    async def scenario(client, cache, informer):
        await client.create(CONFIG_MAPS, body())
        uid = (await client.get(CONFIG_MAPS, "a", "default")).metadata.uid
        await asyncio.sleep(1)
        late = [write(10**9), write(0, uid=uid)]
        assert not await cache.wait_for_writes(late[1:], timeout_s=0.001)
        for _ in range(300):
            assert not await cache.wait_for_writes(late[:1], timeout_s=0.001)
            assert not await cache.wait_for_writes(late[1:], timeout_s=0.001)
        return len(informer.partitions[0]._waiters._by_version) < 150, informer.partitions[0]._waiters._by_key

    assert on_a_server(scenario) == (True, {})


def test_writes_of_a_task_that_outlives_its_pass_are_not_collected_for_ever():
    async def scenario(client, cache, informer):
        async def outlive():
            for number in range(3):
                await client.apply(CONFIG_MAPS, body() | {"data": {"n": str(number)}})
                await asyncio.sleep(1)

        with recording() as writes:
            task = asyncio.create_task(outlive())
            await asyncio.sleep(0.5)
        await task
        return len(writes)

    assert on_a_server(scenario) == 1
