"""`ktrain run` and `ktrain up` scale an elastic job whose nodes are busy, by the CPU time of their processes."""

import json

import pytest

from ..programs import needs_kubectl
from .conftest import BOTH_WAYS, Cluster

pytestmark = pytest.mark.e2e

RUNTIME = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: busy}
spec:
  mlPolicy:
    torch:
      elasticPolicy:
        minReplicas: 1
        maxReplicas: 2
        metrics:
          - type: Resource
            resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            metadata:
              labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}
            spec:
              template:
                spec:
                  containers: [{name: node, image: "python:3.13-slim"}]
---
"""
JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: busy}
spec:
  runtimeRef: {kind: TrainingRuntime, name: busy}
  trainer:
    command: [python, busy.py]
    resourcesPerNode: {requests: {cpu: 100m}}
"""
# The work is a child's, as a worker's of torchrun. The first node ends, and with it the job, when it has company.
PROGRAM = """
import os, subprocess, sys
from pathlib import Path

company = Path("company")
if os.environ["JOB_COMPLETION_INDEX"] != "0":
    company.touch()
    print("a node has joined", flush=True)
work = "import pathlib\\nwhile not pathlib.Path('company').exists(): sum(range(1000))"
subprocess.run([sys.executable, "-c", work], check=True)
print("the work is done", flush=True)
"""


@pytest.fixture
def busy(tmp_path):
    (tmp_path / "busy.py").write_text(PROGRAM)
    (tmp_path / "busy.yaml").write_text(RUNTIME + JOB)
    return "busy.yaml"


@pytest.mark.parametrize("pods", BOTH_WAYS)
def test_a_busy_job_gets_another_node(ktrain, busy, pods):
    code, output = ktrain("run", busy, "--pods", pods)

    assert code == 0, output
    assert "a node has joined" in output
    assert "the work is done" in output


@needs_kubectl
def test_the_autoscaler_says_what_it_saw_and_did(start, busy, tmp_path):
    start("up", "--kubeconfig", "kc").wait_for("ready ")
    (tmp_path / "busy.yaml").write_text((RUNTIME + JOB).replace("[python, busy.py]", "[sleep, '600']"))
    cluster = Cluster(tmp_path / "kc")
    assert cluster.run("apply", "-f", str(tmp_path / "busy.yaml"))[0] == 0
    code, said = cluster.run("wait", "hpa/busy", "--for=condition=ScalingActive", "--timeout=40s")
    assert code == 0, said
    code, said = cluster.run("get", "hpa", "busy", "-o", "json")
    status = json.loads(said)["status"]

    assert (status["currentReplicas"], status["desiredReplicas"]) == (1, 1)
    assert status["currentMetrics"][0]["resource"]["current"]["averageUtilization"] <= 10
