"""
Tests beside the real programs that ktrain takes the place of, in Go: Kubeflow Trainer's manager and JobSet's.

`make test-peers` builds them. Without them, or without a real API server, these tests are skipped.
"""

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from ktrain.framework import Client, HttpTransport, system_env
from ktrain.testing.envtest import Settings
from ktrain.testing.realserver import real_server as started

from .audit import Audit
from .installation import Stack, own_address
from .runner import Plane
from .scene import Scene
from .stack import missing, peers, running


@dataclass(frozen=True)
class Peers:
    """The programs, and the directories of the modules that they are built from."""

    trainer_manager: Path
    jobset_manager: Path
    trainer: Path
    jobset: Path


@pytest.fixture(scope="session")
def installed():
    """The Go programs; skips where they, or what they need, are not there."""
    if why := missing():
        pytest.skip(why)
    try:
        own_address()
    except OSError as error:
        pytest.skip(f"needs an address beside the loopback's, for EndpointSlices: {error}")
    directory = peers()
    return Peers(*(directory / name for name in ("trainer-manager", "jobset-manager", "trainer", "jobset")))


@pytest.fixture(scope="session")
def planes(tmp_path_factory):
    """Go's and ours."""
    if why := missing():
        pytest.skip(why)
    with ExitStack() as stack:
        found = []
        for name in ("go", "ktrain"):
            directory = tmp_path_factory.mktemp(name)
            stack.enter_context(running(directory, ktrain=name == "ktrain"))
            found.append(Plane(directory / "kubeconfig"))
        yield found


@pytest.fixture
def arguments():
    """More arguments of the API server."""
    return []


@pytest.fixture
async def stack(installed, tmp_path, arguments):
    """A cluster with Kubeflow Trainer 2.3 and JobSet installed, and none of their programs running yet."""
    audit = Audit(tmp_path / "audit.log")
    options = ["--enable-aggregator-routing=true", *audit.options, *arguments]
    made = []

    def prepare(server):
        client = Client(HttpTransport(server.endpoint()), system_env(), field_manager="user")
        made.append(Stack(server, client, installed, tmp_path, audit))
        made[0].install_definitions()

    settings = Settings.of()
    opening = started(settings.binaries, prepare, settings=settings, arguments={"kube-apiserver": options})
    await asyncio.to_thread(opening.__enter__)
    try:
        made[0].install_kubeflow()
        yield made[0]
    finally:
        await made[0].client.transport.aclose()
        await asyncio.to_thread(opening.__exit__, None, None, None)


@pytest.fixture
async def scene(stack):
    """A namespace for users; Kubeflow's webhooks are called as soon as somebody serves them."""
    stack.kubectl("create", "namespace", "team")
    return Scene(stack)
