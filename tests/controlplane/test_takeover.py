"""What Kubeflow Trainer 2.3 left behind, taken over by our operator under jobs that run and jobs that are suspended."""

import msgspec
import pytest
import yaml

from ktrain.api.core import CONFIG_MAPS, SECRETS, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key
from ktrain.api.trainer import TRAIN_JOBS, TRAINING_RUNTIMES

from .weather import idle

KINDS = [untyped(kind) for kind in (TRAIN_JOBS, JOBSETS, CONFIG_MAPS, SECRETS)]
NAMES = ("runs", "waits")


@pytest.fixture
def client(control_plane):
    return control_plane.client("trainer")


async def create_jobs(client, namespace, pod_template):
    def replicated(name, labels):
        return {"name": name, "template": {"metadata": {"labels": labels}, "spec": {"template": pod_template}}}

    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    template = {"spec": {"replicatedJobs": [replicated("node", {}), replicated("launcher", labels)]}}
    head = {"apiVersion": TRAINING_RUNTIMES.api_version}
    spec = {"mlPolicy": {"mpi": {"mpiImplementation": "OpenMPI"}}, "template": template}
    runtime = {**head, "kind": "TrainingRuntime", "metadata": {"name": "rt", "namespace": namespace}, "spec": spec}
    await client.create(untyped(TRAINING_RUNTIMES), runtime)
    for name in NAMES:
        asked = {"runtimeRef": {"name": "rt", "kind": "TrainingRuntime"}, "trainer": {"numNodes": 2}}
        job = {**head, "kind": "TrainJob", "metadata": {"name": name, "namespace": namespace}}
        await client.create(TRAIN_JOBS, {**job, "spec": {**asked, "suspend": name == "waits"}})


async def as_kubeflow_leaves_them(client, namespace):
    """Have snapshots look as Go writes them: applied, in YAML, with all that the server keeps of the runtime."""
    live = await client.get(untyped(TRAINING_RUNTIMES), "rt", namespace)
    for name in NAMES:
        found = await client.get(untyped(CONFIG_MAPS), f"{name}-runtime-snapshot", namespace)
        metadata = {key: found["metadata"][key] for key in ("name", "namespace", "ownerReferences")}
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {"runtime": yaml.safe_dump(live)},
        }
        await client.apply(CONFIG_MAPS, body, force=True)


async def stored(client, namespace):
    found = {}
    for kind in KINDS:
        for one in (await client.list(kind, namespace=namespace)).items:
            found[kind.kind, one["metadata"]["name"]] = msgspec.json.encode(one, order="deterministic")
    return found


async def test_nothing_is_rewritten_and_what_was_suspended_goes_on(control_plane, running, client, pod_template):
    namespace = control_plane.namespace
    async with running("trainjob"):
        await create_jobs(client, namespace, pod_template)
        for name in NAMES:
            await control_plane.wait_for(JOBSETS, name, lambda found: found is not None)
        await control_plane.wait_for(TRAIN_JOBS, "waits", lambda job: job.status.conditions)
    await as_kubeflow_leaves_them(client, namespace)
    before = await stored(client, namespace)
    assert {("Secret", "runs-mpi-ssh-auth"), ("ConfigMap", "waits-mpi-hostfile")} <= before.keys()

    async with running("trainjob") as controllers:
        await idle(controllers)
        assert await stored(client, namespace) == before

        await client.delete(TRAINING_RUNTIMES, Key(namespace, "rt"))
        await client.patch(TRAIN_JOBS, Key(namespace, "waits"), {"spec": {"suspend": False}})
        await control_plane.wait_for(JOBSETS, "waits", lambda found: not found.spec.suspend)
        after = await stored(client, namespace)
        changed = {which for which in before if after.get(which) != before[which]}
        assert changed <= {("TrainJob", "waits"), ("JobSet", "waits")}
