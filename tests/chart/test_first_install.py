"""
`helm install --wait` on a real API server that knows none of our kinds, with runtimes of these kinds.

Helm cannot create objects beside their definitions, so hooks create the runtimes. The controllers of Deployments run;
what a kubelet would do to the operator's pods, the test does.
"""

import json
import threading

import pytest

from ktrain.testing.envtest import Settings
from ktrain.testing.realserver import CONTROLLERS, real_server

from .conftest import program
from .programs import CHART, NAMESPACE, RELEASE, objects, of_kind

CONTROLLER_ARGUMENTS = [f"--controllers={CONTROLLERS},deployment,replicaset,disruption"]
RUNTIMES = ("--set", "runtimes.plain.enabled=true", "--set", "runtimes.torchDistributed.enabled=true")
NAMES = ["plain", "torch-distributed"]
READY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


@pytest.fixture
def empty_cluster():
    """A real API server without our definitions."""
    binaries = Settings.of().binaries
    if not binaries or binaries.kube_controller_manager is None:
        pytest.skip("needs kube-apiserver and kube-controller-manager in KUBEBUILDER_ASSETS")
    with real_server(binaries, arguments={"kube-controller-manager": CONTROLLER_ARGUMENTS}) as server:
        yield server


@pytest.fixture
def kubectl_there(empty_cluster, tmp_path_factory):
    return program("kubectl", tmp_path_factory, empty_cluster.kubeconfig)


@pytest.fixture
def helm_there(empty_cluster, tmp_path_factory):
    return program("helm", tmp_path_factory, empty_cluster.kubeconfig)


@pytest.fixture
def kubelet(kubectl_there):
    """Say of each pod of the operator that it is ready, as long as the test runs."""
    over = threading.Event()

    def report():
        while not over.wait(0.5):
            names = kubectl_there("get", "pods", "--namespace", NAMESPACE, "-o", "name").split()
            for name in names:
                options = ("--subresource=status", "--type=merge", "--patch", json.dumps(READY))
                kubectl_there.run("patch", name, "--namespace", NAMESPACE, *options)

    thread = threading.Thread(target=report)
    thread.start()
    yield
    over.set()
    thread.join()


def runtimes(kubectl):
    """The runtimes in the cluster: their UIDs by name."""
    items = json.loads(kubectl("get", "clustertrainingruntimes", "-o", "json"))["items"]
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in items}


def released(helm):
    """Names of the runtimes that are ordinary objects of the release."""
    manifest = objects(helm("get", "manifest", RELEASE, "--namespace", NAMESPACE))
    return sorted(one["metadata"]["name"] for one in of_kind(manifest, "ClusterTrainingRuntime"))


def test_one_command_installs_runtimes_with_their_definitions(helm_there, kubectl_there, kubelet):
    there = ("--namespace", NAMESPACE)
    helm_there("install", RELEASE, CHART, *there, "--create-namespace", "--wait", *RUNTIMES)
    before = runtimes(kubectl_there)
    assert sorted(before) == NAMES
    assert released(helm_there) == []

    helm_there("upgrade", RELEASE, CHART, *there, "--wait", *RUNTIMES)
    assert runtimes(kubectl_there) == before
    assert released(helm_there) == NAMES

    helm_there("upgrade", RELEASE, CHART, *there, "--wait", *RUNTIMES[:2])
    assert sorted(runtimes(kubectl_there)) == ["plain"]

    helm_there("uninstall", RELEASE, *there, "--wait")
    assert runtimes(kubectl_there) == {}


def test_the_first_revision_has_the_runtimes_after_a_rollback_to_it(helm_there, kubectl_there, kubelet):
    there = ("--namespace", NAMESPACE)
    helm_there("install", RELEASE, CHART, *there, "--create-namespace", "--wait", *RUNTIMES)
    helm_there("upgrade", RELEASE, CHART, *there, "--wait", *RUNTIMES)

    helm_there("rollback", RELEASE, "1", *there, "--wait")
    assert sorted(runtimes(kubectl_there)) == NAMES

    before = runtimes(kubectl_there)
    helm_there("upgrade", RELEASE, CHART, *there, "--wait", *RUNTIMES)
    assert runtimes(kubectl_there) == before

    helm_there("rollback", RELEASE, "1", *there, "--wait")
    helm_there("uninstall", RELEASE, *there, "--wait")
    assert runtimes(kubectl_there) == {}


def test_a_release_that_was_never_upgraded_leaves_no_runtime(helm_there, kubectl_there, kubelet):
    there = ("--namespace", NAMESPACE)
    helm_there("install", RELEASE, CHART, *there, "--create-namespace", "--wait", *RUNTIMES)
    helm_there("uninstall", RELEASE, *there, "--wait")

    assert runtimes(kubectl_there) == {}
    left = kubectl_there(
        "get", "validatingwebhookconfigurations,mutatingwebhookconfigurations,clusterroles", "-o", "name"
    )
    assert RELEASE not in left
    assert "trainer.kubeflow.org" not in left


def test_a_watched_namespace_that_was_deleted_leaves_the_release_with_an_upgrade(helm_there, kubectl_there):
    there = ("--namespace", NAMESPACE)
    values = ("--set", "webhook.enabled=false", "--set")
    for name in ("team-a", "team-b"):
        kubectl_there("create", "namespace", name)
    helm_there("install", RELEASE, CHART, *there, "--create-namespace", *values, "watchNamespaces={team-a,team-b}")
    kubectl_there("delete", "namespace", "team-b", "--timeout=60s")

    helm_there("upgrade", RELEASE, CHART, *there, *values, "watchNamespaces={team-a}")

    assert "team-b" not in helm_there("get", "manifest", RELEASE, *there)
    helm_there("uninstall", RELEASE, *there)
    assert kubectl_there("get", "roles", "--namespace", "team-a", "-o", "name") == ""
