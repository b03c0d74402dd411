"""A server with state is killed with its pods running: the next one treats them as a kubelet that starts again does."""

import json

import pytest

from ..waiting import eventually
from .conftest import Cluster

pytestmark = pytest.mark.e2e


def pod(name, policy):
    container = {"name": "main", "image": "i", "command": ["sh", "-c", "echo begun; exec sleep 1000"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": policy, "containers": [container], "terminationGracePeriodSeconds": 0},
    }


def test_pods_of_a_killed_server_have_failed_or_run_again(start, tmp_path):
    options = ("up", "--kubeconfig", tmp_path / "kubeconfig", "--state", tmp_path / "state")
    first = start(*options)
    first.wait_for("ready http")
    cluster = Cluster(tmp_path / "kubeconfig")
    for one in (pod("never", "Never"), pod("always", "Always")):
        assert cluster.run("apply", "-f", "-", stdin=json.dumps(one))[0] == 0
    assert cluster.run("wait", "--for=condition=Ready", "pod/never", "pod/always", "--timeout=30s")[0] == 0
    first.kill()

    start(*options).wait_for("ready http")

    def state(name):
        status = json.loads(cluster.run("get", "pod", name, "-o", "json")[1])["status"]
        return status["phase"], status["containerStatuses"][0]

    eventually(lambda: state("never")[0] == "Failed")
    ended = state("never")[1]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")
    eventually(lambda: "running" in state("always")[1]["state"] and state("always")[1]["restartCount"] == 1)
    last = state("always")[1]["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"]) == (137, "ContainerStatusUnknown")
    assert cluster.run("logs", "always") == (0, "begun\n")
