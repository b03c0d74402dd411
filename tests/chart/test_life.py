"""The chart is installed on a real API server, and its Deployment runs: two replicas, exactly as it describes them."""

import asyncio

import pytest

from ktrain.testing.envtest import Settings

from .deployed import PATIENCE_S, SYSTEM, deployed
from .network import missing
from .programs import CHART, find

MANAGER = "ktrain-controller-manager"
FRAMEWORKS = ("torch-distributed", "plain", "jax-distributed", "xgboost-distributed", "deepspeed-distributed")
VALUES = {"runtimes": {"defaultEnabled": True}}


@pytest.fixture(autouse=True)
def programs():
    if not Settings.of().binaries or find("kubectl") is None:
        pytest.skip("needs kube-apiserver, kube-controller-manager and kubectl in KUBEBUILDER_ASSETS")
    if find("helm") is None:
        pytest.skip("needs helm in KTRAIN_TOOLS: hack/tools/build")
    if why := missing():
        pytest.skip(why)


def train_job(name, runtime, **spec):
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"runtimeRef": {"name": runtime}, **spec},
    }


async def complete(cluster, *names):
    """Wait until all these jobs are complete."""
    jobs = [f"trainjob/{name}" for name in names]
    await cluster.kubectl("wait", "--for=condition=Complete", f"--timeout={PATIENCE_S}s", *jobs)


async def holder(cluster):
    """Return the pod that leads."""
    (lease,) = await cluster.found("leases", "--namespace", SYSTEM)
    identity = lease["spec"]["holderIdentity"]
    return next((one.key.name for one in cluster.operators() if one.key.name in identity), None)


async def test_two_replicas_take_jobs_to_their_end_and_leave_nothing(tmp_path):
    async with deployed(tmp_path) as cluster:
        await cluster.helm("install", "ktrain", CHART, "--create-namespace", "--wait", "--timeout=60s", values=VALUES)
        await cluster.rolled_out(MANAGER)

        assert len(cluster.operators()) == 2
        assert await holder(cluster)
        await cluster.apply(*(train_job(name, name) for name in FRAMEWORKS))
        await complete(cluster, *FRAMEWORKS)
        assert [one.exits for one in cluster.operators()] == [0, 0]

        cluster.kubelet.finish = False
        await cluster.apply(train_job("running", "torch-distributed"))
        await cluster.kubectl("wait", "--for=jsonpath={.status.state}=Running", "trainjob/running")
        await cluster.helm("uninstall", "ktrain", "--wait")
        await asyncio.sleep(0)
        left = await cluster.found(
            "deployments,secrets,configmaps,leases,services,serviceaccounts,roles,rolebindings", "--namespace", SYSTEM
        )
        assert {one["metadata"]["name"] for one in left} - {"default", "kube-root-ca.crt"} == set()
