"""The runtimes' controllers."""

import anyio

from ktrain.api import assets, core
from ktrain.api import trainer as api
from ktrain.controllers import runtimes
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.manager.manager import Manager
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.time import simulate


def test_the_legacy_finalizer_goes_and_others_stay():
    async def scenario(env):
        server = ApiServer(env, crds=assets.crds())
        client = Client(server.transport(), env, field_manager="trainer")
        body = {
            "apiVersion": api.API_VERSION,
            "kind": "ClusterTrainingRuntime",
            "metadata": {"name": "rt", "finalizers": [api.IN_USE_FINALIZER, "acme.io/mine"]},
            "spec": {"mlPolicy": {}},
        }
        cache = Cache(client, env)
        controllers = runtimes.make_controllers(client, cache, env)
        async with server.running(), anyio.create_task_group() as tasks:
            await client.create(core.untyped(api.CLUSTER_TRAINING_RUNTIMES), body)
            await tasks.start(Manager(cache=cache, controllers=list(controllers)).run)
            await env.clock.sleep(1)
            found = await client.get(api.CLUSTER_TRAINING_RUNTIMES, "rt")
            tasks.cancel_scope.cancel()
        return found.metadata.finalizers

    assert simulate(scenario) == ("acme.io/mine",)
