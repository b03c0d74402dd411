"""Names at the limit: the longest that admission takes is one whose pods come to be, and the next is refused."""

from __future__ import annotations

import pytest

from ktrain.api import core
from ktrain.api import trainer as api
from ktrain.framework.errors import ApiError
from ktrain.pipeline import Registry
from ktrain.testing.time import simulate

from .conftest import RUNTIME
from .elastic_world import OFF, ElasticWorld
from .world import NS, own_seed


def job(name: str, *, step: str = "", parallelism: int = 1, mode: str = "Indexed") -> dict:
    metadata = {"labels": {api.ANCESTOR_LABEL: step}} if step else {}
    pod = {"spec": {"containers": [{"name": "node", "image": "i"}], "restartPolicy": "Never"}}
    spec = {"template": pod, "parallelism": parallelism, "completionMode": mode}
    return {"name": name, "template": {"metadata": metadata, "spec": spec}}


LABELLED = job("node", step="trainer")
LAUNCHED = (job("launcher", step="trainer"), job("node"))
DATA, HANDS = job("a-data-step", parallelism=11), job("a-long-step", mode="NonIndexed")
CASES = {
    "torch": ({"torch": {}}, [LABELLED], 11, "-node-0-10-abcde", 11),
    "flux": ({"flux": {}}, [LABELLED], 2, "-node-0-1-abcde", 2),
    "flux, short": ({"flux": {}}, [job("n", step="trainer")], 2, "-n-0-1-abcde", 2),
    "mpi": ({"mpi": {}}, LAUNCHED, 11, "-launcher-0-0-abcde", 12),
    "mpi, no label": ({"mpi": {}}, [job("l"), job("node")], 11, "-node-0-10-abcde", 12),
    "mpi, launcher works": ({"mpi": {"runLauncherAsNode": True}}, LAUNCHED, 11, "-launcher-0-0-abcde", 11),
    "a larger step": ({}, [DATA, LABELLED], 2, "-a-data-step-0-10-abcde", 13),
    "without an index": ({}, [HANDS, LABELLED], 2, "-node-0-1-abcde", 3),
}
"""Policy, replicated jobs, nodes; the end of the longest name of a pod, and how many pods there are."""


class NamesWorld(ElasticWorld):
    async def create(self, name: str, nodes: int) -> str:
        """Create a job; return what is said against it."""
        spec = {"runtimeRef": {"name": "rt", "kind": "TrainingRuntime"}, "trainer": {"numNodes": nodes}}
        metadata = {"name": name, "namespace": NS}
        body = {"apiVersion": api.API_VERSION, "kind": "TrainJob", "metadata": metadata, "spec": spec}
        try:
            await self.user.create(api.TRAIN_JOBS, body)
        except ApiError as error:
            return str(error)
        return ""


@pytest.mark.parametrize("case", CASES)
def test_the_longest_name_that_is_taken_has_pods_and_the_next_is_refused(case):
    policy, jobs, nodes, suffix, pods = CASES[case]
    longest = 63 - len(suffix)

    async def scenario(env) -> None:
        world = NamesWorld(env, OFF)
        world.plugins = Registry.load().plugins
        async with world.server.running(), world.cluster(), world.operator():
            spec = {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": list(jobs)}}}
            runtime = RUNTIME | {"metadata": {"name": "rt", "namespace": NS}, "spec": spec}
            await world.user.create(core.untyped(api.TRAINING_RUNTIMES), runtime)

            refusal = await world.create("j" * (longest + 1), nodes)
            taken = await world.create("j" * longest, nodes)
            await world.settle(60)
            made = (await world.user.list(core.PODS, NS)).items

            assert f"is 1 characters too long: a pod would be called {'j' * (longest + 1)}{suffix}" in refusal
            assert taken == ""
            assert len(made) == pods

    simulate(scenario, seed=own_seed())
