"""A node and pods on an embedded server, and waiting for what becomes of them."""

from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio

from ktrain.api.meta import Key
from ktrain.framework import Cache, Client, EventRecorder, Manager
from ktrain.framework.env import system_env
from ktrain.local.apiserver.server import ApiServer
from ktrain.local.scheduler import make_scheduler, serves_pod_groups
from ktrain.local.scheduler.objects import NODES, PODS

GPU = "nvidia.com/gpu"


def gpu_pod(name):
    container = {"name": "c", "image": "i", "resources": {"limits": {GPU: "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container]},
    }


async def one_gpu(client):
    await client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    amounts = {GPU: "1", "pods": "110"}
    await client.patch(NODES, Key("", "n"), {"status": {"capacity": amounts}}, subresource="status")
    # A new node has a taint, that it is not ready.
    return await client.patch(NODES, Key("", "n"), {"spec": {"taints": None}})


class Watcher:
    """Waits until the cache shows a pod as wanted."""

    def __init__(self, pods):
        self._pods = pods
        self._changed = anyio.Event()
        pods.add_handler(self)

    def on_add(self, obj, *, initial):
        self._wake()

    def on_update(self, old, new):
        self._wake()

    def on_delete(self, obj):
        self._wake()

    async def until(self, name, condition):
        while (pod := self._pods.get(Key("default", name))) is None or not condition(pod):
            await self._changed.wait()

    def _wake(self):
        self._changed.set()
        self._changed = anyio.Event()


class Scheduling(NamedTuple):
    """A server with one GPU, and a scheduler at work."""

    client: Client
    cache: Cache
    watch: Watcher


@asynccontextmanager
async def scheduling(*, knows_groups=False):
    """Run a scheduler, which may look at the start for kinds of groups that are there."""
    env = system_env()
    async with ApiServer(env).running() as server:
        client = Client(server.transport(), env, field_manager="test")
        cache = Cache(client, env)
        watch = Watcher(cache.informer(PODS))
        await one_gpu(client)
        recorder = EventRecorder(client, env, component="test")
        groups = {"has_pod_groups": await serves_pod_groups(client)} if knows_groups else {}
        scheduler = make_scheduler(client, cache, env, recorder, **groups)
        async with anyio.create_task_group() as tasks:
            await tasks.start(Manager(cache=cache, controllers=[scheduler], recorder=recorder).run)
            yield Scheduling(client, cache, watch)
            tasks.cancel_scope.cancel()
