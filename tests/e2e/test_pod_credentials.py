"""A program in a pod talks to the API server with what every pod has, as in a cluster, in both ways pods run."""

import json

import pytest

pytestmark = pytest.mark.e2e

PROGRAM = """
import asyncio
from kubernetes_asyncio import client, config

async def main():
    config.load_incluster_config()
    async with client.ApiClient() as api:
        pods = await client.CoreV1Api(api).list_namespaced_pod("NAMESPACE")
        print(*(pod.metadata.name for pod in pods.items), flush=True)
        try:
            await client.CoreV1Api(api).list_namespaced_secret("NAMESPACE")
        except client.ApiException as error:
            print(error.status, flush=True)

asyncio.run(main())
"""
ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: pods}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pods}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: pods}
subjects: [{kind: ServiceAccount, name: default, namespace: NAMESPACE}]
"""


def run(cluster, name, *command):
    """Run a program in a pod to its end; returns its log."""
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i", "command": list(command)}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    assert cluster.run("apply", "-f", "-", stdin=json.dumps(pod))[0] == 0
    cluster.run("wait", "--for=jsonpath={.status.phase}=Succeeded", f"pod/{name}", "--timeout=30s")
    return cluster.run("logs", name)[1]


def test_a_client_in_a_pod_finds_its_server_and_has_the_rights_of_its_account(cluster):
    assert cluster.run("apply", "-f", "-", stdin=ROLE.replace("NAMESPACE", cluster.namespace))[0] == 0

    program = PROGRAM.replace("NAMESPACE", cluster.namespace)
    assert run(cluster, "lister", "python", "-c", program) == "lister\n403\n"


@pytest.mark.ns
@pytest.mark.parametrize("cluster", ["ns"], indirect=True)  # pods on a shared host have no names of their own
def test_the_server_has_its_name_in_the_network_of_the_pods(cluster):
    directory = "/var/run/secrets/kubernetes.io/serviceaccount"
    script = (
        "import ssl, urllib.request as r;"
        f"c = ssl.create_default_context(cafile='{directory}/ca.crt');"
        "print(r.urlopen('https://kubernetes.default.svc/version', context=c).status)"
    )

    assert run(cluster, "named", "python", "-c", script) == "200\n"
