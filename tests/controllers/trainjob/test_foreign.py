"""Objects of somebody else's under the names of a job's own: left as they are, told on the job, and awaited."""

from __future__ import annotations

import pytest

from ktrain.api import core, jobset
from ktrain.api import trainer as api
from ktrain.api.core import CONFIG_MAPS, SECRETS
from ktrain.api.meta import Key
from ktrain.pipeline import Registry
from ktrain.plugins.torch.scaling import AUTOSCALERS
from ktrain.testing.time import simulate

from .conftest import RUNTIME
from .elastic_world import METRIC, OFF, ElasticWorld
from .test_names import job
from .test_own_snapshots import weather
from .world import NS, own_seed, play

LATE_S = 2.0

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


@pytest.mark.parametrize("late", [False, True], ids=["", "seen late"])
@pytest.mark.parametrize("case", CASES)
def test_an_object_of_somebody_else_is_left_alone_told_and_awaited(case, late):
    policy, jobs, resource, name, content = CASES[case]

    async def scenario(env) -> None:
        world = ElasticWorld(env, OFF)
        world.plugins = Registry.load().plugins
        faults = weather(world)
        async with world.server.running(), world.operator():
            spec = {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": jobs}}}
            runtime = RUNTIME | {"metadata": {"name": "rt", "namespace": NS}, "spec": spec}
            await world.user.create(core.untyped(api.TRAINING_RUNTIMES), runtime)
            if late:
                faults.on("watch", resource).lag(LATE_S)
            theirs = {"apiVersion": resource.api_version, "kind": resource.kind}
            theirs |= {"metadata": {"name": name, "namespace": NS}} | content
            before = await world.user.create(core.untyped(resource), theirs)

            await world.job()
            await world.settle(5 + 2 * LATE_S)
            told = (await world.read()).status.diagnosis
            job_set = await world.job_set()
            after = await world.user.get(core.untyped(resource), name, NS)
            await world.user.delete(resource, Key(NS, name))
            await world.settle(2 + LATE_S)  # its back-off is at more than that by now

            said = f"{resource.kind}/{name} exists and is not this TrainJob's, so it is left alone"
            assert (told.reason, said in told.message) == ("BuildFailed", True)
            assert after == before
            assert job_set is None or (late and resource == AUTOSCALERS)  # which comes after it
            assert await world.job_set() is not None
            assert (await world.user.get(resource, name, NS)).metadata.controller.kind == "TrainJob"

    simulate(scenario, seed=own_seed())


JOB_SETS = core.untyped(jobset.JOBSETS)


def theirs(**spec) -> dict:
    """A JobSet of somebody else's, under the name of the job."""
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "theirs"}]}}
    spec |= {"replicatedJobs": [{"name": "mine", "template": {"spec": {"template": pod}}}]}
    metadata = {"name": "job", "namespace": NS}
    return {"apiVersion": JOB_SETS.api_version, "kind": "JobSet", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("is_late", ["the first", "one in the place of ours"])
def test_a_jobset_of_somebody_else_is_left_alone_also_if_it_is_seen_late(is_late):
    async def scenario(world) -> None:
        faults = weather(world)
        async with world.operator():
            if is_late != "the first":
                await world.job(suspend=True)
                await world.user.delete(JOB_SETS, Key(NS, "job"))
            faults.on("watch", JOB_SETS).lag(LATE_S)
            before = await world.user.create(JOB_SETS, theirs(suspend=True))
            if is_late == "the first":
                await world.job()
            else:
                await world.patch(api.TRAIN_JOBS, spec={"suspend": False})
            await world.settle(10)

            assert await world.user.get(JOB_SETS, "job", NS) == before
            assert (await world.read()).status.diagnosis.reason == "NameTaken"

    play(scenario)
