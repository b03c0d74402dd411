"""Helm installs the chart on a real API server: what the server adds is no difference, and little is stored."""

import base64
import json

import pytest
import yaml

from .conftest import program
from .programs import CHART, RELEASE, objects

SPACE = "chart-install"
MIB = 1 << 20
"""The most that a Secret may hold; Helm keeps a release in one."""
VALUES = {
    "public": {"namespace": SPACE},
    "certManager": {"enabled": True},
    "networkPolicy": {"enabled": True},
    "runtimes": {"defaultEnabled": True, "installer": {"image": {"tag": "3.22"}}},
    "jobset": {"fullnameOverride": "mine"},
    "image": {"repository": "kubeflow/trainer/trainer-controller-manager"},
    "monitoring": {
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboards": {"enabled": True},
    },
}
BUILT_IN = ("v1", "apps/v1", "policy/v1", "networking.k8s.io/v1", "rbac.authorization.k8s.io/v1")
BUILT_IN += ("admissionregistration.k8s.io/v1",)


@pytest.fixture(scope="module")
def helm_there(cluster, tmp_path_factory):
    """Helm as administrator of the cluster."""
    return program("helm", tmp_path_factory, cluster.kubeconfig)


@pytest.fixture(scope="module")
def installed(helm_there, kubectl):
    """The chart is installed, with nearly all that it has; what Helm said about it."""
    # The fixture of the cluster has installed the definitions without Helm.
    options = ("--namespace", SPACE, "--create-namespace", "--take-ownership", "--values", "-")
    said = helm_there("install", RELEASE, CHART, *options, stdin=yaml.safe_dump(VALUES))
    yield said
    helm_there("uninstall", RELEASE, "--namespace", SPACE)


def differences(wanted, live, path, *, whole):
    """Paths at which live lacks or changes something. `whole`: in lists, live may add nothing either."""
    if isinstance(wanted, dict) and isinstance(live, dict):
        missing = [f"{path}.{key}" for key in wanted if key not in live]
        inner = [
            one
            for key in wanted.keys() & live.keys()
            for one in differences(wanted[key], live[key], f"{path}.{key}", whole=whole)
        ]
        return missing + inner
    if isinstance(wanted, list) and isinstance(live, list) and len(wanted) == len(live) and not whole:
        pairs = enumerate(zip(wanted, live, strict=True))
        return [one for i, (old, new) in pairs for one in differences(old, new, f"{path}[{i}]", whole=whole)]
    return [] if wanted == live else [f"{path}: {wanted!r} is {live!r}"]


def test_what_the_api_server_adds_is_no_difference(installed, helm_there, kubectl):
    """Argo CD compares so: field by field, but lists of kinds that are not Kubernetes' own as a whole."""
    found = []
    for one in objects(helm_there("get", "manifest", RELEASE, "--namespace", SPACE)):
        kind, metadata = one["kind"], one["metadata"]
        group = one["apiVersion"].rpartition("/")[0]
        where = ("--namespace", metadata["namespace"]) if "namespace" in metadata else ()
        text = kubectl(
            "get", f"{kind}.{one['apiVersion'].rpartition('/')[2]}.{group}", metadata["name"], "-o", "json", *where
        )
        name = f"{kind} {metadata['name']}"
        found += differences(one, json.loads(text), name, whole=one["apiVersion"] not in BUILT_IN)

    assert not found


def test_upgrading_to_the_same_changes_no_object(installed, helm_there, kubectl):
    def versions():
        kinds = "deployments,services,configmaps,serviceaccounts,roles,rolebindings,servicemonitors,certificates"
        cluster = "clusterroles,clusterrolebindings,crds,mutatingwebhookconfigurations,clustertrainingruntimes"
        listed = [
            *json.loads(kubectl("get", kinds, "--namespace", SPACE, "-o", "json"))["items"],
            *json.loads(kubectl("get", cluster, "-o", "json"))["items"],
        ]
        return {one["metadata"]["uid"]: one["metadata"]["resourceVersion"] for one in listed}

    before = versions()
    helm_there("upgrade", RELEASE, CHART, "--namespace", SPACE, "--values", "-", stdin=yaml.safe_dump(VALUES))

    assert versions() == before


def test_a_release_is_stored_in_much_less_than_a_secret_may_hold(installed, kubectl):
    text = kubectl("get", "secret", f"sh.helm.release.v1.{RELEASE}.v1", "--namespace", SPACE, "-o", "json")
    size = len(base64.b64decode(json.loads(text)["data"]["release"]))

    assert size < MIB * 0.6


def test_what_has_no_effect_is_said(installed):
    assert "runtimes.installer has no effect" in installed
    assert "jobset.fullnameOverride has no effect" in installed
    assert "ghcr.io/ktrain/ktrain-operator" in installed


def test_notes_say_how_alerts_get_links_to_their_runbooks(installed):
    assert "set monitoring.prometheusRule.runbookUrl" in installed
