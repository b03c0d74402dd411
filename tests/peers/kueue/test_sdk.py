"""Kubeflow's own SDK, unmodified, whose job waits in a queue of Kueue's."""

import asyncio
import json
import sys
import textwrap

import pytest

from ktrain.api import core
from ktrain.api import trainer as api
from ktrain.api.meta import Key

from .team import runtime, trainer

pytestmark = pytest.mark.e2e
CLUSTER_RUNTIMES = core.untyped(api.CLUSTER_TRAINING_RUNTIMES)
PROGRAM = """
import json
import sys
from kubeflow.trainer import CustomTrainerContainer, KubernetesBackendConfig, TrainerClient
from kubeflow.trainer import options

kubeconfig, namespace = sys.argv[1:]
client = TrainerClient(KubernetesBackendConfig(namespace=namespace, config_file=kubeconfig))
"""
SUBMIT = """
pod = options.PodTemplatePatch(spec=options.PodSpecPatch(node_selector={"disk": "fast"}))
template = options.JobTemplatePatch(spec=options.JobSpecPatch(template=pod))
job_set = options.JobSetSpecPatch(replicated_jobs=[options.ReplicatedJobPatch("node", template)])
patch = options.TrainingRuntimeSpecPatch(options.JobSetTemplatePatch(spec=job_set))
name = client.train(
    runtime=client.get_runtime(namespace),
    trainer=CustomTrainerContainer("none", num_nodes=2, resources_per_node={"cpu": 1}),
    options=[options.Labels({"kueue.x-k8s.io/queue-name": "queue"}), options.RuntimePatch(patch)],
)
print(json.dumps(name))
"""
LOOK = """
[job] = client.list_jobs()
print(json.dumps([job.status, [step.status for step in job.steps]]))
"""


@pytest.fixture
def sdk(team, tmp_path):
    """Run a program that has a `client`; returns what it printed."""
    pytest.importorskip("kubeflow", reason="the SDK is not installed: pip install '.[sdk]'")

    async def run(program):
        file = tmp_path / "program.py"
        file.write_text(PROGRAM + textwrap.dedent(program))
        arguments = (sys.executable, file, team.plane.server.kubeconfig, team.namespace)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*map(str, arguments), stdout=pipe, stderr=pipe)
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return json.loads(out)

    return run


async def test_a_job_of_the_sdk_goes_through_a_queue(team, sdk):
    labels = {"trainer.kubeflow.org/framework": "torch"}
    await team.create(CLUSTER_RUNTIMES, team.namespace, metadata={"labels": labels}, spec=runtime(trainer(), torch={}))
    try:
        name = await sdk(SUBMIT)
        for pod in await team.until_pods(name, 2):
            assert pod["spec"]["nodeSelector"] == {"disk": "fast", "pool": team.namespace}
        await team.let_pods(name, "Running")
        await team.until_workload(name, "PodsReady")
        # The SDK (0.5) says `Running` only of jobs without conditions, and one that was in a queue has `Suspended`.
        assert await sdk(LOOK) == ["Created", ["Running", "Running"]]
        await team.let_pods(name, "Succeeded")
        await team.until_workload(name, "Finished")
        assert await sdk(LOOK) == ["Complete", ["Succeeded", "Succeeded"]]
        assert team.refused() == []
    finally:
        await team.client.delete(CLUSTER_RUNTIMES, Key("", team.namespace))
