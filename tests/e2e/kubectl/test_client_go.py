"""What operators in Go are made of: client-go's informers, mappers, apply, leader election and events."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")]

MODULE = Path(__file__).parents[3] / "hack" / "controlplane"
BUILD_S = 900
RUN_S = 180


@pytest.fixture(scope="session")
def clients(tmp_path_factory):
    """Build the program `clients` of the module that the real control plane is built from, once."""
    program = tmp_path_factory.mktemp("go") / "clients"
    # As hack/controlplane/build does it, so that what that has compiled is not compiled again.
    command = ["go", "build", "-mod=readonly", "-trimpath", "-o", program, "./clients"]
    done = subprocess.run(command, cwd=MODULE, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, done.stderr
    return program


def test_client_go_finds_nothing_strange(clients, kubectl):
    done = subprocess.run(
        [clients, kubectl.kubeconfig, kubectl.namespace],
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
        env={**os.environ, "KUBE_FEATURE_WatchListClient": "true"},
    )

    assert done.returncode == 0, done.stdout + done.stderr
    said = ["kubeconfig", "mapper", "informer", "conflict", "apply", "dynamic", "metadata", "election", "events"]
    assert [line.removeprefix("ok ") for line in done.stdout.splitlines()] == said
