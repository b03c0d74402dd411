"""
Helm, kubeconform, kubectl and a real API server for the tests of the chart.

`make test-chart` builds what is missing. A test whose program is not there is skipped, and says so.
"""

import asyncio
import os
from pathlib import Path

import pytest

from ktrain.framework import Client, connect, system_env
from ktrain.testing.crds import read_crds, serve_crds
from ktrain.testing.envtest import Settings
from ktrain.testing.planes import install_crds
from ktrain.testing.realserver import real_server

from .programs import Program, find, objects, template

os.environ["PATH"] += f"{os.pathsep}/usr/sbin{os.pathsep}/sbin"  # a user's PATH may lack the administrator's programs


def program(name, tmp_path_factory, kubeconfig=None):
    path = find(name)
    if path is None:
        pytest.skip(f"needs {name} in KTRAIN_TOOLS, KUBEBUILDER_ASSETS or the PATH")
    return Program(path, tmp_path_factory.mktemp(name), kubeconfig)


@pytest.fixture(scope="session")
def helm(tmp_path_factory):
    """Helm without a cluster."""
    return program("helm", tmp_path_factory)


@pytest.fixture(scope="session")
def kubeconform(tmp_path_factory):
    return program("kubeconform", tmp_path_factory)


@pytest.fixture(scope="session")
def render(helm):
    """`render(*options, values=...)` returns the chart's objects."""
    return lambda *arguments, values=None: objects(template(helm, *arguments, values=values))


@pytest.fixture(scope="session")
def foreign_definitions():
    """The directory with the definitions of the Prometheus operator and of cert-manager."""
    directory = Path(os.environ.get("KTRAIN_TOOLS", "")) / "crds"
    if not any(directory.glob("*.yaml")):
        pytest.skip("needs crds/ in KTRAIN_TOOLS: hack/tools/build")
    return directory


async def _serve(kubeconfig, *sources):
    transport = await connect(str(kubeconfig))
    try:
        env = system_env()
        await serve_crds(Client(transport, env, field_manager="test"), env, read_crds(sources))
    finally:
        await transport.aclose()


@pytest.fixture(scope="session")
def cluster(foreign_definitions):
    """A real API server with the definitions of ktrain, of the Prometheus operator and of cert-manager."""
    binaries = Settings.of().binaries
    if not binaries:
        pytest.skip("needs kube-apiserver in KUBEBUILDER_ASSETS")

    def prepare(server):
        asyncio.run(install_crds(server))
        asyncio.run(_serve(server.kubeconfig, *sorted(foreign_definitions.glob("*.yaml"))))

    with real_server(binaries, prepare) as server:
        yield server


@pytest.fixture(scope="session")
def kubectl(cluster, tmp_path_factory):
    """kubectl as administrator of the cluster."""
    return program("kubectl", tmp_path_factory, cluster.kubeconfig)
