"""What Kubeflow built otherwise than ktrain would, suspended while the operator is exchanged: it stays, and goes on."""

from ktrain.api.jobset import JOBSETS

from .scene import contents, job, patched, pod_template, runtime, versions


def with_gpus():
    found = job("node", "trainer")
    container = found["template"]["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"nvidia.com/gpu": 2}, "requests": {"nvidia.com/gpu": 2}}
    return found


OTHERWISE = {
    "gpus": runtime({"numNodes": 1, "torch": {}}, with_gpus()),
    "flux": runtime({"numNodes": 1, "flux": {"numProcPerNode": 1}}, job("node", "trainer")),
}
ADMITTED = {"metadata": {"labels": {"team": "a"}}, "spec": {"nodeSelector": {"pool": "a"}}}


async def test_it_stays_as_it_is_and_goes_on_with_what_may_change(stack, scene):
    async with stack.jobsets(), scene.kubelet():
        async with stack.kubeflow():
            await scene.prepare(OTHERWISE)
            cpus = {"resourcesPerNode": {"requests": {"cpu": "1"}}}
            await scene.create("gpus", "gpus", suspend=True, trainer=cpus, runtimePatches=patched())
            await scene.create("flux", "flux", suspend=True, trainer={"numNodes": 2, "command": ["echo", "a b"]})
            for name in OTHERWISE:
                await scene.until_conditions(name, Suspended="Suspended")
            stored = await scene.quiet()
        stack.install_ktrain()
        async with stack.ktrain() as program:
            assert versions(await scene.quiet(5)) == versions(stored), program.last_words()

            scene.pods |= dict.fromkeys(OTHERWISE, "running")
            await scene.change("gpus", spec={"suspend": False, "runtimePatches": patched(**ADMITTED)})
            await scene.suspend("flux", suspend=False)
            for name in OTHERWISE:
                await scene.until_counted(name, active=1, ready=1)
            now = contents(await scene.snapshot())
            for which in (("ConfigMap", "flux-flux-entrypoint"), ("Secret", "flux-flux-curve")):
                assert now[which] == contents(stored)[which]
            admitted = pod_template(now["JobSet", "gpus"])
            assert admitted["metadata"]["labels"] == {"team": "a"}
            assert admitted["spec"]["nodeSelector"] == {"pool": "a"}
            assert admitted["spec"]["containers"] == pod_template(stored["JobSet", "gpus"])["spec"]["containers"]
            await it_sleeps_and_ends(scene)


async def it_sleeps_and_ends(scene):
    await scene.suspend("gpus")
    await scene.until_counted("gpus", suspended=1)
    await scene.change("gpus", spec={"runtimePatches": patched()})
    found = await scene.until("gpus", lambda found: "nodeSelector" not in pod_template(found)["spec"], JOBSETS)
    assert not pod_template(found).get("metadata", {}).get("labels")
    await scene.suspend("gpus", suspend=False)
    scene.pods |= dict.fromkeys(OTHERWISE, "succeeded")
    for name, reasons in {"gpus": {"Suspended": "Resumed"}, "flux": {"Suspended": "Resumed"}}.items():
        await scene.until_conditions(name, Complete="AllJobsCompleted", **reasons)
    assert "diagnosis" not in (await scene.get("gpus"))["status"]


async def test_volumes_that_a_patch_adds_are_refused_and_told_by_each_operator_that_comes(stack, scene):
    volumes = {"spec": {"volumes": [{"name": "data", "emptyDir": {}}]}}
    async with stack.jobsets(), scene.kubelet():
        async with stack.kubeflow():
            await scene.prepare(OTHERWISE)
            cpus = {"resourcesPerNode": {"requests": {"cpu": "1"}}}
            await scene.create("gpus", "gpus", suspend=True, trainer=cpus, runtimePatches=patched())
            await scene.until_conditions("gpus", Suspended="Suspended")
            await scene.change("gpus", spec={"suspend": False, "runtimePatches": patched(**volumes)})
            await scene.until("gpus", lambda found: not found["spec"]["suspend"])
            stored = await scene.quiet()
        assert stored["JobSet", "gpus"]["spec"]["suspend"], "Kubeflow's is refused, too"
        stack.install_ktrain()
        async with stack.ktrain():
            told = await scene.until("gpus", lambda found: found["status"].get("diagnosis"))
            assert "field is immutable" in told["status"]["diagnosis"]["message"]
            scene.pods["gpus"] = "running"
            await scene.suspend("gpus")
            await scene.change("gpus", spec={"suspend": False, "runtimePatches": patched()})
            await scene.until_counted("gpus", active=1, ready=1)
            assert "diagnosis" not in (await scene.get("gpus"))["status"]
