"""
pytest fixtures. In a `conftest.py`:

    pytest_plugins = ["ktrain.testing.plugin"]

and a test asks for what it needs:

    async def test_a_job_becomes_a_job_set(control_plane):
        client = control_plane.client()
        ...

Needs pytest and pytest-asyncio (the `testing` extra).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from .planes import FreshPlane
    from .realserver import RealServer


@pytest.fixture(scope="session")
def real_server() -> Iterator[RealServer | None]:
    """The real control plane of this session, with ktrain's CRDs; None unless KUBEBUILDER_ASSETS is set."""
    from . import realserver

    binaries = realserver.assets()
    if binaries is None:
        yield None
        return
    from .planes import install_crds

    with realserver.real_server(binaries, prepare=lambda server: asyncio.run(install_crds(server))) as server:
        yield server


@pytest_asyncio.fixture
async def control_plane(real_server: RealServer | None) -> AsyncIterator[FreshPlane]:
    """A control plane for this test alone (see `FreshPlane`): embedded, or with KUBEBUILDER_ASSETS a real one."""
    from .planes import embedded_plane, real_plane

    async with embedded_plane() if real_server is None else real_plane(real_server) as plane:
        yield plane
