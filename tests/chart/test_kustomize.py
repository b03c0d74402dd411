"""config/ is what the chart renders: the files are up to date, and each overlay equals the chart for its values."""

import sys

import pytest
import yaml

from .programs import ROOT, find, objects

sys.path.insert(0, str(ROOT / "hack" / "manifests"))
import kustomize

NAMESPACES = {"ktrain-system", "kubeflow-system"}


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """`build(overlay)` returns the objects that kubectl makes of it, by kind, namespace and name."""
    kubectl = find("kubectl")
    if kubectl is None:
        pytest.skip("needs kubectl in KUBEBUILDER_ASSETS or the PATH")
    from .programs import Program

    program = Program(kubectl, tmp_path_factory.mktemp("kubectl"))
    return lambda overlay: by_identity(objects(program("kustomize", ROOT / "config" / overlay)))


def by_identity(found):
    return {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in found}


def test_the_files_are_those_that_the_chart_renders(helm):
    stale = [str(path) for path, text in kustomize.render(helm.path).items() if (ROOT / path).read_text() != text]

    assert not stale, "run: python hack/manifests"


@pytest.mark.parametrize("overlay", kustomize.OVERLAYS)
def test_an_overlay_equals_the_chart_for_the_same_choices(helm, build, overlay):
    documents = kustomize.template(helm.path, kustomize.values_of(overlay))
    chart, built = by_identity([yaml.safe_load(one) for one in documents]), build(overlay)
    namespaces = {identity for identity in built if identity[0] == "Namespace"}

    assert {name for _, _, name in namespaces} == NAMESPACES
    assert built.keys() - namespaces == chart.keys()
    for identity, one in chart.items():
        assert built[identity] == one


@pytest.mark.parametrize("overlay", kustomize.OVERLAYS)
def test_an_api_server_takes_an_overlay(kubectl, build, overlay):
    for name in (*NAMESPACES, "team-a", "team-b"):
        kubectl("apply", "--filename", "-", stdin=f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}")
    options = ("--server-side", "--dry-run=server", "--validate=strict")
    kubectl("apply", *options, "--kustomize", ROOT / "config" / overlay)
