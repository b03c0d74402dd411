"""JobSets that Kubeflow Trainer made otherwise than ktrain would: kept, but for what may change of a JobSet."""

from __future__ import annotations

import pytest
import yaml

from ktrain.api import core, jobset
from ktrain.api import trainer as api
from ktrain.api.meta import Key, owner_reference
from ktrain.controllers.jobset import Gates
from ktrain.framework.client.client import Client
from ktrain.local.server import make_server
from ktrain.pipeline import Registry
from ktrain.testing.time import simulate

from .conftest import RUNTIME
from .world import NS, Counting, World

JOB_SETS = core.untyped(jobset.JOBSETS)
KUBEFLOWS = [{"name": "BUILT_BY", "value": "kubeflow"}]


def patch(**pod) -> dict:
    spec = {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": pod}}}]}
    return {"manager": "me.io/x", "trainingRuntimeSpec": {"template": {"spec": spec}}}


class Cluster(World):
    """A server with the rules of JobSets."""

    def __init__(self, env) -> None:
        super().__init__(env)
        self.server = make_server(env, Registry(self.plugins), Gates())
        self.user = Client(self.server.transport(), env, field_manager="test")
        self.counting = Counting(self.server.transport())

    async def left_by_kubeflow(self) -> None:
        """Make a suspended job as Kubeflow's operator leaves it; of its own there is a variable in the template."""
        await self.job(suspend=True)
        job = await self.user.get(api.TRAIN_JOBS, "job", NS)
        owners = [owner_reference(api.API_VERSION, "TrainJob", "job", job.metadata.uid)]
        metadata = {"namespace": NS, "ownerReferences": owners}
        (replicated,) = RUNTIME["spec"]["template"]["spec"]["replicatedJobs"]
        pod = {"metadata": {}, "spec": {"containers": [{"name": "node", "image": "i", "env": KUBEFLOWS}]}}
        template = {**replicated["template"], "spec": {"parallelism": 2, "completions": 2, "template": pod}}
        spec = {"suspend": True, "replicatedJobs": [{**replicated, "replicas": 1, "template": template}]}
        head = {"apiVersion": JOB_SETS.api_version, "kind": "JobSet", "metadata": metadata | {"name": "job"}}
        live = await self.user.get(core.untyped(api.TRAINING_RUNTIMES), "rt", NS)
        snapshot = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata | {"name": "job-runtime-snapshot"}}
        data = {"data": {"runtime": yaml.safe_dump(live)}}
        for resource, body in ((core.CONFIG_MAPS, snapshot | data), (JOB_SETS, head | {"spec": spec})):
            await self.user.apply(resource, body, field_manager=api.FIELD_MANAGER)

    async def pods(self) -> dict:
        """The pod template that is stored."""
        stored = await self.user.get(JOB_SETS, "job", NS)
        template: dict = stored["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        return template

    async def change(self, **spec) -> None:
        await self.user.patch(api.TRAIN_JOBS, Key(NS, "job"), {"spec": spec})
        await self.settle(5)

    async def status(self) -> api.TrainJobStatus:
        return (await self.user.get(api.TRAIN_JOBS, "job", NS)).status


def play(scenario) -> None:
    async def whole(env) -> None:
        world = Cluster(env)
        async with world.server.running():
            await world.runtime()
            await world.left_by_kubeflow()
            await scenario(world)

    simulate(whole)


def test_it_is_left_alone_while_it_sleeps_and_resumed_as_it_is():
    async def scenario(world: Cluster) -> None:
        async with world.operator():
            await world.settle(60)
            assert world.counting.writes == ["PATCH trainjobs/job/status"]
            await world.change(suspend=False)

            stored = await world.user.get(JOB_SETS, "job", NS)
            assert not stored["spec"]["suspend"]
            assert (await world.pods())["spec"]["containers"][0]["env"] == KUBEFLOWS
            assert (await world.status()).diagnosis is None

    play(scenario)


def test_what_may_change_of_a_jobset_comes_and_goes_with_the_patch():
    pod = {
        "metadata": {"labels": {"team": "a"}, "annotations": {"b": "c"}},
        "spec": {"nodeSelector": {"pool": "a"}, "tolerations": [{"key": "a"}], "schedulingGates": [{"name": "a.io/b"}]},
    }

    async def scenario(world: Cluster) -> None:
        clean = await world.pods()
        async with world.operator():
            await world.settle(5)
            await world.change(suspend=False, runtimePatches=[patch(**pod)])
            admitted = await world.pods()
            await world.change(suspend=True)
            await world.change(runtimePatches=[patch()])
            left = await world.pods()
        async with world.operator():
            await world.settle(60)
            assert world.counting.writes == []

        assert {key: admitted["spec"][key] for key in pod["spec"]} == pod["spec"]
        assert admitted["metadata"] == pod["metadata"]
        assert left["spec"] == clean["spec"]
        assert not left.get("metadata")

    play(scenario)


TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
FIXED = {
    "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}},
    "serviceAccountName": "other",
    "imagePullSecrets": [{"name": "other"}],
    "securityContext": {"runAsUser": 7},
    "terminationGracePeriodSeconds": 7,
    "volumes": [{"name": "data", "emptyDir": {"medium": "Memory"}}],
    "mounts": {
        "volumes": [{"name": "data", "emptyDir": {}}],
        "containers": [{"name": "node", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
    },
    "privileges": {"containers": [{"name": "node", "securityContext": {"runAsUser": 7}}]},
}


@pytest.mark.parametrize("field", FIXED)
@pytest.mark.parametrize("restarted", [False, True])
def test_what_may_not_change_is_told_as_of_any_jobset(restarted, field):
    asked = FIXED[field] if field in ("mounts", "privileges") else {field: FIXED[field]}

    async def scenario(world: Cluster) -> None:
        wanted = {"suspend": False, "runtimePatches": [patch(spec=asked)]}
        if restarted:
            await world.user.patch(api.TRAIN_JOBS, Key(NS, "job"), {"spec": wanted})
        async with world.operator():
            await world.settle(5)
            if not restarted:
                await world.change(**wanted)
            told = (await world.status()).diagnosis
            await world.change(suspend=True, runtimePatches=[])
            await world.change(suspend=False)
            assert told is not None
            assert "field is immutable" in told.message
            assert not (await world.user.get(JOB_SETS, "job", NS))["spec"]["suspend"]

    play(scenario)


def test_what_a_patch_asks_for_and_is_there_is_no_reason_to_complain():
    secret = {"name": "data", "secret": {"secretName": "s"}}

    async def scenario(world: Cluster) -> None:
        await world.change(runtimePatches=[patch(spec={"volumes": [secret]})])
        stored = await world.user.get(JOB_SETS, "job", NS)
        pod = stored["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        pod["volumes"] = [
            {"name": "other", "emptyDir": {}},
            {**secret, "secret": {"secretName": "s", "optional": False}},
        ]
        await world.user.delete(JOB_SETS, Key(NS, "job"))
        del stored["metadata"]["resourceVersion"], stored["metadata"]["uid"]
        await world.user.create(JOB_SETS, stored)
        async with world.operator():
            await world.change(suspend=False)
            assert (await world.status()).diagnosis is None
            assert not (await world.user.get(JOB_SETS, "job", NS))["spec"]["suspend"]
            assert (await world.pods())["spec"]["volumes"] == pod["volumes"]

    play(scenario)


def test_one_that_is_made_again_is_ktrains_own():
    async def scenario(world: Cluster) -> None:
        async with world.operator():
            await world.settle(5)
            await world.user.delete(jobset.JOBSETS, Key(NS, "job"))
            await world.settle(5)
            assert "env" not in (await world.pods())["spec"]["containers"][0]

    play(scenario)
