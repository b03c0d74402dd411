"""Caches against each server: content, changes, selectors, and one's own writes."""

import asyncio

from ktrain.api.core import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, SECRETS, untyped
from ktrain.api.meta import Key, Object, Resource
from ktrain.framework import Cache, Controller, Manager
from ktrain.framework.client.codec import accept_header
from ktrain.framework.errors import NotFound
from ktrain.framework.writes import recording

from ..definitions import definition
from ..waiting import until


class Journal:
    """Notes what an informer tells; waits for how much it has told."""

    def __init__(self):
        self.told = []
        self._news = asyncio.Event()

    def on_add(self, obj, *, initial):
        self._note(("initial" if initial else "added", obj.metadata.name))

    def on_update(self, old, new):
        self._note(("updated", new.metadata.name, old.data, new.data))

    def on_delete(self, obj):
        self._note(("deleted", obj.metadata.name))

    def _note(self, what):
        self.told.append(what)
        self._news.set()

    async def first(self, count):
        async with asyncio.timeout(20):
            while len(self.told) < count:
                self._news.clear()
                await self._news.wait()
        return self.told[:count]


async def test_handlers_hear_what_was_there_and_every_change_since(control_plane, informing, config_map):
    client = control_plane.client()
    await client.create(CONFIG_MAPS, config_map("old", labels={"l": "1"}))
    await client.create(CONFIG_MAPS, config_map("other"))
    journal = Journal()

    async with informing() as cache:
        maps = cache.informer(CONFIG_MAPS, namespace=control_plane.namespace, label_selector="l=1")
        maps.add_handler(journal)
        await cache.wait_for_sync(20)
        await client.create(CONFIG_MAPS, config_map("new", {"k": "1"}, labels={"l": "1"}))
        await client.patch(CONFIG_MAPS, Key(control_plane.namespace, "new"), {"data": {"k": "2"}})
        # Losing the label is leaving the informer's scope.
        await client.patch(CONFIG_MAPS, Key(control_plane.namespace, "new"), {"metadata": {"labels": {"l": None}}})
        await client.delete(CONFIG_MAPS, Key(control_plane.namespace, "old"))

        assert await journal.first(5) == [
            ("initial", "old"),
            ("added", "new"),
            ("updated", "new", {"k": "1"}, {"k": "2"}),
            ("deleted", "new"),
            ("deleted", "old"),
        ]
        assert maps.list() == []


async def test_a_cache_shows_the_writes_it_was_waited_for(control_plane, informing, config_map):
    client = control_plane.client()
    namespace = control_plane.namespace

    async with informing() as cache:
        maps = cache.informer(CONFIG_MAPS, namespace=namespace)
        await cache.wait_for_sync(20)
        with recording() as writes:
            for number in range(20):
                await client.create(CONFIG_MAPS, config_map(f"c{number}"))
            await client.delete(CONFIG_MAPS, Key(namespace, "c0"))
            await client.patch(CONFIG_MAPS, Key(namespace, "c1"), {"data": {"k": "v"}})

        assert await cache.wait_for_writes(writes, timeout_s=20)
        assert maps.get(Key(namespace, "c0")) is None
        assert maps.get(Key(namespace, "c1")).data == {"k": "v"}
        assert {f"c{number}" for number in range(1, 20)} <= {each.metadata.name for each in maps.list()}


async def test_a_reconciler_never_reads_its_own_past(control_plane, config_map):
    """Each pass counts one further and asks for another; a stale read would count the same number twice."""
    client = control_plane.client()
    namespace = control_plane.namespace
    cache = Cache(client, control_plane.env)
    maps = cache.informer(CONFIG_MAPS, namespace=namespace, field_selector="metadata.name=counter")
    seen, done = [], asyncio.Event()

    async def reconcile(key):
        count = int(maps.get(key).data["count"])
        seen.append(count)
        if count == 25:
            done.set()
        else:
            await client.patch(CONFIG_MAPS, key, {"data": {"count": str(count + 1)}})
            controller.enqueue(key)

    controller = Controller("counting", reconcile, env=control_plane.env, cache=cache)
    controller.watches(maps)
    await client.create(CONFIG_MAPS, config_map("counter", {"count": "0"}))

    running = asyncio.create_task(Manager(cache=cache, controllers=[controller]).run())
    async with asyncio.timeout(20):
        await done.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert sorted(set(seen)) == list(range(26))
    assert seen == sorted(seen)
    assert len([count for count in seen if count < 25]) == 25


