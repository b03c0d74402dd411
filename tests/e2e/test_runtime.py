"""`ktrain runtime impact` from outside, against `ktrain up`."""

import json

import pytest

from ktrain.api.trainer import API_VERSION

from ..waiting import eventually
from .test_up import Login

pytestmark = pytest.mark.e2e

OURS, ELSEWHERE = "trainer.kubeflow.org/trainjob-controller", "kueue.x-k8s.io/multikueue"


def test_it_tells_which_jobs_of_a_cluster_a_change_would_touch(start, ktrain, tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    server = start("up", "--pods", "off", "--kubeconfig", kubeconfig)
    server.wait_for("ready http")
    login = Login(kubeconfig)
    jobs = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs"
    for name, manager in (("own", OURS), ("away", ELSEWHERE)):
        spec = {"runtimeRef": {"name": "plain"}, "suspend": True, "managedBy": manager}
        body = {"apiVersion": API_VERSION, "kind": "TrainJob", "metadata": {"name": name}, "spec": spec}
        login.request(jobs, json.dumps(body).encode())
    eventually(lambda: login.request(f"{jobs}/own").get("status", {}).get("conditions"))

    code, said = ktrain("runtime", "impact", "plain", "-o", "json", "--exit-code", "--kubeconfig", kubeconfig)

    assert code == 0
    assert {row["job"]: (row["standing"], row["touched"]) for row in json.loads(said)} == {
        "default/own": ("on its snapshot", False),
        "default/away": ("managed elsewhere", False),
    }
    code, said = ktrain("runtime", "impact", "plian", "--kubeconfig", kubeconfig)
    assert code == 2
    assert 'there is no ClusterTrainingRuntime "plian"; there are: ' in said
    assert "plain, torch-distributed" in said
