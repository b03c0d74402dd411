"""All controllers around TrainJobs, on virtual time, in a namespace that may have nothing of some kind."""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext

from ktrain.api import core
from ktrain.api import trainer as api
from ktrain.api.meta import Resource
from ktrain.controllers.trainjob.complaints import COMPLAINTS
from ktrain.testing.faults import FaultTransport, When
from ktrain.testing.time import simulate

from .conftest import RUNTIME
from .elastic_world import OFF, ElasticWorld
from .world import NS, own_seed

QUOTAS = Resource("", "v1", "ResourceQuota", "resourcequotas", namespaced=True, type=dict)
PLAIN = {"numNodes": 2}
CLAIMED = {
    "volumeClaimPolicies": [
        {
            "templates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }
            ],
            "retentionPolicy": {"whenDeleted": "Delete"},
        }
    ]
}


class StallWorld(ElasticWorld):
    """A world in which quotas allow nothing of some kind."""

    async def stingy_runtime(self, *others: dict, **spec) -> None:
        """`others`: replicated jobs before the nodes; `spec`: more of the JobSet's."""
        (node,) = RUNTIME["spec"]["template"]["spec"]["replicatedJobs"]
        containers = node["template"]["spec"]["template"]["spec"]["containers"]
        if spec:
            containers = [
                container | {"volumeMounts": [{"name": "data", "mountPath": "/data"}]} for container in containers
            ]
        job = {"spec": {"template": {"spec": {"containers": containers}}}}
        depends = {"dependsOn": [{"name": others[0]["name"], "status": "Complete"}]} if others else {}
        nodes = node | depends | {"template": node["template"] | job}
        runtime = RUNTIME | {
            "metadata": {"name": "rt", "namespace": NS},
            "spec": {"mlPolicy": PLAIN, "template": {"spec": {"replicatedJobs": [*others, nodes], **spec}}},
        }
        await self.user.apply(core.untyped(api.TRAINING_RUNTIMES), runtime)

    async def allow(self, what: str, number: int) -> None:
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": NS}}
        await self.user.apply(QUOTAS, quota | {"spec": {"hard": {what: str(number)}}})
        await self.settle()

    def events_fail(self) -> When:
        """Say how, of the answer to the operator's reads of events."""
        faults = self.counting.inner = FaultTransport(self.counting.inner, self.env)
        return faults.on("list", COMPLAINTS)

    async def told(self) -> api.Diagnosis | None:
        return (await self.read()).status.diagnosis


@asynccontextmanager
async def refusing(world: StallWorld, what: str, *others: dict):
    """The operator at work in a namespace that may have nothing of *what*."""
    await world.stingy_runtime(*others, **(CLAIMED if "claims" in what else {}))
    await world.allow(what, 0)
    async with world.operator():
        yield


def run(scenario, *, alone: bool = False) -> None:
    """Run a scenario beside the JobSet and the Job controller, or `alone`."""

    async def whole(env) -> None:
        world = StallWorld(env, OFF)
        async with world.server.running(), nullcontext() if alone else world.cluster():
            await scenario(world)

    simulate(whole, seed=own_seed())
