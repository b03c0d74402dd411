"""
The HorizontalPodAutoscaler of an elastic TrainJob, at work: Kubernetes' own controller scales the job by its load.

API server, Job controller and autoscaler are Kubernetes'; the controllers of TrainJobs and JobSets are ours. The test
plays the kubelet, and serves the metrics API (`metrics_api`), in which it says how busy the pods are.
"""

import pytest

from ktrain.api.core import JOBS, PODS, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key, format_time
from ktrain.api.trainer import TRAIN_JOBS, TRAINING_RUNTIMES
from ktrain.plugins.torch.scaling import AUTOSCALERS
from ktrain.testing.envtest import Settings
from ktrain.testing.planes import real_plane
from ktrain.testing.realserver import CONTROLLERS, real_server

from ..waiting import until
from .metrics_api import serving_metrics
from .processes import install

pytestmark = pytest.mark.e2e
HURRIED = [
    f"--controllers={CONTROLLERS},horizontal-pod-autoscaler-controller",
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-downscale-stabilization=3s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
    "--horizontal-pod-autoscaler-initial-readiness-delay=0s",
]
PATIENCE_S = 60.0
HALF = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}


@pytest.fixture(scope="module")
def cluster():
    """A control plane with Kubernetes' autoscaler."""
    binaries = Settings.of().binaries
    if not binaries or binaries.kube_controller_manager is None:
        pytest.skip("needs kube-apiserver and kube-controller-manager in KUBEBUILDER_ASSETS")
    with real_server(binaries, install, arguments={"kube-controller-manager": HURRIED}) as server:
        yield server


@pytest.fixture
async def control_plane(cluster):
    """A namespace on that control plane."""
    async with real_plane(cluster) as plane:
        yield plane


@pytest.fixture
async def metrics(control_plane):
    """The stand-in of the metrics API."""
    async with serving_metrics(control_plane) as api:
        yield api


@pytest.fixture
def nodes(control_plane):
    """`await nodes(3)` waits until the TrainJob asks for three nodes, its Job has them, and plays their kubelet."""
    client, namespace = control_plane.client(), control_plane.namespace

    async def become_ready(pod):
        status = {
            "phase": "Running",
            "startTime": format_time(control_plane.env.clock.now()),
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await client.patch(PODS, Key(namespace, pod.metadata.name), {"status": status}, subresource="status")

    async def wait(count):
        job = await control_plane.wait_for(
            TRAIN_JOBS, "job", lambda job: job.spec.elastic_nodes == count, timeout_s=PATIENCE_S
        )
        await control_plane.wait_for(JOBS, "job-node-0", lambda job: job is not None and job.status.active == count)
        for pod in (await client.list(PODS, namespace)).items:
            if pod.status.phase == "Pending" and not pod.metadata.deletion_timestamp:
                await become_ready(pod)
        return job

    return wait


async def test_kubernetes_own_autoscaler_resizes_a_job_by_its_load(
    control_plane, create_train_job, running, metrics, nodes
):
    client, namespace = control_plane.client(), control_plane.namespace
    policy = {"numNodes": None, "torch": {"elasticPolicy": {"minNodes": 2, "maxNodes": 4, "metrics": [HALF]}}}
    await client.patch(untyped(TRAINING_RUNTIMES), Key(namespace, "rt"), {"spec": {"mlPolicy": policy}})
    await create_train_job(elasticNodes=2, trainer={"resourcesPerNode": {"requests": {"cpu": "1"}}})

    async def autoscaler():
        return await client.get(untyped(AUTOSCALERS), "job", namespace)

    async with running("trainjob", "jobset"):
        await nodes(2)
        metrics.usage = "900m"
        await nodes(4)  # ceil(2 nodes * 90 % / 50 %)
        busy = await until(autoscaler, lambda found: found["status"]["currentReplicas"] == 4, within_s=PATIENCE_S)
        metrics.usage = "200m"
        await nodes(2)  # ceil(4 nodes * 20 % / 50 %)
        job_set = await client.get(JOBSETS, "job", namespace)
        shown = await until(autoscaler, lambda found: found["status"]["currentReplicas"] == 2, within_s=PATIENCE_S)

    conditions = {c["type"]: c["status"] for c in shown["status"]["conditions"]}
    assert (conditions["AbleToScale"], conditions["ScalingActive"]) == ("True", "True")
    assert {c["type"]: c["reason"] for c in busy["status"]["conditions"]}["ScalingActive"] == "ValidMetricFound"
    assert (job_set.spec.replicated_jobs[0].size.parallelism, job_set.spec.replicated_jobs[0].size.completions) == (
        2,
        2,
    )
    assert metrics.selectors == {"jobset.sigs.k8s.io/jobset-name=job,jobset.sigs.k8s.io/replicatedjob-name=node"}
