"""Jobs with claims and volumes in a queue: admitted, evicted, admitted again, with JobSets by either controller."""

import copy

import pytest

from ktrain.api import core
from ktrain.api.meta import Key

from .team import JOBSETS, TRAIN_JOBS, WORKLOADS, runtime, state, trainer

pytestmark = pytest.mark.e2e
CLAIMS = core.untyped(core.PERSISTENT_VOLUME_CLAIMS)
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}


def with_claims():
    """A runtime whose pods share a claim that is said in short, and whose only failure rule has no name."""
    node = copy.deepcopy(trainer())
    node["template"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "data", "mountPath": "/data"}
    ]
    found = runtime(node, torch={})
    found["template"]["spec"] |= {
        "volumeClaimPolicies": [{"templates": [{"metadata": {"name": "data"}, "spec": CLAIM}]}],
        "failurePolicy": {"maxRestarts": 0, "rules": [{"name": "", "action": "FailJobSet"}]},
    }
    return found


def mounting():
    """A user's patch that mounts a claim of their own."""
    volumes = [{"name": "mine", "persistentVolumeClaim": {"claimName": "mine"}}]
    node = {"name": "node", "volumeMounts": [{"name": "mine", "mountPath": "/mine"}]}
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": {"volumes": volumes, "containers": [node]}}}}}]
    return {"manager": "acme.io/me", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


def claims_of(pod):
    return {volume["name"]: volume["persistentVolumeClaim"]["claimName"] for volume in pod["spec"]["volumes"]}


async def activate(team, *, active):
    """Stop a job, or let it go on, as `kueuectl` does."""
    name = (await team.workload("job"))["metadata"]["name"]
    await team.client.patch(WORKLOADS, Key(team.namespace, name), {"spec": {"active": active}})


async def until_it_runs(team, earlier=()):
    pods = await team.until_pods("job", 2, lambda pod: pod["metadata"]["uid"] not in earlier)
    await team.let_pods("job", "Running")
    await team.until_workload("job", "PodsReady")
    for pod in pods:
        assert claims_of(pod) == {"data": "data-job", "mine": "mine"}
        assert pod["spec"]["nodeSelector"] == {"pool": team.namespace}
    return {pod["metadata"]["uid"] for pod in pods}


async def test_a_job_with_claims_and_volumes_is_admitted_evicted_and_admitted_again(team):
    await it_goes_through(team)


async def test_it_is_so_on_the_jobset_operator_too(elsewhere):
    await elsewhere.open_queue()
    await it_goes_through(elsewhere)


async def it_goes_through(queue):
    await queue.submit("job", with_claims(), runtimePatches=[mounting()])
    first = await until_it_runs(queue)
    claim, before = await queue.get(CLAIMS, "data-job"), await queue.get(JOBSETS, "job")

    await activate(queue, active=False)
    await queue.until_pods("job", 0)
    await queue.until(lambda: queue.is_unpatched("job"))
    assert (await queue.get(JOBSETS, "job"))["spec"]["suspend"] is True
    await activate(queue, active=True)
    await until_it_runs(queue, first)

    after = await queue.get(JOBSETS, "job")
    for field in ("volumeClaimPolicies", "failurePolicy"):
        assert after["spec"][field] == before["spec"][field]
    assert (await queue.get(CLAIMS, "data-job"))["metadata"]["uid"] == claim["metadata"]["uid"]
    await queue.let_pods("job", "Succeeded")
    await queue.until_workload("job", "Finished")
    job = await queue.get(TRAIN_JOBS, "job")
    assert state(job, "Complete") == "True"
    assert "diagnosis" not in job["status"]
    assert queue.refused() == []
