"""
The operator is exchanged under jobs of all kinds in all states, and nobody notices: what is stored stays as it is, and
then each job goes on as it would have. There and back.
"""

from contextlib import AsyncExitStack
from datetime import datetime, timedelta

import pytest

from ktrain.api.core import CONFIG_MAPS, JOBS
from ktrain.api.jobset import JOBSETS
from ktrain.framework.errors import ApiError

from .scene import conditions, content, contents, patched, pod_template, versions

DEADLINE_S = 90
FINALIZER = "example.com/keeps-it"
POOL_A = {"metadata": {"labels": {"team": "a"}}, "spec": {"nodeSelector": {"pool": "a"}}}
POOL_B = {"spec": {"nodeSelector": {"pool": "b"}, "tolerations": [{"key": "b", "operator": "Exists"}]}}
RUNNING = {
    "runs": "torch",
    "fails": "once",
    "restarts": "torch",
    "sleeps-later": "torch",
    "sleeps": "torch",
    "mpi-runs": "mpi",
    "mpi-sleeps": "mpi",
    "gang-runs": "gang",
    "gang-sleeps": "gang",
    "leaves": "plain",
    "short": "short",
}
RESUMED = {"Suspended": "Resumed"}
ASLEEP = {"Suspended": "Suspended"}


@pytest.fixture(params=["kubeflow-to-ktrain", "ktrain-to-kubeflow", "kubeflow-to-ktrain-with-jobsets"])
def way(request, stack):
    """Which operator comes after which, the first one installed."""
    if request.param.startswith("ktrain"):
        stack.install_ktrain()
    return request.param


async def bring_to_all_states(scene):
    """Create jobs of all kinds and bring them to all states."""
    for name, runtime in RUNNING.items():
        scene.pods[name] = "running"
        metadata = {"finalizers": [FINALIZER]} if name == "leaves" else {}
        await scene.create(name, runtime, metadata=metadata, trainer={"numNodes": 2})
    scene.pods |= {"overdue": "running", "done": "succeeded", "failed": "failed"}
    await scene.create("overdue", activeDeadlineSeconds=DEADLINE_S)
    await scene.create("done", "once")
    await scene.create("failed", "once")
    await scene.create("asleep", suspend=True, trainer={"numNodes": 2, "env": [{"name": "A", "value": ""}]})
    await scene.create("mpi-asleep", "mpi", suspend=True)
    await scene.create("gang-asleep", "gang", suspend=True)
    await scene.create("elsewhere", managedBy="kueue.x-k8s.io/multikueue")
    scene.pods["steps/dataset-initializer"] = "running"
    await scene.create("steps", "steps", trainer={}, initializer={"dataset": {"storageUri": "hf://org/data"}})
    for name in ("queued", "admitted"):
        await scene.create(name, "once", suspend=True, runtimePatches=patched())
    await until_they_run(scene, *RUNNING)
    await go_through_states(scene)


async def until_they_run(scene, *names):
    for name in names:
        ready = 2 if name.startswith("mpi") else 1
        await scene.until_counted(name, active=ready, ready=ready)


async def go_through_states(scene):
    """What happens to some of them before the operator is exchanged."""
    scene.pods["restarts"] = "failed"
    await scene.until("restarts", lambda found: found["status"]["restarts"] == 1, JOBSETS)
    scene.pods["restarts"] = "running"
    await until_they_run(scene, "restarts")
    await scene.suspend("sleeps", "mpi-sleeps", "gang-sleeps")
    for name in ("queued", "admitted"):
        scene.pods[name] = "running"
        await scene.until_conditions(name, **ASLEEP)
        await scene.change(name, spec={"suspend": False, "runtimePatches": patched(**POOL_A)})
        await until_they_run(scene, name)
    await scene.suspend("queued")
    for name in ("sleeps", "mpi-sleeps", "gang-sleeps", "asleep", "mpi-asleep", "gang-asleep", "queued"):
        await scene.until_conditions(name, **ASLEEP)
    await scene.until_conditions("done", Complete="AllJobsCompleted")
    await scene.until_conditions("failed", Failed="FailedJobs")
    await scene.delete("leaves")


async def test_nothing_is_written_and_each_job_goes_on(stack, scene, way):
    to_kubeflow, with_jobsets = way.endswith("kubeflow"), way.endswith("jobsets")
    async with AsyncExitStack() as jobsets, scene.kubelet():
        await jobsets.enter_async_context(stack.jobsets())
        async with stack.ktrain() if to_kubeflow else stack.kubeflow():
            await scene.prepare()
            await bring_to_all_states(scene)
            stored = await scene.quiet()
        await scene.create_unseen("new", "torch")
        since = stack.audit.now()
        if with_jobsets:
            await jobsets.aclose()
            stack.install_jobsets_of_ktrain()
        stack.uninstall_ktrain() if to_kubeflow else stack.install_ktrain()
        more = {"jobset": {"enable": True}} if with_jobsets else {}
        async with stack.kubeflow() if to_kubeflow else stack.ktrain(**more) as program:
            await scene.until("new", lambda found: found is not None, JOBSETS)
            now = await scene.quiet(5)
            unchanged = {which: one for which, one in now.items() if which in stored}
            if to_kubeflow:  # it applies what it has applied already, which changes the record of who did
                assert contents(unchanged) == contents(stored)
            else:
                assert versions(unchanged) == versions(stored), program.last_words()
                assert [one for one in stack.audit.writes(since) if not one[2].startswith("new")] == []
            await each_goes_on(scene, stored)
            await patches_change(scene, takes_back=not to_kubeflow)
            await what_has_ended_stays(scene, stored)


