"""
The chart is installed on a real API server, and its Deployment runs: two replicas, exactly as it describes them. It is
upgraded and rolled back under load, and removed.
"""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import pytest

from ktrain.api.core import untyped
from ktrain.api.trainer import TRAIN_JOBS
from ktrain.framework.errors import ApiError, TransportError
from ktrain.testing.envtest import Settings

from .audit import unled
from .deployed import PATIENCE_S, SYSTEM, deployed
from .network import missing
from .programs import CHART, find

MANAGER = "ktrain-controller-manager"
FRAMEWORKS = ("torch-distributed", "plain", "jax-distributed", "xgboost-distributed", "deepspeed-distributed")
VALUES = {"runtimes": {"defaultEnabled": True}}
OWN = "deployments,secrets,configmaps,leases,services,serviceaccounts,roles,rolebindings,poddisruptionbudgets"
REGISTRATIONS = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
CLUSTER = f"{REGISTRATIONS},clusterroles,clusterrolebindings"
DEFAULT = {"default", "kube-root-ca.crt"}
KINDS = "crds,clustertrainingruntimes"
BETWEEN_CREATIONS_S = 0.2


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


async def left(cluster):
    """Return the names of what is there of ours, but for definitions, jobs and runtimes."""
    found = [*await cluster.found(OWN, "--namespace", SYSTEM), *await cluster.found(CLUSTER)]
    names = {one["metadata"]["name"] for one in found} - DEFAULT
    return {name for name in names if "ktrain" in name or "trainer" in name or "jobset" in name}


async def install(cluster, *options, values=VALUES):
    await cluster.helm(
        "install", "ktrain", CHART, "--create-namespace", "--wait", "--timeout=60s", *options, values=values
    )
    await cluster.rolled_out(MANAGER)


async def run_jobs(cluster, *names):
    """Create jobs whose pods do not end, and wait until they run."""
    cluster.kubelet.finish = False
    await cluster.apply(*(train_job(name, "torch-distributed") for name in names))

    def run(pods):
        phases = {one["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"]: one["status"]["phase"] for one in pods}
        return all(phases.get(name) == "Running" for name in names)

    await cluster.until(lambda: cluster.found("pods", "--namespace", "default"), run)


async def running(cluster):
    """Return what must not change while jobs run: their JobSets as asked for, and their pods."""
    jobsets = await cluster.found("jobsets", "--namespace", "default")
    pods = await cluster.found("pods", "--namespace", "default")
    generations = {one["metadata"]["uid"]: one["metadata"]["generation"] for one in jobsets}
    return generations, {one["metadata"]["uid"] for one in pods}


async def top(cluster):
    """Return what `ktrain top` shows; it reads the operator's metrics through the API server and the Service."""
    command = (sys.executable, "-m", "ktrain", "top", "--once", "-o", "json", "--kubeconfig", cluster.server.kubeconfig)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    return json.loads(printed)


async def test_two_replicas_take_jobs_to_their_end(tmp_path):
    async with deployed(tmp_path) as cluster:
        await install(cluster)

        assert len(cluster.operators()) == 2
        assert await holder(cluster)
        await cluster.apply(*(train_job(name, name) for name in FRAMEWORKS))
        await complete(cluster, *FRAMEWORKS)
        assert [one.exits for one in cluster.operators()] == [0, 0]
        seen = await top(cluster)
        assert sorted(one["name"] for one in seen["trainJobs"]) == sorted(FRAMEWORKS)
        assert "trainjob_controller" in {one["name"] for one in seen["controllers"]}
        # The alert KtrainWebhookUnreachable takes it for a webhook that can be called.
        metrics = await cluster.kubectl("get", "--raw", "/metrics")
        for name in ("validator.trainjob.trainer.kubeflow.org", "vjobset.kb.io", "mpod.kb.io"):
            assert f'apiserver_admission_webhook_request_total{{code="200",name="{name}"' in metrics


