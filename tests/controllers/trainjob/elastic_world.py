"""All controllers around elastic TrainJobs, and a server, on virtual time; the test plays the user and the kubelet."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import msgspec

from ktrain.api import core, jobset
from ktrain.api import trainer as api
from ktrain.controllers import jobset as jobset_controller
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client, PatchType
from ktrain.framework.errors import NotFound
from ktrain.framework.events import EventRecorder
from ktrain.framework.manager.manager import Manager
from ktrain.local import jobs
from ktrain.local.server import make_server
from ktrain.pipeline import Registry
from ktrain.plugins.jobset import JobSet
from ktrain.plugins.plainml import PlainML
from ktrain.plugins.torch import ElasticTorch, Torch
from ktrain.plugins.torch.scaling import AUTOSCALERS
from ktrain.testing.time import simulate

from .conftest import RUNTIME
from .world import KEY, NS, Counting, World, own_seed

SIZE_WRITE = "PATCH jobsets/job"
METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}
ON, OFF = jobset_controller.Gates(elastic_train_jobs=True), jobset_controller.Gates()


class ElasticWorld(World):
    """The JobSet and Job controllers are there, too; the test plays the user and the kubelet."""

    def __init__(self, env, gates) -> None:
        super().__init__(env)
        self.gates = gates
        self.plugins = (JobSet(), PlainML(), Torch(), ElasticTorch())
        self.server = make_server(env, Registry(self.plugins), gates)
        self.user = Client(self.server.transport(), env, field_manager="test")
        self.counting = Counting(self.server.transport())

    @asynccontextmanager
    async def cluster(self):
        """Run the JobSet and the Job controller."""
        client = Client(self.server.transport(), self.env, field_manager="cluster")
        cache = Cache(client, self.env, warns_of_overlaps=False)
        recorder = EventRecorder(client, self.env, component="cluster")
        controllers = [
            *jobset_controller.make_controllers(client, cache, self.env, recorder, gates=self.gates),
            *jobs.make_controllers(client, cache, self.env, recorder),
        ]
        async with anyio.create_task_group() as tasks:
            await tasks.start(Manager(cache=cache, controllers=controllers, recorder=recorder).run)
            yield
            tasks.cancel_scope.cancel()

    async def elastic_runtime(self, least=2, most=4, beside=(), **policy) -> None:
        await self.runtime_of({"torch": {"elasticPolicy": {"minNodes": least, "maxNodes": most, **policy}}}, beside)

    async def runtime_of(self, policy, beside=()) -> None:
        """`beside`: the names of other steps."""
        pod = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
        others = [{"name": name, "template": {"spec": {"template": pod}}} for name in beside]
        nodes = RUNTIME["spec"]["template"]["spec"]["replicatedJobs"]
        runtime = RUNTIME | {
            "metadata": {"name": "rt", "namespace": NS},
            "spec": {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": [*others, *nodes]}}},
        }
        await self.user.apply(core.untyped(api.TRAINING_RUNTIMES), runtime)

    async def resize(self, nodes: int) -> None:
        """As `kubectl scale` and an autoscaler do."""
        body = {"spec": {"replicas": nodes}}
        headers = {"Content-Type": PatchType.MERGE.value}
        await self.user.raw("PATCH", f"{api.TRAIN_JOBS.path(*KEY)}/scale", body=body, headers=headers)
        await self.settle(5)

    async def scale(self) -> dict:
        answer = await self.user.raw("GET", f"{api.TRAIN_JOBS.path(*KEY)}/scale")
        return msgspec.json.decode(answer.body)

    async def sizes(self) -> tuple[int, int]:
        spec = (await self.job_set()).spec.replicated_jobs[0].size
        return spec.parallelism, spec.completions

    async def pods(self) -> dict[int, core.Pod]:
        found = (await self.user.list(core.PODS, NS)).items
        alive = [pod for pod in found if not pod.metadata.deletion_timestamp and pod.status.phase != "Failed"]
        return {int(pod.metadata.annotations[jobset.COMPLETION_INDEX]): pod for pod in alive}

    async def make_ready(self, *, but: int | None = None) -> None:
        """Play the kubelet."""
        for pod in (pod for index, pod in (await self.pods()).items() if index != but):
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            await self.user.patch(core.PODS, pod.key, {"status": status}, subresource="status")
        await self.settle(5)

    async def end(self, index: int, phase: str) -> None:
        pod = (await self.pods())[index]
        await self.user.patch(core.PODS, pod.key, {"status": {"phase": phase}}, subresource="status")
        await self.settle(5)

    async def autoscaler(self) -> dict | None:
        try:
            return await self.user.get(core.untyped(AUTOSCALERS), "job", NS)
        except NotFound:
            return None

    async def events(self, reason: str) -> list[str]:
        return [
            event["note"]
            for event in (await self.user.list(core.untyped(core.EVENTS), NS)).items
            if event["reason"] == reason
        ]


def play(scenario, gates=ON, **policy) -> None:
    """Run a scenario with a server and an elastic runtime of 2 to 4 nodes."""

    async def whole(env) -> None:
        world = ElasticWorld(env, gates)
        async with world.server.running(), world.cluster():
            await world.elastic_runtime(**policy)
            await scenario(world)

    simulate(whole, seed=own_seed())