async def test_who_reads_metadata_only_is_sent_no_more_and_sees_the_same_objects(control_plane, informing):
    client, namespace = control_plane.client(), control_plane.namespace
    meta = {"namespace": namespace, "labels": {"test": "metadata"}}
    body = {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "hunter2"}}
    await client.create(SECRETS, {**body, "metadata": {**meta, "name": "early"}})
    journal = Journal()

    async with informing() as cache:
        secrets = cache.informer(SECRETS, namespace=namespace, label_selector="test=metadata")
        secrets.add_handler(journal)
        await cache.wait_for_sync(20)
        await client.create(SECRETS, {**body, "metadata": {**meta, "name": "late"}})
        assert await journal.first(2) == [("initial", "early"), ("added", "late")]
        seen = secrets.list()

    listed = (await client.list(SECRETS, namespace, label_selector="test=metadata")).items
    got = await client.get(SECRETS, "early", namespace)
    assert {(obj.kind, obj.api_version) for obj in (*seen, *listed, got)} == {("Secret", "v1")}
    answers = [
        await client.raw("GET", SECRETS.path(namespace), headers=accept_header(SECRETS, many=True)),
        await client.raw("GET", SECRETS.path(namespace, "early"), headers=accept_header(SECRETS)),
    ]
    assert [b"aHVudGVyMg==" in answer.body for answer in answers] == [False, False]


WIDGETS = Resource("cache.example.org", "v1", "Widget", "widgets", namespaced=True, type=Object)
DEFINITIONS = untyped(CUSTOM_RESOURCE_DEFINITIONS)


async def test_a_kind_that_comes_goes_and_comes_again_is_followed_without_a_restart(control_plane, informing):
    client, namespace = control_plane.client(), control_plane.namespace
    body = {"apiVersion": "cache.example.org/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": namespace}}

    async def install():
        await client.create(DEFINITIONS, definition(WIDGETS))
        return await until(lambda: client.create(WIDGETS, body), despite=NotFound)

    async def remove():
        await client.delete(DEFINITIONS, Key("", WIDGETS.qualified_name))

    async with informing() as cache:
        widgets = cache.informer(WIDGETS)
        await cache.wait_for_sync(20)
        assert (widgets.missing, widgets.synced) == (True, False)

        first = await install()
        await until(lambda: widgets.synced and len(widgets) == 1, within_s=40)
        assert not widgets.missing

        await remove()
        await until(lambda: widgets.missing, within_s=40)
        assert (widgets.synced, len(widgets)) == (False, 0)

        second = await install()
        await until(lambda: widgets.synced and len(widgets) == 1, within_s=40)
        assert widgets.get(second.metadata.key).metadata.uid == second.metadata.uid != first.metadata.uid
        assert widgets.statistics().relists == {"expired": 0, "went_back": 0, "missing": 1, "crashed": 0}
    await remove()


async def test_changes_can_be_followed_at_leisure_and_an_informer_given_back(control_plane, informing, config_map):
    client, namespace = control_plane.client(), control_plane.namespace

    async with informing() as cache:
        maps = cache.informer(CONFIG_MAPS, namespace=namespace, field_selector="metadata.name=m")
        with maps.subscribe() as changes:
            await cache.wait_for_sync(20)
            with recording() as writes:
                old = await client.create(CONFIG_MAPS, config_map("m"))
                await client.patch(CONFIG_MAPS, Key(namespace, "m"), {"data": {"k": "1"}})
            assert await cache.wait_for_writes(writes, timeout_s=20)
            came = await anext(changes)
            with recording() as writes:
                await client.delete(CONFIG_MAPS, Key(namespace, "m"))
                new = await client.create(CONFIG_MAPS, config_map("m"))
            assert await cache.wait_for_writes(writes, timeout_s=20)
            went, again = await anext(changes), await anext(changes)
            cache.release(maps)

            assert (came.old, came.new.data) == (None, {"k": "1"})
            assert (went.old.metadata.uid, went.new) == (old.metadata.uid, None)
            assert (again.old, again.new.metadata.uid) == (None, new.metadata.uid)
            assert [change async for change in changes] == []
    assert (maps.released, len(maps)) == (True, 0)
