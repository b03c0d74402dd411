"""The operator's image, built without a registry by hack/image/build: its bytes, its size, and the operator in it."""

import json
import os
import shutil
import subprocess

import pytest

import ktrain
from ktrain.testing.envtest import Settings

from .container import Container, Image
from .deployed import deployed
from .network import missing, network
from .programs import CHART, ROOT, find
from .test_life import FRAMEWORKS, MANAGER, VALUES, complete, train_job

MB = 1_000_000
MOST = 150 * MB
EPOCH = "1700000000"
TOOLS = ("buildah", "podman", "mmdebstrap")
ENVIRONMENT = {"PATH": "/opt/ktrain/bin:/usr/local/bin:/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}


def build(tag):
    """Build the operator's image under a tag; returns the storage of images."""
    environment = {**os.environ, "OPERATOR_ONLY": "1", "SOURCE_DATE_EPOCH": EPOCH}
    done = subprocess.run(
        [ROOT / "hack/image/build", tag], env=environment, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


@pytest.fixture(scope="module")
def storage():
    absent = [name for name in TOOLS if shutil.which(name) is None]
    if absent:
        pytest.skip(f"needs {', '.join(absent)}: apt-get install {' '.join(TOOLS)}")
    if why := missing():
        pytest.skip(why)
    return build("tested")


def buildah(storage, *arguments):
    command = ["buildah", "--root", f"{storage}/root", "--runroot", f"{storage}/run", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def described(storage, tag):
    return json.loads(buildah(storage, "inspect", "--type", "image", f"localhost/ktrain-operator:{tag}"))


@pytest.fixture(scope="module")
def root(storage):
    """The root of the image's file system."""
    container = buildah(storage, "from", "localhost/ktrain-operator:tested")
    yield buildah(storage, "mount", container)
    buildah(storage, "rm", container)


def run(root, directory, *command):
    """Run a program in the image as the kubelet of these tests does; returns its exit code and what it printed."""
    directory.mkdir()
    with network() as net:
        name, _ = net.add()
        image = Image((), ENVIRONMENT, root)
        log = directory / "log"
        options = {"name": "pod", "namespace": name, "directory": directory, "environment": {}, "mounts": []}
        container = Container(image, command, log=log, **options)
        return container.process.wait(60), log.read_text()


def test_two_builds_give_the_same_bytes(storage):
    build("again")

    first, second = described(storage, "tested"), described(storage, "again")
    assert first["OCIv1"]["rootfs"]["diff_ids"] == second["OCIv1"]["rootfs"]["diff_ids"]
    assert first["FromImageID"] == second["FromImageID"]


def test_it_is_small_and_says_how_it_runs(storage):
    found = described(storage, "tested")
    (listed,) = json.loads(buildah(storage, "images", "--json", "localhost/ktrain-operator:tested"))
    number, unit = listed["size"].split()
    assert unit == "MB"
    assert float(number) * MB < MOST
    assert found["OCIv1"]["config"]["User"] == "65532:65532"
    assert found["OCIv1"]["config"]["Entrypoint"] == ["ktrain", "operator"]
    assert "Healthcheck" not in found["Docker"]["config"]


def test_its_programs_run_with_a_read_only_root_and_as_nobody(root, tmp_path):
    code, said = run(root, tmp_path / "version", "/opt/ktrain/bin/ktrain", "version")
    assert (code, said.strip()) == (0, ktrain.__version__)
    code, said = run(root, tmp_path / "help", "/opt/ktrain/bin/ktrain", "operator", "--help")
    assert code == 0
    assert "--leader-elect" in said
    code, said = run(root, tmp_path / "kubeflow", "/manager", "--help")
    assert code == 0
    assert "--leader-elect" in said
    code, said = run(root, tmp_path / "user", "/opt/ktrain/bin/python", "-c", "import os; print(os.getuid())")
    assert said == "65532\n"
    code, said = run(root, tmp_path / "write", "/opt/ktrain/bin/python", "-c", "open('/opt/x', 'w')")
    assert "Read-only file system" in said or "Permission denied" in said


async def test_the_chart_installs_it(root, tmp_path):
    if not Settings.of().binaries or find("kubectl") is None or find("helm") is None:
        pytest.skip("needs kube-apiserver, kubectl (KUBEBUILDER_ASSETS) and helm (KTRAIN_TOOLS)")
    async with deployed(tmp_path) as cluster:
        entrypoint = ("/opt/ktrain/bin/ktrain", "operator")
        cluster.kubelet.images["ktrain-operator"] = Image(entrypoint, ENVIRONMENT, root)
        options = ("--create-namespace", "--wait", "--timeout=60s")
        await cluster.helm("install", "ktrain", CHART, *options, values=VALUES)
        await cluster.rolled_out(MANAGER)
        await cluster.apply(*(train_job(name, name) for name in FRAMEWORKS))
        await complete(cluster, *FRAMEWORKS)
        assert [one.exits for one in cluster.operators()] == [0, 0]
