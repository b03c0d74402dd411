"""
What Kueue does with a TrainJob, on all controllers and the rules of JobSets, in virtual time.

Its webhook suspends the job and appends a patch of its own; at admission it fills that, and resumes the job; to stop it
suspends the job, waits until nothing is active, and clears the patch.
"""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import pytest

from ktrain.api import core, jobset
from ktrain.api import trainer as api
from ktrain.api.meta import Key, is_condition_true
from ktrain.controllers.jobset import Gates
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.errors import Forbidden
from ktrain.local.composing import compose
from ktrain.local.server import make_server
from ktrain.pipeline import Registry
from ktrain.plugins.jobset import JobSet
from ktrain.plugins.plainml import PlainML
from ktrain.plugins.torch import Torch
from ktrain.testing.time import simulate

from .conftest import RUNTIME

NS = "default"
KEY = Key(NS, "job")
MANAGER = "kueue.x-k8s.io/manager"


class Cluster:
    """A server with every controller but a kubelet, and Kueue's part in it, by hand."""

    def __init__(self, env, server) -> None:
        self.env = env
        self.user = Client(server.transport(), env, field_manager="kueue")

    async def submit(self) -> None:
        await self.user.create(
            core.untyped(api.TRAINING_RUNTIMES), RUNTIME | {"metadata": {"name": "rt", "namespace": NS}}
        )
        spec = {"runtimeRef": {"name": "rt", "kind": "TrainingRuntime"}, "suspend": True, "runtimePatches": [entry()]}
        metadata = {"name": "job", "namespace": NS}
        body = {"apiVersion": api.API_VERSION, "kind": "TrainJob", "metadata": metadata, "spec": spec}
        await self.user.create(api.TRAIN_JOBS, body)
        await self.until(lambda job: is_condition_true(job.status.conditions, "Suspended"))

    async def update(self, **spec) -> None:
        await self.user.patch(api.TRAIN_JOBS, KEY, {"spec": spec})

    async def until(self, condition) -> api.TrainJob:
        """Wait for a state of the TrainJob, for a minute."""
        for _ in range(600):
            job = await self.user.get(api.TRAIN_JOBS, "job", NS)
            if condition(job):
                return job
            await self.env.clock.sleep(0.1)
        raise AssertionError(f"after a minute still {job.status}")

    async def pods(self) -> list[dict]:
        return list((await self.user.list(core.untyped(core.PODS), NS)).items)

    async def pod_template(self) -> dict:
        stored = await self.user.get(core.untyped(jobset.JOBSETS), "job", NS)
        return stored["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]

    async def generation(self) -> int:
        """How often the spec of the JobSet was written."""
        return (await self.user.get(core.untyped(jobset.JOBSETS), "job", NS))["metadata"]["generation"]

    async def complaints(self) -> list[str]:
        """Warnings about the TrainJob."""
        events = (await self.user.list(core.untyped(core.EVENTS), NS)).items
        return [one["note"] for one in events if one["regarding"]["kind"] == "TrainJob" and one["type"] == "Warning"]


def entry(flavor: str | None = None) -> dict:
    """Kueue's entry: empty, or of a flavor that the job was admitted to."""
    if flavor is None:
        return {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {}}}}
    pod = {
        "metadata": {"labels": {"flavor": flavor}, "annotations": {"workload": f"job-{flavor}"}},
        "spec": {
            "nodeSelector": {"pool": flavor},
            "tolerations": [{"key": flavor, "operator": "Exists"}],
            "schedulingGates": [{"name": "kueue.x-k8s.io/topology"}],
        },
    }
    replicated_jobs = [{"name": "node", "template": {"spec": {"template": pod}}}]
    return {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": replicated_jobs}}}}


def is_active(job: api.TrainJob) -> bool:
    return any(each.active for each in job.status.jobs_status)


@asynccontextmanager
async def cluster(env):
    registry = Registry([JobSet(), PlainML(), Torch()])
    server = make_server(env, registry, Gates())
    async with server.running():
        client = Client(server.transport(), env, field_manager="trainer")
        composed = await compose(client, Cache(client, env), env, registry, jobsets=Gates(), places_pods=False)
        async with anyio.create_task_group() as tasks:
            await tasks.start(composed.manager.run)
            yield Cluster(env, server)
            tasks.cancel_scope.cancel()


def test_a_hundred_admissions_and_evictions_leave_nothing_stuck_and_nothing_behind():
    async def scenario(env) -> None:
        async with cluster(env) as kueue:
            await kueue.submit()
            clean = await kueue.pod_template()
            for number in range(100):
                flavor = f"flavor-{number % 3}"
                if number % 2:
                    await kueue.update(runtimePatches=[entry(flavor)], suspend=False)
                else:
                    await kueue.update(runtimePatches=[entry(flavor)])
                    await kueue.update(suspend=False)
                await kueue.until(is_active)
                pods = await kueue.pods()
                assert len(pods) == 2
                for pod in pods:
                    assert pod["spec"]["nodeSelector"] == {"pool": flavor}
                    assert pod["metadata"]["labels"]["flavor"] == flavor
                    assert pod["metadata"]["annotations"]["workload"] == f"job-{flavor}"
                    assert pod["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/topology"}]
                    assert [t["key"] for t in pod["spec"]["tolerations"] if t["key"] == flavor] == [flavor]
                await kueue.update(suspend=True)
                await kueue.until(lambda job: not is_active(job))
                await kueue.update(runtimePatches=[entry()])
                await kueue.until(lambda job: is_condition_true(job.status.conditions, "Suspended"))
            await env.clock.sleep(5)

            left = await kueue.pod_template()
            assert left["spec"] == clean["spec"]
            assert not left.get("metadata")
            assert await kueue.pods() == []
            assert await kueue.complaints() == []

    simulate(scenario)


