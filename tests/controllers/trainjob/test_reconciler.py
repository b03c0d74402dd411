"""The TrainJob controller in a world of its own: the embedded API server, the other controllers, virtual time."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import msgspec
import pytest

from ktrain.api import assets, core, jobset
from ktrain.api import trainer as api
from ktrain.api.meta import Key, Object, Resource
from ktrain.controllers import trainjob
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.client.transport import Response
from ktrain.framework.errors import NotFound
from ktrain.framework.events import EventRecorder
from ktrain.framework.manager.manager import Manager
from ktrain.local.apiserver.admission import AdmissionPlugin
from ktrain.local.apiserver.errors import StatusError
from ktrain.local.apiserver.server import ApiServer
from ktrain.pipeline import Component, Plugin, Registry, Watch
from ktrain.plugins.jobset import JobSet
from ktrain.plugins.plainml import PlainML
from ktrain.plugins.torch import Torch
from ktrain.testing.time import simulate

from .conftest import RUNTIME

NS = "default"
KEY = Key(NS, "job")
SNAPSHOT = "job-runtime-snapshot"


@dataclass
class Counting:
    """
    Passes everything to the server, and keeps what the controller asked for.

    `refused` are words in paths of reads that get a 403. While there is a `gate`, the TrainJobs' watch waits for it.
    """

    inner: object
    calls: list[tuple[str, str]] = field(default_factory=list)
    refused: tuple[str, ...] = ()
    gate: anyio.Event | None = None

    async def request(self, method, path, **more):
        if method == "GET" and any(word in path for word in self.refused):
            return Response(403, {}, msgspec.json.encode({"code": 403, "message": f"may not get {path}"}))
        if "/events" not in path and ("dryRun", "All") not in more.get("query", ()):
            self.calls.append((method, path))
        return await self.inner.request(method, path, **more)

    @asynccontextmanager
    async def stream(self, path, **more):
        async with self.inner.stream(path, **more) as stream:
            yield stream._replace(lines=self._lines(stream.lines)) if "trainjobs" in path else stream

    async def _lines(self, lines):
        async for line in lines:
            if self.gate:
                await self.gate.wait()
            yield line

    async def aclose(self):
        await self.inner.aclose()

    @property
    def writes(self) -> list[str]:
        return [f"{method} {path.rsplit('/namespaces/default/')[-1]}" for method, path in self.calls if method != "GET"]

    @property
    def reads(self) -> list[str]:
        return [path for method, path in self.calls if method == "GET" and path.count("/namespaces/default/")]


class World:
    """An API server with the TrainJob controller only; the test plays the user and the JobSet controller."""

    def __init__(self, env) -> None:
        self.env = env
        self.quota_exceeded = False
        self.plugins: tuple[Plugin, ...] = (JobSet(), PlainML(), Torch())
        plugin = AdmissionPlugin("quota", self._quota)
        self.server = ApiServer(env, crds=assets.crds(), admission=[plugin])
        self.user = Client(self.server.transport(), env, field_manager="test")
        self.counting = Counting(self.server.transport())

    def _quota(self, request) -> None:
        if self.quota_exceeded and request.resource.plural == "jobsets":
            raise StatusError(403, "Forbidden", "exceeded quota: gpus")

    @asynccontextmanager
    async def operator(self):
        """Run the controller; leaving stops it, as a crash would: nothing is remembered."""
        self.counting.calls.clear()
        client = Client(self.counting, self.env, field_manager="trainer")
        cache = Cache(client, self.env)
        recorder = EventRecorder(client, self.env, component="trainer-trainjob-controller")
        registry = await trainjob.without_unserved(Registry(self.plugins), client)
        controller = trainjob.make_controller(client, cache, self.env, recorder, registry)
        async with anyio.create_task_group() as tasks:
            await tasks.start(Manager(cache=cache, controllers=[controller], recorder=recorder).run)
            yield
            tasks.cancel_scope.cancel()

    async def runtime(self) -> None:
        metadata = {"name": "rt", "namespace": NS}
        await self.user.create(core.untyped(api.TRAINING_RUNTIMES), RUNTIME | {"metadata": metadata})

    async def job(self, **spec) -> None:
        body = {
            "apiVersion": api.API_VERSION,
            "kind": "TrainJob",
            "metadata": {"name": "job", "namespace": NS},
            "spec": {"runtimeRef": {"name": "rt", "kind": "TrainingRuntime"}} | spec,
        }
        await self.user.create(api.TRAIN_JOBS, body)
        await self.settle()

    async def settle(self, seconds: float = 1.0) -> None:
        await self.env.clock.sleep(seconds)

    async def patch(self, resource, name: str = "job", subresource: str = "", **fields) -> None:
        await self.user.patch(resource, Key(NS, name), fields, subresource=subresource)
        await self.settle()

    async def progress(self, condition: str | None = None, **counters: int) -> None:
        """Play the JobSet controller."""
        zeros = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
        status = {"replicatedJobsStatus": [{"name": "node"} | zeros | counters], "restarts": 0}
        if condition:
            entry = {"type": condition, "status": "True", "reason": "Because", "message": "it is so"}
            status["conditions"] = [entry | {"lastTransitionTime": "2030-01-01T00:00:00Z"}]
        await self.user.patch(jobset.JOBSETS, KEY, {"status": status}, subresource="status")

    async def read(self) -> api.TrainJob:
        return await self.user.get(api.TRAIN_JOBS, "job", NS)

    async def job_set(self) -> jobset.JobSet | None:
        try:
            return await self.user.get(jobset.JOBSETS, "job", NS)
        except NotFound:
            return None


def play(scenario) -> None:
    """Run a scenario on virtual time, with a server and a runtime."""

    async def whole(env) -> None:
        world = World(env)
        async with world.server.running():
            await world.runtime()
            await scenario(world)

    simulate(whole)


def test_a_whole_life_costs_four_writes_and_no_read():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job()
            for ready in range(3):
                await world.progress(active=1, ready=ready)
            await world.settle()
            await world.progress("Completed", succeeded=1)
            await world.settle(60)

            assert world.counting.writes == [
                "POST configmaps",
                "PATCH jobsets/job",
                "PATCH trainjobs/job/status",
                "PATCH trainjobs/job/status",
            ]
            assert world.counting.reads == []
        job = await world.read()
        assert [(c.type, c.reason, c.message) for c in job.status.conditions] == [("Complete", "Because", "it is so")]
        assert job.status.jobs_status == (api.JobStatus("node", succeeded=1),)

    play(scenario)


def test_a_restart_over_a_settled_world_writes_nothing():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(suspend=True)
        async with world.operator():
            await world.settle(60)

            assert world.counting.writes == []

    play(scenario)


def test_suspending_and_resuming_write_the_jobset_once_each():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job()
            world.counting.calls.clear()
            await world.patch(api.TRAIN_JOBS, spec={"suspend": True})
            suspended = await world.job_set()
            await world.patch(api.TRAIN_JOBS, metadata={"labels": {"a": "b"}})
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})

            assert suspended.spec.suspend
            assert not (await world.job_set()).spec.suspend
            assert world.counting.writes.count("PATCH jobsets/job") == 2
            assert world.counting.reads == []

    play(scenario)


def test_a_missing_runtime_is_explained_within_five_seconds_and_waited_for():
    async def scenario(world: World) -> None:
        await world.user.delete(api.TRAINING_RUNTIMES, Key(NS, "rt"))
        async with world.operator():
            await world.job()
            early = await world.read()
            await world.settle(3)
            late = await world.read()
            await world.settle(600)
            await world.runtime()
            await world.settle(1)

            assert early.status == api.TrainJobStatus()
            assert late.status.diagnosis.reason == "RuntimeUnusable"
            assert "is not found" in late.status.diagnosis.message
            assert await world.job_set() is not None
            await world.progress(active=1)
            await world.settle(2)
            assert (await world.read()).status.diagnosis is None
        events = await world.user.list(core.untyped(core.EVENTS), NS)
        (event,) = events.items
        assert (event["reason"], event["action"]) == ("TrainJobResourcesCreationFailed", "Reconciling")

    play(scenario)


def test_a_hopeless_job_does_not_spin():
    async def scenario(world: World) -> None:
        await world.user.delete(api.TRAINING_RUNTIMES, Key(NS, "rt"))
        async with world.operator():
            await world.job()
            await world.settle(3600)

            assert world.counting.writes == ["PATCH trainjobs/job/status"]

    play(scenario)


def test_a_foreign_jobset_is_not_touched_and_its_end_is_not_believed():
    async def scenario(world: World) -> None:
        body = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "job", "namespace": NS},
            "spec": {"replicatedJobs": RUNTIME["spec"]["template"]["spec"]["replicatedJobs"]},
        }
        async with world.operator():
            before = await world.user.create(core.untyped(jobset.JOBSETS), body)
            await world.progress("Completed", succeeded=1)
            await world.job()
            await world.settle(5)
            after = await world.user.get(core.untyped(jobset.JOBSETS), "job", NS)

            assert after["spec"] == before["spec"]
            assert "ownerReferences" not in after["metadata"]
            status = (await world.read()).status
            assert (status.conditions, status.diagnosis.reason) == ((), "NameTaken")

    play(scenario)


def test_a_foreign_snapshot_is_not_overwritten():
    async def scenario(world: World) -> None:
        metadata = {"name": SNAPSHOT, "namespace": NS}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"runtime": "mine"}}
        async with world.operator():
            await world.user.create(core.CONFIG_MAPS, body)
            await world.job()
            await world.settle(5)

            assert (await world.user.get(core.CONFIG_MAPS, SNAPSHOT, NS)).data == {"runtime": "mine"}
            assert await world.job_set() is None
            assert "owned by another object" in (await world.read()).status.diagnosis.message

    play(scenario)


def test_runtimes_change_under_a_job_without_effect_until_its_snapshot_is_deleted():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(suspend=True)
            labels = {"template": {"metadata": {"labels": {"v": "2"}}}}
            await world.patch(api.TRAINING_RUNTIMES, "rt", spec=labels)
            await world.patch(api.TRAIN_JOBS, metadata={"labels": {"a": "b"}})
            unchanged = await world.job_set()
            await world.user.delete(core.CONFIG_MAPS, Key(NS, SNAPSHOT))
            await world.settle()

            assert unchanged.metadata.labels == {}
            assert (await world.job_set()).metadata.labels == {"v": "2"}

    play(scenario)


def test_a_snapshot_survives_a_restart_and_the_end_of_its_runtime():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(suspend=True)
        await world.user.delete(api.TRAINING_RUNTIMES, Key(NS, "rt"))
        async with world.operator():
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})

            assert not (await world.job_set()).spec.suspend

    play(scenario)


def test_a_deadline_fails_the_job_first_and_then_deletes_its_jobset():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(activeDeadlineSeconds=30)
            assert await world.job_set() is not None
            world.counting.calls.clear()
            await world.settle(120)

            assert world.counting.writes == ["PATCH trainjobs/job/status", "DELETE jobsets/job"]
            assert await world.job_set() is None
            assert (await world.read()).status.conditions[0].reason == "DeadlineExceeded"

    play(scenario)


def test_a_deleted_jobset_comes_back_and_a_deleted_jobs_does_not():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job()
            first = await world.job_set()
            await world.user.delete(jobset.JOBSETS, KEY)
            await world.settle()
            second = await world.job_set()
            await world.user.delete(api.TRAIN_JOBS, KEY)
            await world.settle(60)

            assert second.metadata.uid != first.metadata.uid
            assert await world.job_set() is None

    play(scenario)


def test_a_job_of_another_controller_gets_not_one_write():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(managedBy="kueue.x-k8s.io/multikueue")
            await world.settle(60)

            assert world.counting.writes == []

    play(scenario)


def test_what_the_api_server_refuses_is_explained_at_once_and_retried():
    async def scenario(world: World) -> None:
        async with world.operator():
            world.quota_exceeded = True
            await world.job()
            refused = (await world.read()).status
            world.quota_exceeded = False
            await world.settle(60)

            assert (refused.diagnosis.reason, refused.diagnosis.message) == ("Refused", "exceeded quota: gpus")
            assert await world.job_set() is not None

    play(scenario)


def test_a_deadline_outlives_a_server_that_refuses_the_deletion():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(activeDeadlineSeconds=10)
            world.quota_exceeded = True
            await world.settle(60)
            failed, child = await world.read(), await world.job_set()
            world.quota_exceeded = False
            await world.settle(300)

            assert failed.is_finished
            assert child is not None
            assert await world.job_set() is None

    play(scenario)


def test_what_was_sent_before_a_restart_and_is_wanted_no_more_is_removed():
    pod = {"metadata": {"labels": {"team": "old"}}, "spec": {"containers": [{"name": "node", "tty": True}]}}
    template = {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": pod}}}]}}
    patch = {"manager": "me.io/x", "trainingRuntimeSpec": {"template": template}}

    async def scenario(world: World) -> None:
        async def pod_template() -> dict:
            stored = await world.user.get(core.untyped(jobset.JOBSETS), "job", NS)
            return stored["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]

        async with world.operator():
            await world.job(suspend=True, runtimePatches=[patch])
            assert (await pod_template())["metadata"]["labels"] == {"team": "old"}
        await world.patch(api.TRAIN_JOBS, spec={"runtimePatches": None})
        async with world.operator():
            await world.settle(2)

            assert "labels" not in (await pod_template()).get("metadata", {})
            assert "tty" not in (await pod_template())["spec"]["containers"][0]
            assert world.counting.writes == ["PATCH jobsets/job"]

    play(scenario)


def test_what_another_adds_to_a_suspended_jobset_is_no_reason_to_write():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(suspend=True)
        await world.patch(jobset.JOBSETS, metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}})
        async with world.operator():
            await world.settle(60)

            assert world.counting.writes == []
            assert (await world.job_set()).metadata.labels == {"kueue.x-k8s.io/queue-name": "q"}

    play(scenario)


def test_a_deadline_is_kept_while_nothing_can_be_built():
    async def scenario(world: World) -> None:
        await world.user.delete(api.TRAINING_RUNTIMES, Key(NS, "rt"))
        async with world.operator():
            await world.job(activeDeadlineSeconds=200)
            await world.settle(198)
            before = await world.read()
            await world.settle(2)

            assert not before.is_finished
            assert (await world.read()).status.conditions[0].reason == "DeadlineExceeded"

    play(scenario)


@pytest.mark.parametrize("refused", ["/configmaps/", "/jobsets/"])
def test_a_read_that_is_refused_after_a_restart_is_explained_and_keeps_the_deadline(refused):
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(suspend=True, activeDeadlineSeconds=300)
        world.counting.refused = (refused,)
        async with world.operator():
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})
            explained = (await world.read()).status
            await world.settle(302)

            assert explained.diagnosis.reason == "Refused"
            assert refused in explained.diagnosis.message
            assert {c.type: c.status for c in explained.conditions} == {"Suspended": "False"}
            assert (await world.read()).is_finished
        events = await world.user.list(core.untyped(core.EVENTS), NS)
        assert any(refused in event["note"] for event in events.items)

    play(scenario)


@pytest.mark.parametrize("has_successor", [False, True])
def test_the_children_of_a_job_that_is_gone_are_not_made_again_by_a_cache_that_is_behind(has_successor):
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job()
            world.counting.calls.clear()
            world.counting.gate = anyio.Event()
            await world.user.delete(api.TRAIN_JOBS, KEY)
            if has_successor:
                await world.job()
            await world.settle(60)

            assert await world.job_set() is None
            assert world.counting.writes == []
            assert world.counting.reads != []

    play(scenario)


def test_the_status_of_a_job_that_is_gone_is_not_written_to_its_successor():
    async def scenario(world: World) -> None:
        await world.user.delete(api.TRAINING_RUNTIMES, Key(NS, "rt"))
        async with world.operator():
            await world.job(activeDeadlineSeconds=30)
            world.counting.gate = anyio.Event()
            await world.user.delete(api.TRAIN_JOBS, KEY)
            await world.job()
            await world.settle(60)

            assert "PATCH trainjobs/job/status" in world.counting.writes
            assert (await world.read()).status == api.TrainJobStatus()

    play(scenario)


class Gang:
    """A plugin for a scheduler that the cluster does not have, and of whose objects one job needs one."""

    name = "Gang"
    kind = Resource("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", namespaced=True, type=Object)

    def watches(self):
        return (Watch(self.kind, owned=True),)

    def build(self, info, ctx):
        assert ctx.lookup(self.kind, info.job.key) is None
        metadata = {"name": info.job.metadata.name, "namespace": NS}
        body = {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": metadata}
        return (Component(self.kind, body),) if info.job.spec.trainer else ()


def test_a_plugin_whose_kind_is_not_served_costs_only_the_jobs_that_need_it():
    async def scenario(world: World) -> None:
        world.plugins += (Gang(),)
        async with world.operator():
            await world.job()
            assert await world.job_set() is not None
            await world.user.delete(api.TRAIN_JOBS, KEY)
            await world.settle()
            await world.job(trainer={"numNodes": 2})
            await world.settle(5)

            assert await world.job_set() is None
            assert "podgroups.scheduling.volcano.sh are not watched" in (await world.read()).status.diagnosis.message

    play(scenario)
