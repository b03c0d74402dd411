"""Several nodes on one machine."""

from functools import partial

import pytest

from ktrain.api.core import NODES, PODS, untyped
from ktrain.api.meta import Key
from ktrain.framework import Client
from ktrain.framework.env import system_env
from ktrain.local.apiserver.server import ApiServer
from ktrain.local.kubelet.node import LocalNode, register
from ktrain.local.node_options import NodeLabels, NodeOptions
from ktrain.local.nodes import remove_former
from ktrain.local.plane import ControlPlane

from ..waiting import until

GPU = "nvidia.com/gpu"
TWO = NodeOptions(2, {"cpu": "2", GPU: "1"}, (NodeLabels({"rack": "b"}, range(1, 2)),))


def a_pod(name, command, **spec):
    container = {
        "name": "c",
        "image": "i",
        "command": ["sh", "-c", command],
        "resources": {"limits": {GPU: "1"}},
    }
    meta = {"name": name, "namespace": "default"}
    body = {"restartPolicy": "Never", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body}


async def ended(client, name):
    pod = partial(client.get, untyped(PODS), name, "default")
    return await until(pod, lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"), within_s=30)


@pytest.mark.e2e
async def test_pods_of_several_nodes_run_in_one_process_and_wait_for_what_their_nodes_have(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    env = system_env()
    async with ControlPlane(env, pods="host", directory=tmp_path, nodes=TWO).running() as plane:
        client = Client(plane.transport, env, field_manager="test")
        for name in "abc":
            await client.create(untyped(PODS), a_pod(name, 'echo "[$CUDA_VISIBLE_DEVICES]"; sleep 0.3'))
        await client.create(untyped(PODS), a_pod("racked", "true", nodeSelector={"rack": "b"}))
        pods = [await ended(client, name) for name in ("a", "b", "c", "racked")]
        logs = [await client.raw("GET", PODS.path("default", name, "log")) for name in "abc"]
        nodes = await client.list(NODES)

    assert {node.metadata.name for node in nodes.items} == {"local-0", "local-1"}
    assert {pod["status"]["phase"] for pod in pods} == {"Succeeded"}
    assert {pod["spec"]["nodeName"] for pod in pods[:2]} == {"local-0", "local-1"}
    assert pods[3]["spec"]["nodeName"] == "local-1"
    # The GPUs were made up, and the pods can see that.
    assert [log.body for log in logs] == [b"[]\n"] * 3


async def test_nodes_of_an_earlier_start_go_and_their_pods_end_but_those_of_others_stay():
    env = system_env()
    client = Client(ApiServer(env).transport(), env, field_manager="test")
    for name in ("local", "local-1"):
        node = LocalNode.measured(name).manifest(host_ip="127.0.0.1", executor="sim", now=env.clock.now())
        await register(client, node)
    await client.create(untyped(NODES), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a-users-own"}})
    for name, node in (("stays", "local"), ("goes", "local-1")):
        await client.create(untyped(PODS), a_pod(name, "true", nodeName=node))

    await remove_former(client, {"local"}, now=env.clock.now())

    assert {n.metadata.name for n in (await client.list(NODES)).items} == {"local", "a-users-own"}
    assert [pod.metadata.name for pod in (await client.list(PODS)).items] == ["stays"]


@pytest.mark.e2e
async def test_a_node_that_is_cordoned_gets_no_more_pods(tmp_path):
    env = system_env()
    async with ControlPlane(env, pods="host", directory=tmp_path, nodes=TWO).running() as plane:
        client = Client(plane.transport, env, field_manager="test")
        await client.patch(NODES, Key("", "local-0"), {"spec": {"unschedulable": True}})
        await client.create(untyped(PODS), a_pod("a", "true"))

        assert (await ended(client, "a"))["spec"]["nodeName"] == "local-1"