async def each_goes_on(scene, stored):
    scene.pods |= dict.fromkeys(["runs", "short"], "succeeded") | dict.fromkeys(["fails", "restarts"], "failed")
    sleepers = ["sleeps", "asleep", "mpi-sleeps", "mpi-asleep", "gang-sleeps", "gang-asleep"]
    scene.pods |= dict.fromkeys([*sleepers, "new"], "running")
    await scene.suspend("sleeps-later")
    await scene.suspend(*sleepers, suspend=False)
    await scene.change("leaves", metadata={"finalizers": None})
    scene.pods |= {"steps/dataset-initializer": "succeeded", "steps/node": "running"}

    await scene.until_conditions("runs", Complete="AllJobsCompleted")
    await scene.until_conditions("fails", Failed="FailedJobs")
    await scene.until_conditions("restarts", Failed="ReachedMaxRestarts")
    await scene.until_conditions("short", Complete="AllJobsCompleted")
    await until_they_run(scene, *sleepers, "new")
    await scene.until_counted("steps", active=1, ready=1, succeeded=1)
    await it_is_the_same_objects_that_go_on(scene, stored, sleepers)
    await scene.until("short", lambda found: found is None, JOBSETS)
    for kind in (JOBSETS, CONFIG_MAPS, JOBS):
        names = {JOBSETS: "leaves", CONFIG_MAPS: "leaves-runtime-snapshot", JOBS: "leaves-node-0"}
        await scene.until(names[kind], lambda found: found is None, kind)


async def it_is_the_same_objects_that_go_on(scene, stored, sleepers):
    now = await scene.snapshot()
    for name in sleepers:
        assert conditions(now["TrainJob", name]) == RESUMED
        assert now["JobSet", name]["metadata"]["uid"] == stored["JobSet", name]["metadata"]["uid"]
        assert now["JobSet", name]["metadata"]["generation"] == stored["JobSet", name]["metadata"]["generation"] + 1
    kept = [which for which in stored if which[0] in ("Secret", "ConfigMap", "PodGroup") and "leaves" not in which[1]]
    assert {which: versions(now)[which] for which in kept} == {which: versions(stored)[which] for which in kept}


async def patches_change(scene, *, takes_back):
    """
    What Kueue puts into a patch now is what counts, and what it takes back goes, whoever had put it there.

    Kubeflow gets stuck when it takes back all labels, whoever made the JobSet.
    """
    labels = {} if takes_back else {"metadata": {"labels": {"team": "b"}}}
    await scene.change("queued", spec={"suspend": False, "runtimePatches": patched(**POOL_B, **labels)})
    await scene.suspend("admitted")
    await until_they_run(scene, "queued")
    template = pod_template(await scene.get("queued", JOBSETS))
    assert template["spec"]["nodeSelector"] == {"pool": "b"}
    assert template["spec"]["tolerations"] == POOL_B["spec"]["tolerations"]
    assert template.get("metadata", {}).get("labels") == labels.get("metadata", {}).get("labels")
    await scene.until_conditions("admitted", **ASLEEP)
    await scene.until_counted("admitted", suspended=1)
    if takes_back:
        await scene.change("admitted", spec={"runtimePatches": patched()})
        found = await scene.until("admitted", lambda found: "nodeSelector" not in pod_template(found)["spec"], JOBSETS)
        assert not pod_template(found).get("metadata", {}).get("labels")


async def what_has_ended_stays(scene, stored):
    job = await scene.until("overdue", conditions)
    assert conditions(job) == {"Failed": "DeadlineExceeded"}
    ended, created = (
        datetime.fromisoformat(text)
        for text in (job["status"]["conditions"][0]["lastTransitionTime"], job["metadata"]["creationTimestamp"])
    )
    assert timedelta(0) <= ended - created - timedelta(seconds=DEADLINE_S) < timedelta(seconds=20)
    await scene.until("overdue", lambda found: found is None, JOBSETS)
    now = await scene.quiet(2)
    for name in ("done", "failed", "elsewhere"):
        ended, before = now["TrainJob", name], stored["TrainJob", name]
        assert ended["metadata"] == before["metadata"]
        assert content(ended) == content(before)
    assert ("JobSet", "elsewhere") not in now
    assert {("JobSet", name) for name in ("short", "overdue", "leaves")}.isdisjoint(now)
    with pytest.raises(ApiError, match="can only be modified when the TrainJob is suspended"):
        await scene.change("new", spec={"runtimePatches": patched(**POOL_A)})
    with pytest.raises(ApiError, match="domain-prefixed path"):
        await scene.change("asleep", spec={"runtimePatches": [{"manager": "nobody"}], "suspend": True})
    with pytest.raises(ApiError, match="field is immutable"):
        await scene.change("mpi-runs", spec={"trainer": {"numNodes": 9}})
