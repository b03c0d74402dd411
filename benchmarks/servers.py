"""
The API servers that a benchmark of the framework runs on, each in a process of its own and with ktrain's CRDs.

The embedded one always; a real kube-apiserver if `KUBEBUILDER_ASSETS` names a directory with one. No controller runs on
either, so that both have nothing to do but to answer.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from ktrain.framework import Client, connect, system_env
from ktrain.testing.envtest import Binaries, Settings
from ktrain.testing.planes import install_crds
from ktrain.testing.realserver import real_server

from .processes import started_program

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractContextManager

    Server = Callable[[], AbstractContextManager[str]]
    """Runs while its block does; yields the path of a kubeconfig."""

NO_REAL_SERVER: Final = "without a real kube-apiserver: KUBEBUILDER_ASSETS is not set"


def servers(*, smoke: bool) -> dict[str, Server]:
    """Servers by name. A smoke test has the embedded one only: the other takes seconds to start."""
    found: dict[str, Server] = {"embedded": embedded}
    if not smoke and Settings.of().binaries is not None:
        found["real"] = _real
    return found


def notes(*, smoke: bool) -> list[str]:
    """What the reader of a table must know of the servers."""
    return [NO_REAL_SERVER] if "real" not in servers(smoke=smoke) else []


@asynccontextmanager
async def client_of(kubeconfig: str) -> AsyncIterator[Client]:
    """A client of the benchmark's own, with connections of its own."""
    transport = await connect(kubeconfig)
    try:
        yield Client(transport, system_env(), field_manager="benchmarks")
    finally:
        await transport.aclose()


@contextmanager
def embedded(*, durable: bool = False) -> Iterator[str]:
    """Run the embedded server; `durable` keeps its objects in a file."""
    with tempfile.TemporaryDirectory(prefix="ktrain-bench-") as directory:
        file = Path(directory) / "kubeconfig"
        state = [str(Path(directory) / "ktrain.db")] if durable else []
        command = (sys.executable, "-m", "benchmarks.plain_server", str(file), *state)
        with started_program(command, Path(directory)) as process:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError("the embedded API server did not start")
            yield str(file)


@contextmanager
def _real() -> Iterator[str]:
    binaries = Settings.of().binaries
    assert binaries is not None
    # Without the controller manager, which would watch and use the same cores.
    servers_only = Binaries(binaries.etcd, binaries.kube_apiserver)
    with real_server(servers_only, prepare=lambda server: anyio.run(install_crds, server)) as server:
        yield str(server.kubeconfig)
