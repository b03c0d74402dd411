"""A look inside a running operator."""

import aiohttp
import anyio
import pytest

from ktrain.api.core import CONFIG_MAPS
from ktrain.framework.env import system_env
from ktrain.framework.operator.operator import Operator
from ktrain.framework.operator.settings import Settings
from ktrain.local.apiserver.server import ApiServer


async def test_one_sees_where_tasks_wait_what_is_queued_and_what_informers_have():
    settings = Settings(owns_process=False, debug_address="127.0.0.1:0", grace_s=0)
    operator = Operator("seen", settings, transport=ApiServer(system_env()).transport())
    async with operator as op, anyio.create_task_group() as tasks:
        started = anyio.Event()

        async def never_ends(key):
            started.set()
            await anyio.sleep_forever()

        op.controller("slow", never_ends, reconcile_timeout_s=None).for_(op.cache.informer(CONFIG_MAPS))
        await tasks.start(op.run)
        meta = {"name": "a", "namespace": "default"}
        await op.client.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        await started.wait()
        async with aiohttp.ClientSession(f"http://127.0.0.1:{op.servers.debug.port}") as session:

            async def ask(path):
                async with session.get(path) as answer:
                    return answer.status, await (answer.json() if "json" in path else answer.text())

            _, dump = await ask("/debug/tasks")
            _, queues = await ask("/debug/queues?format=json")
            _, text = await ask("/debug/queues")
            _, informers = await ask("/debug/informers?format=json")
            index = await ask("/debug")
            other = await ask("/debug/secrets")
        tasks.cancel_scope.cancel()

    assert "slow worker 0" in dump
    assert "in never_ends" in dump
    assert queues["slow"]["processing"] == 1
    assert queues["slow"]["keys"][0]["key"] == "default/a"
    assert "key=default/a" in text
    assert informers["configmaps"]["objects"] >= 1
    assert index == (200, "/debug/tasks\n/debug/queues\n/debug/informers\n")
    assert other[0] == 404


@pytest.mark.parametrize("address", [":6060", "0.0.0.0:6060", "10.0.0.1:6060", "operator:6060"])
def test_it_listens_on_loopback_only(address):
    with pytest.raises(ValueError, match=r"debug_address: .* is not loopback"):
        Settings(debug_address=address)


@pytest.mark.parametrize("address", ["127.0.0.1:6060", "[::1]:6060", "localhost:6060", "0"])
def test_loopback_has_several_names(address):
    assert Settings(debug_address=address).debug_address == address
