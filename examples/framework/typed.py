"""
Kubernetes' own kinds with kubernetes_asyncio's types, over the client of an operator.

    python typed.py my-namespace

It gives the namespace a quota of pods, and prints what runs there and how much of the quota that takes. Three ways are
shown: a model that is written (`client.apply`), one that is read (`type=V1ResourceQuota`), and a whole generated API
(`client.typed`). All of them use the operator's credentials, retries, metrics and leader election.
"""

import sys

import anyio
from kubernetes_asyncio.client import CoreV1Api, V1ObjectMeta, V1ResourceQuota, V1ResourceQuotaSpec

from ktrain.framework import Client, Resource, connect, system_env

QUOTAS = Resource("", "v1", "ResourceQuota", "resourcequotas", namespaced=True, type=V1ResourceQuota)
NAME = "pods"


async def limit_pods(client: Client, namespace: str, pods: int) -> V1ResourceQuota:
    """Apply the quota; this client owns its fields."""
    metadata, spec = V1ObjectMeta(name=NAME, namespace=namespace), V1ResourceQuotaSpec(hard={"pods": str(pods)})
    return await client.apply(QUOTAS, V1ResourceQuota(metadata=metadata, spec=spec))


async def report(client: Client, namespace: str) -> list[str]:
    """Return a line for each pod, and one for the quota."""
    pods = await client.typed(CoreV1Api).list_namespaced_pod(namespace)
    lines = [f"{pod.metadata.name} on {pod.spec.node_name or 'no node'}" for pod in pods.items]
    quota = await client.get(QUOTAS, NAME, namespace)
    return [*sorted(lines), f"{len(lines)} of {quota.spec.hard['pods']} pods"]


async def main(namespace: str) -> None:
    """Limit the namespace to ten pods, and print the report."""
    transport = await connect()
    try:
        client = Client(transport, system_env(), field_manager="typed-example")
        await limit_pods(client, namespace, 10)
        print(*await report(client, namespace), sep="\n")
    finally:
        await transport.aclose()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
