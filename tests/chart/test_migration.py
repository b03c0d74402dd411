"""
From Kubeflow Trainer's chart 2.3, with its JobSet subchart, to ours under jobs that run: `helm upgrade` of the same
release. The managers in Go are those of the charts' images, built by `make test-peers`.
"""

import os
import shutil
from pathlib import Path

import pytest
import yaml

from ktrain.api import assets
from ktrain.testing.envtest import Settings

from .container import Image
from .deployed import SYSTEM, deployed
from .network import missing
from .programs import CHART, ROOT, find
from .test_life import complete, run_jobs, running, train_job

RELEASE = "kubeflow-trainer"
MANAGER = "kubeflow-trainer-controller-manager"
VALUES = {"runtimes": {"torchDistributed": {"enabled": True}}, "manager": {"replicas": 2}}
"""As a user of Kubeflow Trainer's chart has them."""


@pytest.fixture
def peers():
    """The directory with the Go programs and their modules; skips where something is missing."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ktrain" / "peers"
    found = Path(os.environ.get("KTRAIN_PEERS", default))
    if not (found / "trainer-manager").exists() or not (found / "jobset-manager").exists():
        pytest.skip("needs Kubeflow Trainer and JobSet in KTRAIN_PEERS: hack/peers/build")
    if not Settings.of().binaries or find("kubectl") is None or find("helm") is None:
        pytest.skip("needs kube-apiserver, kubectl (KUBEBUILDER_ASSETS) and helm (KTRAIN_TOOLS)")
    if why := missing():
        pytest.skip(why)
    return found


@pytest.fixture
def kubeflow_chart(peers, tmp_path):
    """Kubeflow Trainer's chart with the JobSet chart in it; LeaderWorkerSet, which is off, is an empty chart."""
    chart = tmp_path / "kubeflow-trainer-chart"
    shutil.copytree(peers / "trainer/charts/kubeflow-trainer", chart)
    shutil.copytree(peers / "jobset/charts/jobset", chart / "charts/jobset")
    (chart / "charts/lws").mkdir()
    described = {"apiVersion": "v2", "name": "lws", "version": "0.8.0"}
    (chart / "charts/lws/Chart.yaml").write_text(yaml.safe_dump(described))
    for directory, _, files in os.walk(chart):  # modules are read-only
        Path(directory).chmod(0o755)
        for name in files:
            Path(directory, name).chmod(0o644)
    return chart


async def test_helm_upgrade_from_kubeflow_trainers_chart_touches_no_job(peers, kubeflow_chart, tmp_path):
    async with deployed(tmp_path) as cluster:
        cluster.kubelet.images["trainer-controller-manager"] = Image((str(peers / "trainer-manager"),))
        cluster.kubelet.images["jobset/jobset"] = Image((str(peers / "jobset-manager"),))
        await cluster.apply(*assets.pod_group_crds())
        await cluster.helm("install", RELEASE, kubeflow_chart, "--create-namespace", "--no-hooks", values=VALUES)
        await cluster.rolled_out(MANAGER)
        await cluster.rolled_out("jobset-controller")
        # What the chart's installer Job does.
        await cluster.apply(yaml.safe_load((ROOT / "config/runtimes/torch-distributed.yaml").read_text()))
        await cluster.until_served(train_job("probe", "torch-distributed"))
        await run_jobs(cluster, "first", "second")
        before = await running(cluster)

        # With this name, Deployment, Service and Secret stay, and change.
        options = ("--take-ownership", "--wait", "--timeout=90s", "--set", "nameOverride=kubeflow-trainer")
        await cluster.helm("upgrade", RELEASE, CHART, *options, values=VALUES)
        await cluster.rolled_out(MANAGER)
        names = [one.described["image"] for one in cluster.operators()]
        assert ["ktrain-operator" in name for name in names] == [True, True], names
        assert await running(cluster) == before

        cluster.kubelet.finish = True
        await complete(cluster, "first", "second")
        # While operators of both kinds ran, each wrote its own certificate.
        await cluster.until_served(train_job("third", "torch-distributed"))
        await cluster.apply(train_job("third", "torch-distributed"))
        await complete(cluster, "third")
        await cluster.helm("uninstall", RELEASE, "--wait")
        await cluster.kubectl("get", "crd", "trainjobs.trainer.kubeflow.org")


def test_uninstalling_kubeflow_trainers_chart_would_delete_the_definitions(kubeflow_chart, helm):
    """docs/upgrade.md warns of it; once the chart keeps them, the warning can go."""
    text = helm("template", RELEASE, kubeflow_chart, "--namespace", SYSTEM)
    (definition,) = (
        one
        for one in yaml.safe_load_all(text)
        if one and one["kind"] == "CustomResourceDefinition" and one["spec"]["names"]["kind"] == "TrainJob"
    )

    assert "helm.sh/resource-policy" not in definition["metadata"].get("annotations", {})
