"""
Kueue beside ktrain's operator, in two clusters: `plane`, and `impatient`, whose Kueue gives pods ten seconds to be
ready and where JobSet's own operator sees to JobSets.

Without Kueue, or without a real API server, these tests are skipped.
"""

import pytest

from ktrain.testing.envtest import Settings
from ktrain.testing.planes import real_plane

from . import queueing
from .team import Team

IMPATIENT = {"waitForPodsReady": {"timeout": "10s", "requeuingStrategy": {"backoffBaseSeconds": 1}}}
PATIENT = {"waitForPodsReady": {"timeout": "300s"}}


@pytest.fixture(scope="session")
def starting(tmp_path_factory):
    """`with starting(configuration, own_jobsets=...):` runs a cluster."""
    if what := queueing.missing():
        pytest.skip(what)
    binaries = Settings.of().binaries
    return lambda *args, **options: queueing.plane(binaries, tmp_path_factory.mktemp("kueue"), *args, **options)


@pytest.fixture(scope="session")
def plane(starting):
    with starting(PATIENT, own_jobsets=True) as running:
        yield running


@pytest.fixture(scope="session")
def impatient(starting):
    with starting(IMPATIENT, own_jobsets=False) as running:
        yield running


@pytest.fixture
async def namespace(plane):
    """A namespace without a queue."""
    async with real_plane(plane.server) as control_plane:
        yield Team(plane, control_plane.client(), control_plane.namespace)


@pytest.fixture
async def team(namespace):
    """A namespace with a queue."""
    await namespace.open_queue()
    return namespace


@pytest.fixture
async def elsewhere(impatient):
    """A namespace of the other cluster, without a queue."""
    async with real_plane(impatient.server) as control_plane:
        yield Team(impatient, control_plane.client(), control_plane.namespace)
