"""Groups as objects of a server: what the scheduler says of them, and when it comes to know their kinds."""

import anyio

from ktrain.api.core import CUSTOM_RESOURCE_DEFINITIONS, untyped
from ktrain.api.meta import Key
from ktrain.framework.errors import NotFound
from ktrain.local.scheduler.objects import COSCHEDULING_GROUPS, KUBERNETES_GROUPS, NODES, PODS

from ...definitions import definition
from ...waiting import anything, until
from .living import GPU, gpu_pod, scheduling


async def test_a_pod_group_says_whether_it_has_been_scheduled():
    async with scheduling(knows_groups=True) as (client, _, watch):
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        await client.create(untyped(KUBERNETES_GROUPS), a_group(KUBERNETES_GROUPS, spec))
        for name in ("a", "b"):
            body = gpu_pod(name)
            body["spec"]["schedulingGroup"] = {"podGroupName": "g"}
            await client.create(PODS, body)
        with anyio.fail_after(5):
            await watch.until("a", lambda pod: "are needed" in str(pod.status.conditions))
            await watch.until("b", lambda pod: "Insufficient" in str(pod.status.conditions))
        await until(lambda: says(client, "False", "pod group is unschedulable"), within_s=5, every_s=0.01)

        more = {"status": {"allocatable": {GPU: "2", "pods": "9"}}}
        await client.patch(NODES, Key("", "n"), more, subresource="status")
        with anyio.fail_after(5):
            for name in ("a", "b"):
                await watch.until(name, lambda pod: pod.spec.node_name)
        await until(lambda: says(client, "True", ""), within_s=5, every_s=0.01)


async def test_the_groups_of_another_gang_scheduler_count_from_when_their_definition_is_there():
    async with scheduling() as (client, cache, watch):
        await client.create(untyped(CUSTOM_RESOURCE_DEFINITIONS), definition(COSCHEDULING_GROUPS))
        await until(
            lambda: client.list(COSCHEDULING_GROUPS, "default"), anything, despite=NotFound, within_s=5, every_s=0.01
        )
        await client.create(untyped(COSCHEDULING_GROUPS), a_group(COSCHEDULING_GROUPS, {"minMember": 2}))
        await until(lambda: is_seen(cache), within_s=5, every_s=0.01)
        body = gpu_pod("a")
        body["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}
        await client.create(PODS, body)
        with anyio.fail_after(5):
            await watch.until("a", lambda pod: "minCount pods" in str(pod.status.conditions))


def a_group(resource, spec):
    meta = {"name": "g", "namespace": "default"}
    return {"apiVersion": resource.api_version, "kind": "PodGroup", "metadata": meta, "spec": spec}


async def says(client, status, message):
    group = await client.get(KUBERNETES_GROUPS, "g", "default")
    return [(c.type, c.status, c.message) for c in group.status.conditions] == [("PodGroupScheduled", status, message)]


async def is_seen(cache):
    return bool(cache.informer(COSCHEDULING_GROUPS).list())