async def test_what_is_uninstalled_leaves_definitions_and_jobs_only(tmp_path):
    async with deployed(tmp_path) as cluster:
        await install(cluster)
        await run_jobs(cluster, "job")
        before = await running(cluster)

        await cluster.helm("uninstall", "ktrain", "--wait")
        await cluster.until(lambda: not cluster.operators())
        await cluster.until(lambda: left(cluster), lambda names: not names)
        assert await running(cluster) == before
        await cluster.kubectl("delete", "trainjob/job", f"--timeout={PATIENCE_S}s")
        await cluster.until(lambda: running(cluster), lambda found: found == ({}, set()))

        # Installed again beside the definitions that were kept, and removed with them.
        await install(cluster, values={"crds": {"keep": False}})
        await cluster.helm("uninstall", "ktrain", "--wait")
        await cluster.until(lambda: cluster.found("crds"), lambda found: not found)
        await cluster.until(lambda: left(cluster), lambda names: not names)


async def test_what_an_administrator_deletes_in_need_comes_back_with_an_upgrade(tmp_path):
    """docs/operate.md: new certificates at once, and TrainJobs that pass without webhooks."""
    async with deployed(tmp_path) as cluster:
        await install(cluster)
        await cluster.kubectl("delete", "secret", "ktrain-webhook-cert", "--namespace", SYSTEM)
        await cluster.kubectl("rollout", "restart", f"deployment/{MANAGER}", "--namespace", SYSTEM)
        await cluster.rolled_out(MANAGER)
        registrations = await cluster.found(REGISTRATIONS)
        names = [f"{one['kind'].lower()}/{one['metadata']['name']}" for one in registrations]
        await cluster.kubectl("delete", *names)
        await cluster.apply(train_job("unasked", "plain"))

        await cluster.helm("upgrade", "ktrain", CHART, "--wait", values=VALUES)
        assert len(await cluster.found(REGISTRATIONS)) == len(names)
        await cluster.until_served(train_job("asked", "plain"))
        await complete(cluster, "unasked")


@asynccontextmanager
async def creating(cluster):
    """Create suspended TrainJobs all the time; yields the list of what went wrong."""
    failures = []

    async def create():
        number = 0
        while True:
            number += 1
            try:
                body = train_job(f"load-{number}", "plain", suspend=True)
                await cluster.client.create(untyped(TRAIN_JOBS), body)
            except (ApiError, TransportError) as error:
                failures.append(f"{number}: {error}")
            await asyncio.sleep(BETWEEN_CREATIONS_S)

    task = asyncio.create_task(create())
    try:
        yield failures
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_upgrade_and_a_rollback_touch_no_job_and_stop_no_admission(tmp_path):
    async with deployed(tmp_path) as cluster:
        await install(cluster)
        # The runtimes become ordinary objects of the release.
        await cluster.helm("upgrade", "ktrain", CHART, "--wait", values=VALUES)
        await run_jobs(cluster, "first", "second")
        before, pods = await running(cluster)
        old = {one.key.name for one in cluster.operators()}
        await cluster.helm("package", CHART, "--version", "0.1.1", "--app-version", "0.1.1", "--destination", tmp_path)
        changed = {**VALUES, "manager": {"args": ["--zap-log-level=2"], "config": {"snapshots": "shared"}}}
        async with creating(cluster) as failures:
            await cluster.helm("upgrade", "ktrain", tmp_path / "ktrain-0.1.1.tgz", "--wait", values=changed)
            await cluster.rolled_out(MANAGER)
            await cluster.until(lambda: len(cluster.operators()) == 2)
            new = {one.key.name for one in cluster.operators()}
            assert not new & old
            await cluster.until(lambda: holder(cluster))
            await cluster.helm("rollback", "ktrain", "2", "--wait")
            await cluster.rolled_out(MANAGER)
            await cluster.until(lambda: len(cluster.operators()) == 2)
            await cluster.until(lambda: holder(cluster))
        assert not new & {one.key.name for one in cluster.operators()}

        assert failures == []
        after = await running(cluster)
        assert (after[0] | before, after[1]) == (after[0], pods)
        assert unled(cluster.audited(), SYSTEM) == []
        cluster.kubelet.finish = True
        await complete(cluster, "first", "second")
