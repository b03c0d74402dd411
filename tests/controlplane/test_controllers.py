"""Controllers against each server: what wakes them, and kinds that come, go and return."""

import asyncio
from contextlib import asynccontextmanager

import anyio
import pytest

from ktrain.api.core import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, untyped
from ktrain.api.meta import Key, Object, Resource
from ktrain.framework import Cache, Controller
from ktrain.framework.controller.context import current_reason
from ktrain.framework.controller.predicates import GENERATION_CHANGED
from ktrain.framework.errors import NotFound

from ..definitions import definition
from ..waiting import until

GADGETS = Resource("example.dev", "v1", "Gadget", "gadgets", namespaced=True, type=Object)
DEFINITIONS = untyped(CUSTOM_RESOURCE_DEFINITIONS)
DEFINITION = definition(GADGETS, subresources={"status": {}})


class Passes:
    """A reconcile function that notes what it is called for."""

    def __init__(self):
        self.reasons = []
        self._news = asyncio.Event()

    async def __call__(self, key):
        self.reasons.append((key.name, current_reason().split()[-1]))
        self._news.set()

    async def until(self, *expected):
        await self.wait_for(lambda: self.reasons == list(expected))

    async def wait_for(self, condition):
        async with asyncio.timeout(30):
            while not condition():
                self._news.clear()
                await self._news.wait()


@pytest.fixture
def working(control_plane):
    """`async with working(cache, controller):` runs both."""

    @asynccontextmanager
    async def run(cache, controller):
        async with anyio.create_task_group() as tasks:
            await tasks.start(cache.run)
            await tasks.start(controller.run)
            yield
            tasks.cancel_scope.cancel()

    return run


@pytest.fixture
async def installed(control_plane):
    """Install and remove the CRD of gadgets; it is removed in the end."""
    client = control_plane.client()

    async def gone():
        try:
            await client.delete(DEFINITIONS, Key("", "gadgets.example.dev"))
        except NotFound:
            return
        await control_plane.wait_for(DEFINITIONS, "gadgets.example.dev", lambda found: found is None)

    async def there():
        await client.create(DEFINITIONS, DEFINITION)
        await control_plane.wait_for(
            DEFINITIONS,
            "gadgets.example.dev",
            lambda found: found and ("Established", "True") in conditions(found),
        )

    yield there, gone
    await gone()


def conditions(definition):
    # A real API server writes null here for a moment.
    return {(one["type"], one["status"]) for one in definition["status"]["conditions"] or ()}


async def create_gadget(control_plane, name):
    meta = {"name": name, "namespace": control_plane.namespace}
    body = {"apiVersion": "example.dev/v1", "kind": "Gadget", "metadata": meta, "spec": {"n": 1}}
    client = control_plane.client()
    # It is served a moment after it is established.
    return await until(lambda: client.create(GADGETS, body), despite=NotFound)


async def test_a_controller_waits_for_its_crd_and_lives_through_its_end_and_its_return(
    control_plane, working, installed
):
    install, remove = installed
    passes, cache = Passes(), Cache(control_plane.client(), control_plane.env)
    controller = Controller("gadgets", passes, env=control_plane.env, cache=cache, sync_timeout_s=1)
    gadgets = cache.informer(GADGETS, namespace=control_plane.namespace)
    controller.for_(gadgets)
    async with working(cache, controller):
        assert gadgets.missing
        await install()
        await create_gadget(control_plane, "a")
        await passes.wait_for(lambda: ("a", "existed") in passes.reasons or ("a", "added") in passes.reasons)
        await remove()
        await passes.wait_for(lambda: passes.reasons[-1] == ("a", "deleted"))
        passes.reasons.clear()
        await install()
        await create_gadget(control_plane, "b")
        await passes.wait_for(lambda: passes.reasons)
        assert {name for name, _ in passes.reasons} == {"b"}


async def test_the_status_of_an_object_is_no_news_for_who_asked_for_the_generation(control_plane, working, installed):
    install, _ = installed
    await install()
    await create_gadget(control_plane, "a")
    client, passes = control_plane.client(), Passes()
    key = Key(control_plane.namespace, "a")
    cache = Cache(client, control_plane.env)
    controller = Controller("gadgets", passes, env=control_plane.env, cache=cache)
    controller.for_(cache.informer(GADGETS, namespace=control_plane.namespace), predicate=GENERATION_CHANGED)
    async with working(cache, controller):
        await passes.until(("a", "existed"))
        await client.patch(GADGETS, key, {"status": {"phase": "Ready"}}, subresource="status")
        await client.patch(GADGETS, key, {"metadata": {"labels": {"a": "b"}}})
        await client.patch(GADGETS, key, {"spec": {"n": 2}})
        await passes.until(("a", "existed"), ("a", "updated"))
        await client.delete(GADGETS, key)
        await passes.until(("a", "existed"), ("a", "updated"), ("a", "deleted"))


async def test_an_owner_is_woken_by_its_child_whichever_way_it_is_owned(control_plane, working, config_map):
    client, passes = control_plane.client(), Passes()
    owner = await client.create(CONFIG_MAPS, config_map("owner", {}))
    cache = Cache(client, control_plane.env)
    controller = Controller("owners", passes, env=control_plane.env, cache=cache)
    children = cache.informer(CONFIG_MAPS, namespace=control_plane.namespace, label_selector="child=yes")
    controller.owns(children, owner=CONFIG_MAPS, every_owner=True)
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
    async with working(cache, controller):
        for name, more in (("controlled", {"controller": True}), ("owned", {})):
            body = config_map(name, {})
            body["metadata"] |= {"labels": {"child": "yes"}, "ownerReferences": [ref | more]}
            await client.create(CONFIG_MAPS, body)
            await passes.until(*[("owner", "added")] * (1 if more else 2))
