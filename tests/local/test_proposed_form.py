"""KEP-2170's form of runtimes and jobs on a whole control plane: what is stored, built, refused and warned of."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import msgspec
import pytest

from ktrain.api import core, jobset
from ktrain.api import trainer as api
from ktrain.framework.client.client import Client
from ktrain.framework.env import system_env
from ktrain.framework.errors import ApiError
from ktrain.local.plane import ControlPlane

from ..waiting import until

NS = "default"
LABELS = {"labels": {api.ANCESTOR_LABEL: "trainer"}}
PATH = f"/apis/{api.API_VERSION}/namespaces/{NS}/trainjobs"


def pods(container: str, metadata: dict | None = None) -> dict:
    return {
        "spec": {"template": {"metadata": metadata or {}, "spec": {"containers": [{"name": container, "image": "i"}]}}}
    }


def runtime(name: str, policy: dict, *jobs: dict) -> dict:
    return {
        "apiVersion": api.API_VERSION,
        "kind": "TrainingRuntime",
        "metadata": {"name": name, "namespace": NS},
        "spec": {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": list(jobs)}}},
    }


def job(name: str, runtime: str, **spec) -> dict:
    return {
        "apiVersion": api.API_VERSION,
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": NS},
        "spec": {"runtimeRef": {"name": runtime, "kind": "TrainingRuntime"}, **spec},
    }


NODE = {"name": "node", "template": pods("trainer", LABELS)}


@asynccontextmanager
async def control_plane():
    env = system_env()
    with anyio.fail_after(30):
        async with ControlPlane(env, pods="off").running() as plane:
            yield Client(plane.server.transport(), env, field_manager="test"), plane.server.transport()


async def built(client: Client, name: str) -> dict:
    """The replicated jobs of a JobSet, by name."""

    async def look():
        found = (await client.list(core.untyped(jobset.JOBSETS), NS)).items
        return next((one for one in found if one["metadata"]["name"] == name), None)

    found = await until(look)
    return {one["name"]: one["template"]["spec"] for one in found["spec"]["replicatedJobs"]}


def container(spec: dict) -> dict:
    return spec["template"]["spec"]["containers"][0]


async def test_a_runtime_as_the_proposal_writes_it_runs_what_its_jobs_say():
    async with control_plane() as (client, _):
        await client.create(core.untyped(api.TRAINING_RUNTIMES), runtime("rt", {"torch": {}}, NODE))
        trainer = {"image": "mine", "numNodes": 5, "numProcPerNode": "2"}
        await client.create(core.untyped(api.TRAIN_JOBS), job("job", "rt", trainer=trainer, labels={"team": "a"}))
        spec = (await built(client, "job"))["node"]
        env = {entry["name"]: entry.get("value") for entry in container(spec)["env"]}

        assert spec["parallelism"] == 5
        assert container(spec)["image"] == "mine"
        assert (env["PET_NNODES"], env["PET_NPROC_PER_NODE"]) == ("5", "2")
        assert spec["template"]["metadata"]["labels"]["team"] == "a"


async def test_processes_by_a_word_are_stored_beside_the_number_and_may_be_applied_again():
    async with control_plane() as (client, _):
        await client.create(core.untyped(api.TRAINING_RUNTIMES), runtime("rt", {"torch": {}}, NODE))
        body = job("job", "rt", trainer={"numProcPerNode": "gpu"})
        for _ in range(2):
            stored = await client.apply(core.untyped(api.TRAIN_JOBS), body)
            assert stored["spec"]["trainer"] == {"processesPerNode": "gpu"}
        with pytest.raises(ApiError, match="must be a number, auto, cpu or gpu"):
            await client.create(core.untyped(api.TRAIN_JOBS), job("other", "rt", trainer={"numProcPerNode": "many"}))


async def test_another_mpi_is_stored_as_the_variant_where_a_launcher_runs_it():
    async with control_plane() as (client, _):
        launcher = {"name": "launcher", "template": pods("mpi-launcher", LABELS)}
        node = {"name": "node", "template": pods("trainer")}
        policy = {"numNodes": 2, "mpi": {"mpiImplementation": "Intel", "SSHAuthMountPath": "/keys"}}
        stored = await client.create(core.untyped(api.TRAINING_RUNTIMES), runtime("rt", policy, launcher, node))
        await client.create(core.untyped(api.TRAIN_JOBS), job("job", "rt", trainer={"command": ["mpirun", "x"]}))
        found = await built(client, "job")

        assert stored["spec"]["mlPolicy"]["mpi"]["variant"] == "Intel"
        assert [mount["mountPath"] for mount in container(found["launcher"])["volumeMounts"]] == ["/keys", "/etc/mpi"]
        assert [mount["mountPath"] for mount in container(found["node"])["volumeMounts"]] == ["/keys"]
        assert found["node"]["parallelism"] == 2


async def test_a_runtime_whose_step_cannot_be_told_is_refused():
    async with control_plane() as (client, _):
        two = pods("a", LABELS)
        two["spec"]["template"]["spec"]["containers"].append({"name": "b", "image": "i"})

        with pytest.raises(ApiError, match="must contain one container named node or trainer"):
            await client.create(
                core.untyped(api.TRAINING_RUNTIMES), runtime("rt", {}, {"name": "node", "template": two})
            )


async def test_a_field_without_effect_is_answered_with_a_warning():
    async with control_plane() as (client, transport):
        await client.create(core.untyped(api.TRAINING_RUNTIMES), runtime("rt", {"jax": {}}, NODE))
        body = msgspec.json.encode(job("job", "rt", trainer={"numProcPerNode": 2}))
        response = await transport.request("POST", PATH, body=body, headers={"Content-Type": "application/json"})

        assert response.status == 201
        assert "spec.trainer.numProcPerNode: no effect" in str(response.headers)
