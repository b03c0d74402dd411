"""`ktrain run` and `ktrain up` scale an elastic job whose nodes are busy, by the CPU time of their processes."""

import json

import pytest

from ..programs import needs_kubectl
from .conftest import BOTH_WAYS, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.examples]

FILE = "elastic/autoscaled.yaml"


@pytest.mark.parametrize("pods", BOTH_WAYS)
def test_a_busy_job_gets_another_node(ktrain, example, pods):
    code, output = ktrain("run", example(FILE), "--pods", pods)

    assert code == 0, output
    assert "[node-1] a node has joined" in output
    assert "[node-0] the work is done" in output


@needs_kubectl
def test_an_idle_job_keeps_its_size_and_the_autoscaler_says_what_it_saw(start, example, tmp_path):
    file = example(
        FILE, ("[python, examples/elastic/busy.py]", "[sleep, '600']"), ("    args: [--company=company]\n", "")
    )
    start("up", "--kubeconfig", "kc").wait_for("ready ")
    cluster = Cluster(tmp_path / "kc")
    assert cluster.run("apply", "-f", str(file))[0] == 0
    code, said = cluster.run("wait", "hpa/autoscaled", "--for=condition=ScalingActive", "--timeout=40s")
    assert code == 0, said
    code, said = cluster.run("get", "hpa", "autoscaled", "-o", "json")
    status = json.loads(said)["status"]

    assert (status["currentReplicas"], status["desiredReplicas"]) == (1, 1)
    assert status["currentMetrics"][0]["resource"]["current"]["averageUtilization"] <= 10