def test_a_job_is_admitted_in_one_write_of_its_jobset_and_evicted_in_two():
    async def scenario(env) -> None:
        async with cluster(env) as kueue:
            await kueue.submit()
            for flavor in ("a", "b"):
                before = await kueue.generation()
                await kueue.update(runtimePatches=[entry(flavor)])
                await kueue.update(suspend=False)
                await kueue.until(is_active)
                assert await kueue.generation() == before + 1
                await kueue.update(suspend=True)
                await kueue.until(lambda job: not is_active(job))
                assert await kueue.generation() == before + 2
                await kueue.update(runtimePatches=[entry()])
                await env.clock.sleep(5)
                assert await kueue.generation() == before + 3
                assert not (await kueue.pod_template())["spec"].get("nodeSelector")

    simulate(scenario)


def test_an_eviction_that_is_followed_by_an_admission_is_one_write_of_the_jobset():
    async def scenario(env) -> None:
        async with cluster(env) as kueue:
            await kueue.submit()
            await kueue.update(runtimePatches=[entry("a")], suspend=False)
            await kueue.until(is_active)
            before = await kueue.generation()
            await kueue.update(suspend=True)
            await kueue.until(lambda job: not is_active(job))
            await kueue.update(runtimePatches=[entry()])
            await env.clock.sleep(0.5)
            await kueue.update(runtimePatches=[entry("b")])
            await kueue.update(suspend=False)
            await kueue.until(is_active)
            assert await kueue.generation() == before + 2
            assert {pod["spec"]["nodeSelector"]["pool"] for pod in await kueue.pods()} == {"b"}

    simulate(scenario)


def test_patches_cannot_change_before_the_last_active_job_is_gone():
    async def scenario(env) -> None:
        async with cluster(env) as kueue:
            await kueue.submit()
            await kueue.update(runtimePatches=[entry("a")], suspend=False)
            await kueue.until(is_active)
            with pytest.raises(Forbidden, match="ReplicatedJob node is still active"):
                await kueue.update(runtimePatches=[entry()], suspend=True)

    simulate(scenario)


@pytest.mark.parametrize("deleted", [False, True])
def test_a_job_is_resumed_on_what_it_began_with_whatever_became_of_its_runtime(deleted):
    async def scenario(env) -> None:
        async with cluster(env) as kueue:
            await kueue.submit()
            where = Key(NS, "rt")
            if deleted:
                await kueue.user.delete(api.TRAINING_RUNTIMES, where)
            else:
                template = RUNTIME["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]
                pod = {"spec": {"template": {"spec": {"containers": [{"name": "node", "image": "new"}]}}}}
                jobs = [{"name": "node", "template": template | pod}]
                await kueue.user.patch(
                    api.TRAINING_RUNTIMES, where, {"spec": {"template": {"spec": {"replicatedJobs": jobs}}}}
                )
            await kueue.update(runtimePatches=[entry("a")], suspend=False)
            await kueue.until(is_active)

            assert {pod["spec"]["containers"][0]["image"] for pod in await kueue.pods()} == {"i"}
            assert await kueue.complaints() == []

    simulate(scenario)


def test_a_job_has_one_pod_set_for_each_replicated_job_in_every_state():
    async def scenario(env) -> None:
        async with cluster(env) as kueue:
            seen = set()
            await kueue.submit()
            for suspend in (False, True, False):
                await kueue.update(suspend=suspend)
                job = await kueue.until(lambda job, suspend=suspend: is_active(job) is not suspend)
                seen.add(tuple(each.name for each in job.status.jobs_status))

            assert seen == {("node",)}

    simulate(scenario)


def test_what_jobsets_do_not_let_change_is_told_on_the_job_and_mended_by_taking_it_back():
    terms = [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]
    pod = {
        "spec": {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            }
        }
    }
    template = {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": pod}}}]}}
    affine = {"manager": MANAGER, "trainingRuntimeSpec": {"template": template}}

    async def scenario(env) -> None:
        async with cluster(env) as kueue:
            await kueue.submit()
            await kueue.update(runtimePatches=[affine])
            refused = (await kueue.until(lambda job: job.status.diagnosis)).status.diagnosis
            await kueue.update(runtimePatches=[entry("a")], suspend=False)
            running = await kueue.until(is_active)

            assert refused.reason == "Refused"
            assert "field is immutable" in refused.message
            assert running.status.diagnosis is None

    simulate(scenario)
