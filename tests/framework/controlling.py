"""A controller of config maps on an embedded server."""

from contextlib import asynccontextmanager

import anyio

from ktrain.api.core import CONFIG_MAPS
from ktrain.api.meta import Key
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.controller.controller import Controller
from ktrain.local.apiserver.server import ApiServer

A = Key("default", "a")


def config_map(name, **data):
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


@asynccontextmanager
async def running(env, reconcile, *, transport=None, watch=CONFIG_MAPS, batch_s=0.0, **options):
    """Run a controller of config maps on an embedded server."""
    server = ApiServer(env)
    client = Client(transport(server) if transport else server.transport(), env, field_manager="test")
    cache = Cache(client, env)
    informer = cache.informer(watch)
    controller = Controller("test", lambda key: reconcile(client, informer, key), env=env, cache=cache, **options)
    controller.watches(informer, batch_s=batch_s)
    async with anyio.create_task_group() as tasks:
        await tasks.start(cache.run)
        await tasks.start(controller.run)
        yield controller, client
        tasks.cancel_scope.cancel()
