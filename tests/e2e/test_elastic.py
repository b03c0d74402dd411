"""Elastic training, really: torchrun's agents on nodes that join and leave, and a loss that goes on falling."""

import re

import msgspec
import pytest

from ktrain.api.trainer import TRAIN_JOBS
from ktrain.framework import Client
from ktrain.framework.client.http import connect
from ktrain.framework.client.options import PatchType
from ktrain.framework.env import system_env

from . import conftest
from .conftest import BOTH_WAYS, ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.examples, pytest.mark.slow]

pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[demo]'")
pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install '.[demo]'")

SCALE = f"{TRAIN_JOBS.path('default', 'elastic')}/scale"
EPOCH = re.compile(r"\[node-\d+\] epoch (\d+) of 200 on (\d) ranks: loss ([\d.]+)")
START = re.compile(r"\[node-\d+\] (\d) ranks go on after epoch (\d+), restart (\d+)")


@pytest.fixture
def scale(tmp_path):
    """As `kubectl scale`: sets the number of nodes; returns the scale as it was before."""

    async def write(nodes):
        transport = await connect(kubeconfig=str(tmp_path / "kc"))
        try:
            client = Client(transport, system_env(), field_manager="test")
            before = msgspec.json.decode((await client.raw("GET", SCALE)).body)
            headers = {"Content-Type": PatchType.MERGE.value}
            await client.raw("PATCH", SCALE, body={"spec": {"replicas": nodes}}, headers=headers)
        finally:
            await transport.aclose()
        return before

    return write


@pytest.mark.parametrize("pods", BOTH_WAYS)
async def test_a_node_joins_and_another_leaves_and_the_loss_goes_on_falling(start, tmp_path, scale, pods, monkeypatch):
    monkeypatch.setattr(conftest, "PATIENCE_S", 240)  # each change of size starts PyTorch anew on all nodes
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    job = tmp_path / "elastic.yaml"
    job.write_text((ROOT / "examples/elastic/trainjob.yaml").read_text().replace("--epochs=300", "--epochs=200"))
    start("up", "--kubeconfig", "kc", "--pods", pods).wait_for("ready ")
    running = start("run", "elastic.yaml", "--kubeconfig", "kc")

    running.wait_for("epoch 5 of 200 on 2 ranks")
    first = await scale(3)
    running.wait_for("on 3 ranks: loss")
    second = await scale(2)
    running.wait_for("2 ranks go on")

    assert running.finish() == 0, running.output
    assert (first["spec"]["replicas"], first["status"]["replicas"]) == (2, 2)
    assert (second["spec"]["replicas"], second["status"]["replicas"]) == (3, 3)
    epochs = [(int(epoch), int(ranks), float(loss)) for epoch, ranks, loss in EPOCH.findall(running.output)]
    starts = [(int(ranks), int(after), int(restart)) for ranks, after, restart in START.findall(running.output)]
    assert [ranks for ranks, _, _ in starts] == [2, 3, 2], running.output
    assert starts[-1][2] >= 1, "who leaves costs the others a restart"
    losses = {epoch: loss for epoch, _, loss in epochs}
    assert sorted(losses) == list(range(1, 201))
    for _, after, _ in starts[1:]:
        assert losses[after + 1] < losses[1] / 2, "the training began anew"
        assert losses[after + 1] == pytest.approx(losses[after], rel=0.25, abs=0.03)
    assert losses[200] < 0.05


RANGE = "        minNodes: 2\n        maxNodes: 4\n"
MEETING = """        minReplicas: 2
        maxReplicas: 4
        backend: c10d
        rdzvPort: 29871
        rdzvId: digits
        rdzvConf:
          - {key: last_call_timeout, value: "2"}
          - {key: join_timeout, value: "120"}
"""
ALONE = "        standalone: true\n        nProcPerNode: 2\n"
OWN_CONF = """      - {name: PET_RDZV_CONF, value: "last_call_timeout=2,keep_alive_interval=1"}\n"""
SHORT = ("--epochs=300, --pause=0.2", "--epochs=2")


def test_the_nodes_meet_where_the_policy_says(ktrain, example, monkeypatch):
    monkeypatch.setattr(conftest, "PATIENCE_S", 240)
    code, output = ktrain("run", example("elastic/trainjob.yaml", (RANGE, MEETING), (OWN_CONF, ""), SHORT))

    assert code == 0, output
    assert "epoch 2 of 2 on 2 ranks" in output


def test_a_standalone_job_trains_on_one_node_with_two_processes(ktrain, example, monkeypatch):
    monkeypatch.setattr(conftest, "PATIENCE_S", 240)
    nodes = ("    numNodes: 2 #", "    numNodes: 1 #")
    processes = ("    numProcPerNode: 1\n", "")
    code, output = ktrain(
        "run", example("elastic/trainjob.yaml", (RANGE, ALONE), (OWN_CONF, ""), SHORT, nodes, processes)
    )

    assert code == 0, output
    assert "epoch 2 of 2 on 2 ranks" in output
