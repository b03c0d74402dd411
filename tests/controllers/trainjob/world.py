"""A control plane in virtual time around the TrainJob controller, that counts what the controller asks of it."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zlib import crc32

import anyio
import msgspec

from ktrain.api import assets, core, jobset
from ktrain.api import trainer as api
from ktrain.api.meta import Key
from ktrain.controllers import trainjob
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.client.transport import Response
from ktrain.framework.errors import NotFound
from ktrain.framework.events import EventRecorder
from ktrain.framework.manager.manager import Manager
from ktrain.framework.metrics import Metrics
from ktrain.local.apiserver import server as apiserver  # first: its parts import each other
from ktrain.local.apiserver.admission.chain import AdmissionPlugin
from ktrain.local.apiserver.errors import StatusError
from ktrain.pipeline import Plugin, Registry
from ktrain.plugins.jobset import JobSet
from ktrain.plugins.plainml import PlainML
from ktrain.plugins.torch import Torch
from ktrain.testing.time import simulate

from .conftest import RUNTIME

if TYPE_CHECKING:
    from ktrain.framework.telemetry.tracing import Tracing

NS = "default"
KEY = Key(NS, "job")


@dataclass
class Counting:
    """
    Passes everything to the server, and keeps what the controller asked for.

    `refused` are words in paths of reads that get a 403. While there is a `gate`, the TrainJobs' watch waits for it;
    while there is a `latch`, writes of their status do.
    """

    inner: object
    calls: list[tuple[str, str]] = field(default_factory=list)
    refused: tuple[str, ...] = ()
    gate: anyio.Event | None = None
    latch: anyio.Event | None = None
    waiting: int = 0
    looks: list[str] = field(default_factory=list)
    """Reads of events."""

    async def request(self, method, path, **more):
        if method == "GET" and path.endswith("/events"):
            self.looks.append(dict(more["query"])["fieldSelector"])
        if method == "GET" and any(word in path for word in self.refused):
            return Response(403, {}, msgspec.json.encode({"code": 403, "message": f"may not get {path}"}))
        if "/events" not in path and ("dryRun", "All") not in more.get("query", ()):
            self.calls.append((method, path))
        if self.latch and path.endswith("/status"):
            self.waiting += 1
            await self.latch.wait()
            self.waiting -= 1
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

    def __init__(self, env, **server) -> None:
        self.env = env
        self.quota_exceeded = False
        self.limited = "jobsets"
        self.refusal = (403, "Forbidden", "exceeded quota: gpus")
        self.details: dict | None = None
        self.plugins: tuple[Plugin, ...] = (JobSet(), PlainML(), Torch())
        plugin = AdmissionPlugin("quota", self._quota)
        self.server = apiserver.ApiServer(env, crds=assets.crds(), admission=[plugin], **server)
        self.user = Client(self.server.transport(), env, field_manager="test")
        self.counting = Counting(self.server.transport())
        self.metrics = Metrics()
        self.tracing: Tracing | None = None

    def _quota(self, request) -> None:
        if self.quota_exceeded and request.resource.plural == self.limited:
            raise StatusError(*self.refusal, details=self.details)

    @asynccontextmanager
    async def operator(self, *, shared: bool = False, workers: int = 16, shows_state: bool = True):
        """
        Run the controller; leaving stops it, as a crash would: nothing is remembered. `shared`: its snapshots.

        Yields the controller's cache.
        """
        self.counting.calls.clear()
        client = Client(self.counting, self.env, field_manager="trainer")
        cache = Cache(client, self.env)
        recorder = EventRecorder(client, self.env, component="trainer-trainjob-controller")
        registry = await trainjob.without_unserved(Registry(self.plugins), client)
        snapshots = trainjob.SharedSnapshots(client, cache, for_new_jobs=shared, metrics=self.metrics)
        job_metrics = trainjob.make_job_metrics(self.metrics, cache, self.env)
        controllers = [
            trainjob.make_controller(
                client,
                cache,
                self.env,
                recorder,
                registry,
                shared=snapshots,
                shows_state=shows_state,
                max_concurrent_reconciles=workers,
                metrics=self.metrics,
                job_metrics=job_metrics,
                tracing=self.tracing,
            ),
            trainjob.make_collector(snapshots, cache, self.env),
        ]
        runnables = [job_metrics] if job_metrics else []
        manager = Manager(cache=cache, controllers=controllers, recorder=recorder, runnables=runnables)
        async with anyio.create_task_group() as tasks:
            await tasks.start(manager.run)
            yield cache
            tasks.cancel_scope.cancel()

    @asynccontextmanager
    async def running_job(self, condition: str | None = None, **counters: int):
        """Run the controller over a job that has come so far; only what it asks for from then on counts."""
        async with self.operator():
            await self.job()
            await self.progress(condition, **counters)
            await self.settle()
            self.counting.calls.clear()
            yield

    async def use(self, policies: dict, *plugins: Plugin) -> None:
        """Have the server know the kinds of schedulers, the next operator more plugins, the runtime their policies."""
        self.plugins += plugins
        self.server.install_crds(assets.pod_group_crds())
        await self.user.patch(api.TRAINING_RUNTIMES, Key(NS, "rt"), {"spec": policies})

    async def runtime(self) -> None:
        metadata = {"name": "rt", "namespace": NS}
        await self.user.create(core.untyped(api.TRAINING_RUNTIMES), RUNTIME | {"metadata": metadata})

    async def job(self, name: str = "job", **spec) -> None:
        await self.user.create(api.TRAIN_JOBS, self.body(name, **spec))
        await self.settle()

    def body(self, name: str, **spec) -> dict:
        return {
            "apiVersion": api.API_VERSION,
            "kind": "TrainJob",
            "metadata": {"name": name, "namespace": NS},
            "spec": {"runtimeRef": {"name": "rt", "kind": "TrainingRuntime"}} | spec,
        }

    async def settle(self, seconds: float = 1.0) -> None:
        await self.env.clock.sleep(seconds)

    async def patch(self, resource, name: str = "job", subresource: str = "", **fields) -> None:
        await self.user.patch(resource, Key(NS, name), fields, subresource=subresource)
        await self.settle()

    async def progress(self, condition: str | None = None, name: str = "job", **counters: int) -> None:
        """Play the JobSet controller."""
        zeros = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
        status = {"replicatedJobsStatus": [{"name": "node"} | zeros | counters], "restarts": 0}
        if condition:
            entry = {"type": condition, "status": "True", "reason": "Because", "message": "it is so"}
            status["conditions"] = [entry | {"lastTransitionTime": "2030-01-01T00:00:00Z"}]
        await self.user.patch(jobset.JOBSETS, Key(NS, name), {"status": status}, subresource="status")

    async def read(self) -> api.TrainJob:
        return await self.user.get(api.TRAIN_JOBS, "job", NS)

    async def job_set(self) -> jobset.JobSet | None:
        try:
            return await self.user.get(jobset.JOBSETS, "job", NS)
        except NotFound:
            return None


def own_seed() -> int:
    """A number of this test's own. UIDs are drawn from it, by which runtimes that differ must be told apart."""
    return crc32(os.environ["PYTEST_CURRENT_TEST"].encode())


def play(scenario, **server) -> None:
    """Run a scenario on virtual time, with a server (which `server` says more about) and a runtime."""

    async def whole(env) -> None:
        world = World(env, **server)
        async with world.server.running():
            await world.runtime()
            await scenario(world)

    simulate(whole, seed=own_seed())
