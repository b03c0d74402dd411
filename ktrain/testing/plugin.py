"""
pytest fixtures. In a `conftest.py`:

    pytest_plugins = ["ktrain.testing.plugin"]

and a test asks for what it needs:

    @pytest.mark.crds("config/crd")
    async def test_a_website_gets_a_deployment(control_plane):
        client = control_plane.client()
        ...

Which control plane that is, is said by envtest's variables (`ktrain.testing.envtest`); embedded by default. When a test
of the session failed, the logs of a real one are kept, and the report says where.

Needs pytest and pytest-asyncio (the `testing` extra).
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import pytest_asyncio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from .crds import Source
    from .planes import ExistingCluster, FreshPlane
    from .realserver import RealServer

_LOGS: Final = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "crds(*sources): definitions that `control_plane` serves: files, directories")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say where the logs of a failed run are."""
    logs = config.stash.get(_LOGS, None)
    if logs is not None:
        terminalreporter.section("control plane")
        terminalreporter.write_line(f"the logs of etcd and kube-apiserver are in {logs}")


@pytest.fixture(scope="session")
def real_server(request: pytest.FixtureRequest) -> Iterator[RealServer | ExistingCluster | None]:
    """The real control plane of this session, with ktrain's CRDs; None if tests run on embedded ones."""
    from .envtest import Settings

    settings = Settings.of()
    if settings.existing_cluster:
        from .planes import ExistingCluster, install_crds

        cluster = asyncio.run(ExistingCluster.current())
        asyncio.run(install_crds(cluster))
        yield cluster
        return
    if settings.binaries is None:
        yield None
        return
    from .planes import install_crds
    from .realserver import real_server as started

    up: list[RealServer] = []

    def keep_logs() -> Path | None:
        if up and not request.session.testsfailed:
            return None
        logs = Path(tempfile.mkdtemp(prefix="ktrain-control-plane-logs-"))
        request.config.stash[_LOGS] = logs
        return logs

    with started(
        settings.binaries, lambda server: asyncio.run(install_crds(server)), settings=settings, keep_logs=keep_logs
    ) as server:
        up.append(server)
        yield server


@pytest.fixture
def crds(request: pytest.FixtureRequest) -> Sequence[Source]:
    """
    What `control_plane` serves beside ktrain's kinds: the sources of all `crds` markers of the test.

    Override it where a whole directory of tests needs the same.
    """
    return [source for mark in request.node.iter_markers("crds") for source in mark.args]


@pytest_asyncio.fixture
async def control_plane(
    real_server: RealServer | ExistingCluster | None, crds: Sequence[Source]
) -> AsyncIterator[FreshPlane]:
    """A control plane for this test alone (see `FreshPlane`): embedded, or a namespace of the real one."""
    from .planes import embedded_plane, real_plane

    opening = embedded_plane(crds=crds) if real_server is None else real_plane(real_server, crds=crds)
    async with opening as plane:
        yield plane
