"""
Tests beside the real programs that ktrain takes the place of, in Go: Kubeflow Trainer's manager and JobSet's.

`make test-peers` builds them. Without them, or without a real API server, these tests are skipped.
"""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from ktrain.framework import Client, HttpTransport, system_env
from ktrain.testing.envtest import Settings
from ktrain.testing.realserver import real_server as started

from .scene import Scene
from .installation import Audit, Stack


@dataclass(frozen=True)
class Peers:
    """The programs, and the directories of the modules that they are built from."""

    trainer_manager: Path
    jobset_manager: Path
    trainer: Path
    jobset: Path


@pytest.fixture(scope="session")
def peers():
    """The Go programs; skips where they, or what they need, are not there."""
    settings = Settings.of()
    if settings.binaries is None or settings.binaries.kube_controller_manager is None:
        pytest.skip("KUBEBUILDER_ASSETS names no control plane (make test-peers builds one)")
    found = os.environ.get("PEER_ASSETS")
    if not found:
        pytest.skip("PEER_ASSETS names no directory with the Go managers (make test-peers builds them)")
    directory = Path(found)
    return Peers(*(directory / name for name in ("trainer-manager", "jobset-manager", "trainer", "jobset")))


@pytest.fixture
async def stack(peers, tmp_path):
    """A cluster with Kubeflow Trainer 2.3 and JobSet installed, and none of their programs running yet."""
    audit = Audit(tmp_path / "audit.log")
    arguments = {"kube-apiserver": ["--enable-aggregator-routing=true", *audit.options]}
    made = []

    def prepare(server):
        client = Client(HttpTransport(server.endpoint()), system_env(), field_manager="user")
        made.append(Stack(server, client, peers, tmp_path, audit))
        made[0].install_definitions()

    settings = Settings.of()
    opening = started(settings.binaries, prepare, settings=settings, arguments=arguments)
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
