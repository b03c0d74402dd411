"""Going back to Kubeflow Trainer with jobs that use what only ktrain has: what goes on, and what is lost."""

import pytest

from ktrain.api.core import CONFIG_MAPS
from ktrain.api.jobset import JOBSETS
from ktrain.api.trainer import TRAIN_JOBS

from .scene import contents, job, pod_template, runtime

ELASTIC = {"torch": {"elasticPolicy": {"minNodes": 1, "maxNodes": 3}}}
MPICH = {"numNodes": 1, "mpi": {"mpiImplementation": "OpenMPI", "variant": "MPICH"}}
OWN = {
    "elastic": runtime(ELASTIC, job("node", "trainer")),
    "mpich": runtime(MPICH, job("node"), job("launcher", "trainer")),
    "native": runtime({"numNodes": 2}, job("node", "trainer")) | {"podGroupPolicy": {"workload": {}}},
}
LABELLED = "labelled"
"""Its Jobs have its labels, which Kubeflow does not know, and a JobSet fixes the metadata of its Jobs."""
SLEEPERS = [*(f"{name}-sleeps" for name in OWN), LABELLED]
OLDER = {
    "podTemplateOverrides": [{"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"pool": "a"}}}],
}


@pytest.fixture
def arguments():
    """Of an API server with gangs of Kubernetes' own."""
    return ["--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true"]


async def under_ktrain(stack, scene):
    """Create jobs that run, and the same suspended, and return what is stored."""
    async with stack.ktrain():
        await scene.prepare(OWN)
        for name in OWN:
            scene.pods[name] = "running"
            await scene.create(name, name, **({"elasticNodes": 2} if name == "elastic" else {}))
            await scene.create(f"{name}-sleeps", name, suspend=True)
        await scene.create("older", "once", suspend=True, **OLDER)
        await scene.create(LABELLED, "once", suspend=True, labels={"team": "a"})
        for name in OWN:
            count = 2 if name == "mpich" else 1
            await scene.until_counted(name, active=count, ready=count)
        for name in ("older", *SLEEPERS):
            await scene.until_conditions(name, Suspended="Suspended")
    async with stack.ktrain(snapshots="shared"):
        scene.pods |= {"shared": "running", "shared-sleeps": "running"}
        await scene.create("shared", "torch")
        await scene.create("shared-sleeps", "torch", suspend=True)
        await scene.until_counted("shared", active=1, ready=1)
        await scene.until_conditions("shared-sleeps", Suspended="Suspended")
        return contents(await scene.quiet())


async def test_what_runs_goes_on_and_what_sleeps_wakes_only_if_kubeflow_would_build_the_same(stack, scene):
    stack.install_ktrain()
    async with stack.jobsets(), scene.kubelet():
        stored = await under_ktrain(stack, scene)
        stack.uninstall_ktrain()
        async with stack.kubeflow():
            await scene.until("shared-sleeps-runtime-snapshot", lambda found: found is not None, CONFIG_MAPS)
            await scene.until("older", lambda found: "nodeSelector" not in pod_template(found)["spec"], JOBSETS)
            now = contents(await scene.quiet(5))
            for name in (*OWN, "shared"):
                assert now["JobSet", name] == stored["JobSet", name]
            await what_kubeflow_does_not_know_is_lost(scene, stored, now)
            await scene.suspend("shared-sleeps", *SLEEPERS, suspend=False)
            scene.pods |= dict.fromkeys([*OWN, "shared"], "succeeded")
            await scene.until_counted("shared-sleeps", active=1, ready=1)
            for name in (*OWN, "shared"):
                await scene.until_conditions(name, Complete="AllJobsCompleted")
            assert [(await scene.get(name, JOBSETS))["spec"]["suspend"] for name in SLEEPERS] == [True] * len(SLEEPERS)
        await they_wake_under_ktrain(stack, scene)


async def what_kubeflow_does_not_know_is_lost(scene, stored, now):
    """Without a word, as everything that its definitions do not have."""
    older = await scene.get("older")
    assert OLDER.keys().isdisjoint(older["spec"])
    assert "nodeSelector" in pod_template(stored["JobSet", "older"])["spec"]
    assert "nodeSelector" not in pod_template(now["JobSet", "older"])["spec"]
    hosts = [one["ConfigMap", "mpich-mpi-hostfile"]["data"]["hostfile"] for one in (stored, now)]
    assert hosts == ["mpich-node-0-0.mpich:1\n", "mpich-node-0-0.mpich slots=1\n"]
    assert "elasticNodes" not in (await scene.get("elastic"))["spec"]


async def they_wake_under_ktrain(stack, scene):
    """What could not go on there goes on here."""
    stack.install_ktrain()
    async with stack.ktrain():
        scene.pods |= dict.fromkeys(SLEEPERS, "running")
        for name in SLEEPERS:
            await scene.until(name, lambda found: not found["spec"]["suspend"], JOBSETS)
            await scene.until(name, lambda found: "jobsStatus" in found["status"], TRAIN_JOBS)
            assert (await scene.get(name))["status"]["conditions"][0]["reason"] == "Resumed"
