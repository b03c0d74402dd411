"""The scheduler against the embedded server, with a cache that each test fills by hand: it shows what it is told."""

from dataclasses import dataclass

import anyio
import pytest

from ktrain.api.meta import Key
from ktrain.framework import Cache, Client, EventRecorder
from ktrain.framework.cache.informer import Informer
from ktrain.framework.client.transport import Response
from ktrain.framework.env import system_env
from ktrain.framework.errors import ServerError
from ktrain.local.apiserver.server import ApiServer
from ktrain.local.scheduler.controller import Scheduler, View
from ktrain.local.scheduler.objects import PODS

from .living import gpu_pod, one_gpu, scheduling


class Refusing:
    """A transport that answers the first binding with 500."""

    def __init__(self, transport):
        self._transport = transport
        self._left = 1

    async def request(self, method, path, **rest):
        if path.endswith("/binding") and self._left:
            self._left -= 1
            return Response(500, {}, b'{"kind": "Status", "code": 500, "message": "out of order"}')
        return await self._transport.request(method, path, **rest)

    def stream(self, *args, **rest):
        return self._transport.stream(*args, **rest)

    async def aclose(self):
        await self._transport.aclose()


@dataclass
class World:
    client: Client
    scheduler: Scheduler
    pods: Informer

    async def show(self, name):
        """Let the cache see a pod as it is now."""
        pod = await self.client.get(PODS, name, "default")
        self.pods.partitions[0].put(pod.key, pod, int(pod.metadata.resource_version))

    async def bound(self, *names):
        return [name for name in names if (await self.client.get(PODS, name, "default")).spec.node_name]

    async def run(self):
        """One pass."""
        await self.scheduler.reconcile(Key("", "cluster"))


async def a_world(names, transport=lambda inner: inner):
    env = system_env()
    client = Client(transport(ApiServer(env).transport()), env, field_manager="test")
    node = await one_gpu(client)
    view = View(Cache(client, env))
    await view.nodes.partitions[0].replace({node.key: node}, 1)
    recorder = EventRecorder(client, env, component="test")
    world = World(client, Scheduler(client, env, recorder, view), view.pods)
    for name in names:
        await client.create(PODS, gpu_pod(name))
        await world.show(name)
    return world


async def test_a_gpu_is_promised_once_although_the_cache_does_not_show_the_binding_yet():
    world = await a_world(["a", "b", "c"])

    await world.run()
    await world.run()

    assert await world.bound("a", "b", "c") == ["a"]


async def test_a_bound_pod_keeps_its_gpu_when_it_is_judged_again_before_the_cache_shows_it():
    world = await a_world(["a", "b"])

    await world.run()
    await world.run()

    assert await world.bound("a", "b") == ["a"]


async def test_a_gpu_is_free_again_when_the_pod_that_was_bound_is_gone():
    world = await a_world(["a", "b"])
    await world.run()

    world.pods.partitions[0].remove(Key("default", "a"), None, 100)
    await world.run()

    assert await world.bound("b") == ["b"]


async def test_a_refused_binding_promises_nothing():
    world = await a_world(["a", "b"], Refusing)

    with pytest.raises(ServerError):
        await world.run()
    await world.run()

    assert await world.bound("a", "b") == ["a"]


async def succeed(client, key):
    await client.patch(PODS, key, {"status": {"phase": "Succeeded"}}, subresource="status")


async def kill(client, key):
    await client.delete(PODS, key, grace_period_s=0)


@pytest.mark.parametrize("end", [succeed, kill])
async def test_the_end_of_a_pod_wakes_those_that_wait_for_its_gpu(end):
    async with scheduling() as (client, _, watch):
        for name in ("a", "b"):
            await client.create(PODS, gpu_pod(name))
            await watch.until(name, lambda pod: pod.spec.node_name or pod.status.conditions)
        with anyio.fail_after(2):  # well before the scheduler would look again by itself
            await end(client, Key("default", "a"))
            await watch.until("b", lambda pod: pod.spec.node_name)
