"""A node and pods on an embedded server, and waiting for what becomes of them."""

import anyio

from ktrain.api.meta import Key
from ktrain.local.scheduler.objects import NODES

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
