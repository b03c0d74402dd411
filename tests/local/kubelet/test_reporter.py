"""Status writes when the API server does not behave."""

import asyncio

import anyio

from ktrain.api.core import PODS
from ktrain.api.meta import Key, ObjectMeta
from ktrain.framework import Client
from ktrain.framework.client.transport import Response
from ktrain.framework.errors import TransportError
from ktrain.local.apiserver.server import ApiServer
from ktrain.local.kubelet.reporter import StatusReporter, delete_finally
from ktrain.local.kubelet.spec import Pod
from ktrain.testing.time import simulate

KEY = Key("default", "p")
CONFLICT = b'{"kind":"Status","status":"Failure","reason":"Conflict","code":409,"message":"try again"}'


class Unreliable:
    """A transport between a client and its server that fails writes as it is told: an error, a status, or lost."""

    def __init__(self, inner, faults):
        self.inner = inner
        self.faults = list(faults)
        self.writes = 0

    async def request(self, method, path, **rest):
        if method in ("PATCH", "DELETE"):
            self.writes += 1
            if self.faults:
                fault = self.faults.pop(0)
                if fault == "lost":
                    await self.inner.request(method, path, **rest)
                if fault == "conflict":
                    return Response(409, {}, CONFLICT)
                raise TransportError("the connection broke")
        return await self.inner.request(method, path, **rest)

    async def aclose(self):
        await self.inner.aclose()


async def world(env, *faults):
    server = ApiServer(env)
    unreliable = Unreliable(server.transport(), faults)
    client = Client(unreliable, env, field_manager="kubelet")
    spec = {"nodeName": "n", "containers": [{"name": "main", "image": "i"}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    pod = await client.create(PODS, body)
    return client, unreliable, pod


def reporter(client, env, uid, phases, stored=lambda pod: None):
    return StatusReporter(client, env, key=KEY, uid=uid, build=lambda: {"phase": phases[-1]}, stored=stored)


def test_a_final_status_is_written_however_often_the_server_fails():
    async def scenario(env):
        client, transport, pod = await world(env, "broken", "lost", "conflict", "broken")
        stored = []
        await reporter(client, env, pod.metadata.uid, ["Succeeded"], stored.append).flush()

        assert (await client.get(PODS, "p", "default")).status.phase == "Succeeded"
        assert [pod.status.phase for pod in stored] == ["Succeeded"]
        assert transport.writes >= 5

    simulate(scenario)


def test_what_is_written_is_not_written_again():
    async def scenario(env):
        client, transport, pod = await world(env)
        mine = reporter(client, env, pod.metadata.uid, ["Running"])
        await mine.flush()
        await mine.flush()

        assert transport.writes == 1

    simulate(scenario)


def test_changes_that_come_together_are_one_write():
    async def scenario(env):
        client, transport, pod = await world(env)
        mine = reporter(client, env, pod.metadata.uid, phases := ["Pending"])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(mine.run)
            mine.changed()
            await asyncio.sleep(0.005)
            phases[:] = ["Running"]
            mine.changed()
            await asyncio.sleep(1)
            tasks.cancel_scope.cancel()

        assert transport.writes == 1
        assert (await client.get(PODS, "p", "default")).status.phase == "Running"

    simulate(scenario)


def test_another_pod_of_the_same_name_is_not_touched():
    async def scenario(env):
        client, _, _ = await world(env, "conflict")
        stale = reporter(client, env, "another-uid", ["Failed"])
        await stale.flush()
        await delete_finally(client, env, Pod(metadata=ObjectMeta(name="p", namespace="default", uid="x")))

        assert stale.gone
        assert (await client.get(PODS, "p", "default")).status.phase == "Pending"

    simulate(scenario)


def test_a_pod_that_may_go_goes_although_the_first_try_fails():
    async def scenario(env):
        client, transport, pod = await world(env, "broken")
        gone = Pod(metadata=pod.metadata)
        await delete_finally(client, env, gone)
        await delete_finally(client, env, gone)

        assert transport.writes == 3
        assert (await client.list(PODS, "default")).items == []

    simulate(scenario)
