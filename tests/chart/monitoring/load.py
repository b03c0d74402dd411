"""TrainJobs of two teams in every phase of their life, and new ones all the time."""

from contextlib import suppress
from itertools import count

import anyio

from ktrain.api.core import NAMESPACES, NODES, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key
from ktrain.api.trainer import ANCESTOR_LABEL, TRAIN_JOBS, TRAINING_RUNTIMES
from ktrain.framework.errors import ApiError

TEAMS = ("team-a", "team-b")
NODE_COUNT = 4
FAULTY = "faulty"
PLUGIN = f"""
class Faulty:
    name = "Faulty"
    before = ("JobSet",)

    def build(self, info, ctx):
        if info.job.metadata.name.startswith("{FAULTY}-"):
            raise RuntimeError("the licence server does not answer")
        return ()
"""
POLICIES = {
    "torch": {"mlPolicy": {"numNodes": 2, "torch": {}}},
    "wide": {"mlPolicy": {"numNodes": 4, "torch": {}}},
    "gang": {"mlPolicy": {"numNodes": 3}, "podGroupPolicy": {"workload": {}}},
    "restarting": {"mlPolicy": {"numNodes": 2}},
}
LONG_LIVED = {
    "running": ("torch", {}),
    "mixed": ("wide", {}),
    "retry": ("restarting", {}),
    "suspended": ("torch", {"suspend": True}),
    "gang-running": ("gang", {}),
    "gang-waiting": ("gang", {"trainer": {"resourcesPerNode": {"requests": {"cpu": "900"}}}}),
    "huge": ("torch", {"trainer": {"resourcesPerNode": {"requests": {"cpu": "900"}}}}),
    "taken": ("torch", {}),
}
"""TrainJobs that last, by name: their runtime and what else their spec has."""


def install_plugin(directory):
    """Leave a plugin as pip would, one that raises for some TrainJobs; returns the directory for PYTHONPATH."""
    (directory / "faulty_plugin.py").write_text(PLUGIN)
    metadata = directory / "faulty_plugin-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty-plugin\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[ktrain.plugins]\nFaulty = faulty_plugin:Faulty\n")
    return directory


class Load:
    """What users of the cluster do."""

    def __init__(self, client):
        self._client = client

    async def set_up(self):
        """Create nodes, namespaces, runtimes, and a JobSet that is in the way of a TrainJob."""
        for number in range(NODE_COUNT):
            await self._create_node(f"node-{number}")
        for team in TEAMS:
            await self._client.create(untyped(NAMESPACES), _object("v1", "Namespace", {"name": team}))
            for name, policy in POLICIES.items():
                runtime = _runtime(team, name, policy)
                await self._client.create(untyped(TRAINING_RUNTIMES), runtime)
        # A JobSet of the user's keeps a TrainJob of its name from getting one.
        taken = _object(JOBSETS.api_version, "JobSet", {"name": "taken", "namespace": TEAMS[0]})
        job = {"name": "node", "template": {"spec": {"template": {"spec": _pod()}, "suspend": True}}}
        await self._client.create(untyped(JOBSETS), {**taken, "spec": {"suspend": True, "replicatedJobs": [job]}})

    async def run(self):
        """Submit the TrainJobs that last, then short ones without end; each team has its own."""
        for name, (runtime, more) in LONG_LIVED.items():
            await self.submit(TEAMS[0], name, runtime, **more)
        await self.submit(TEAMS[1], "running", "torch")
        for number in count():
            team = TEAMS[number % 2]
            await self.submit(team, f"short-{number}", "torch")
            if number % 2:
                await self.submit(team, f"failing-{number}", "wide")
            if number % 4 == 0:
                await self.submit(team, f"retry-{number}", "restarting")
                await self.submit(TEAMS[1], f"gang-short-{number}", "gang")
            if number % 8 == 0:
                await self.submit(team, f"{FAULTY}-{number}", "torch")
                with suppress(ApiError):  # the webhooks refuse it
                    await self.submit(team, f"refused-{number}", "no-such-runtime")
            await self._forget(number - 12)
            await anyio.sleep(2)

    async def submit(self, team, name, runtime, **more):
        meta = {"name": name, "namespace": team}
        spec = {"runtimeRef": {"name": runtime, "kind": "TrainingRuntime"}, **more}
        body = {**_object(TRAIN_JOBS.api_version, "TrainJob", meta), "spec": spec}
        await self._client.create(untyped(TRAIN_JOBS), body)

    async def _forget(self, number):
        """Delete old TrainJobs, so that the machine of the test has not ever more to do."""
        for team in TEAMS:
            for kind in ("short", "failing", "retry", "gang-short"):
                with suppress(ApiError):
                    await self._client.delete(TRAIN_JOBS, Key(team, f"{kind}-{number}"), propagation="Background")

    async def _create_node(self, name):
        nodes = untyped(NODES)
        await self._client.create(nodes, _object("v1", "Node", {"name": name}))
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "250"}
        ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        status = {"status": {"capacity": amounts, "allocatable": amounts, "conditions": ready}}
        await self._client.patch(nodes, Key("", name), status, subresource="status")
        await self._client.patch(nodes, Key("", name), {"spec": {"taints": None}})


def _object(api_version, kind, metadata):
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _pod():
    resources = {"requests": {"cpu": "1", "memory": "4Gi"}, "limits": {"memory": "16Gi"}}
    return {"restartPolicy": "Never", "containers": [{"name": "node", "image": "i", "resources": resources}]}


def _runtime(team, name, policy):
    job = {"metadata": {"labels": {ANCESTOR_LABEL: "trainer"}}}
    job["spec"] = {"backoffLimit": 0, "completionMode": "Indexed", "template": {"spec": _pod()}}
    spec = {"replicatedJobs": [{"name": "node", "template": job}]}
    if name == "restarting":
        spec["failurePolicy"] = {"maxRestarts": 2}
    meta = {"name": name, "namespace": team}
    made = _object(TRAINING_RUNTIMES.api_version, "TrainingRuntime", meta)
    return {**made, "spec": {**policy, "template": {"spec": spec}}}
