"""Objects of somebody else's under the names of a job's own: left as they are, told on the job, and awaited."""

from __future__ import annotations

import pytest

from ktrain.api import core
from ktrain.api import trainer as api
from ktrain.api.core import CONFIG_MAPS, SECRETS
from ktrain.api.meta import Key
from ktrain.pipeline import Registry
from ktrain.plugins.torch.scaling import AUTOSCALERS
from ktrain.testing.time import simulate

from .conftest import RUNTIME
from .elastic_world import METRIC, OFF, ElasticWorld
from .test_names import job
from .world import NS, own_seed

ELASTIC = {"torch": {"elasticPolicy": {"minNodes": 1, "maxNodes": 2, "metrics": [METRIC]}}}
MPI = [job("launcher", step="trainer"), job("node")]
FLUX = [job("node", step="trainer")]
SCALE = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3}
CASES = {
    "hosts": ({"mpi": {}}, MPI, CONFIG_MAPS, "job-mpi-hostfile", {"data": {"hostfile": "evil slots=1\n"}}),
    "keys": ({"mpi": {}}, MPI, SECRETS, "job-mpi-ssh-auth", {"stringData": {"ssh-privatekey": "mine"}}),
    "scripts": ({"flux": {}}, FLUX, CONFIG_MAPS, "job-flux-entrypoint", {"data": {"entrypoint.sh": "evil"}}),
    "certificate": ({"flux": {}}, FLUX, SECRETS, "job-flux-curve", {"stringData": {"curve.cert": "mine"}}),
    "autoscaler": (ELASTIC, FLUX, AUTOSCALERS, "job", {"spec": SCALE}),
}


@pytest.mark.parametrize("case", CASES)
def test_an_object_of_somebody_else_is_left_alone_told_and_awaited(case):
    policy, jobs, resource, name, content = CASES[case]

    async def scenario(env) -> None:
        world = ElasticWorld(env, OFF)
        world.plugins = Registry.load().plugins
        async with world.server.running(), world.operator():
            spec = {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": jobs}}}
            runtime = RUNTIME | {"metadata": {"name": "rt", "namespace": NS}, "spec": spec}
            await world.user.create(core.untyped(api.TRAINING_RUNTIMES), runtime)
            theirs = {"apiVersion": resource.api_version, "kind": resource.kind}
            theirs |= {"metadata": {"name": name, "namespace": NS}} | content
            before = await world.user.create(core.untyped(resource), theirs)

            await world.job()
            await world.settle(5)
            told = (await world.read()).status.diagnosis
            job_set = await world.job_set()
            after = await world.user.get(core.untyped(resource), name, NS)
            await world.user.delete(resource, Key(NS, name))
            await world.settle(2)  # its back-off is at more than that by now

            said = f"{resource.kind}/{name} exists and is not this TrainJob's, so it is left alone"
            assert (told.reason, said in told.message) == ("BuildFailed", True)
            assert (job_set, after) == (None, before)
            assert await world.job_set() is not None
            assert (await world.user.get(resource, name, NS)).metadata.controller.kind == "TrainJob"

    simulate(scenario, seed=own_seed())
