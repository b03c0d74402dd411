"""
Jobs whose runtime has claims, on the JobSet operator itself: what its webhook adds to their policies is repeated when
they are resumed, by the operator that created them, by its next process, and by the one that comes after Kubeflow's.
"""

from contextlib import AsyncExitStack

import pytest

from ktrain.api.core import PERSISTENT_VOLUME_CLAIMS
from ktrain.api.jobset import JOBSETS

from .scene import job, patched, pod_template, runtime, versions

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}
POOL = {"metadata": {"labels": {"team": "a"}}, "spec": {"nodeSelector": {"pool": "a"}}}
STEPS = ("dataset-initializer", "node")


def with_claims():
    """A runtime as the shipped ones of torchtune: an initializer and nodes share a claim that is said in short."""
    jobs = [job("dataset-initializer", "dataset-initializer"), job("node", "trainer")]
    for one in jobs:
        pod = one["template"]["spec"]["template"]["spec"]
        pod["volumes"] = []
        pod["containers"][0]["volumeMounts"] = [{"name": "initializer", "mountPath": "/workspace"}]
    claims = [{"templates": [{"metadata": {"name": "initializer"}, "spec": CLAIM}]}]
    rules = {"maxRestarts": 0, "rules": [{"name": "", "action": "FailJobSet", "onJobFailureReasons": []}]}
    return runtime({"numNodes": 1, "torch": {}}, *jobs, volumeClaimPolicies=claims, failurePolicy=rules)


def mounting():
    """A user's patch that mounts a claim of their own."""
    volumes = [{"name": "mine", "persistentVolumeClaim": {"claimName": "mine"}}]
    node = {"name": "node", "volumeMounts": [{"name": "mine", "mountPath": "/mine"}]}
    template = {"spec": {"template": {"spec": {"volumes": volumes, "containers": [node]}}}}
    jobs = [{"name": "node", "template": template}]
    return {"manager": "acme.io/me", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


async def until_it_runs(scene):
    scene.pods["claims"] = "running"
    await scene.until_counted("claims", active=2, ready=2)
    assert "diagnosis" not in (await scene.get("claims"))["status"]


async def sleeps(scene):
    await scene.suspend("claims")
    await scene.until_counted("claims", suspended=2)


@pytest.mark.parametrize("first", ["ktrain", "kubeflow"])
async def test_a_job_with_claims_is_resumed_by_each_operator_that_comes(stack, scene, first):
    async with stack.jobsets(), scene.kubelet():
        async with AsyncExitStack() as operators:
            if first == "ktrain":
                stack.install_ktrain()
            await operators.enter_async_context(stack.ktrain() if first == "ktrain" else stack.kubeflow())
            await scene.prepare({"claims": with_claims()})
            mounts = [mounting(), *patched()]
            await scene.create("claims", "claims", suspend=True, runtimePatches=mounts)
            await scene.until_counted("claims", suspended=2)
            if first == "ktrain":
                await scene.suspend("claims", suspend=False)
                await until_it_runs(scene)
                await sleeps(scene)
            stored = await scene.quiet()
        stack.install_ktrain()
        async with stack.ktrain() as program:
            assert versions(await scene.quiet(5)) == versions(stored), program.last_words()
            admitted = [mounting(), *patched(**POOL)]
            admitted[1]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"].append(
                {"name": STEPS[0], "template": {"spec": {"template": POOL}}}
            )
            await scene.change("claims", spec={"suspend": False, "runtimePatches": admitted})
            await until_it_runs(scene)
            found = await scene.get("claims", JOBSETS)
            before = stored["JobSet", "claims"]
            for field in ("volumeClaimPolicies", "failurePolicy"):
                assert found["spec"][field] == before["spec"][field]
            assert pod_template(found)["spec"]["nodeSelector"] == {"pool": "a"}
            await sleeps(scene)
            await scene.change("claims", spec={"suspend": False, "runtimePatches": [mounting(), *patched()]})
            await until_it_runs(scene)
            assert (await scene.get("initializer-claims", PERSISTENT_VOLUME_CLAIMS)) is not None
            scene.pods["claims"] = "succeeded"
            await scene.until_conditions("claims", Suspended="Resumed", Complete="AllJobsCompleted")
