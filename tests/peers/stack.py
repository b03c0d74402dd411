"""
Kubeflow Trainer and the JobSet operator, the real ones, on a real control plane of their own.

    python tests/peers/stack.py DIR [--ktrain]      serves until SIGTERM; says `ready` when it is; DIR gets `kubeconfig`

The programs are what `hack/peers/build` made of their Go modules, in `KTRAIN_PEERS` or the user's cache directory. They
run outside of the cluster: certificates lie in files, and the API server calls their webhooks by URL. Metrics, leader
election and the rotation of certificates are off; all else is as they are shipped. With `--ktrain`, `ktrain operator`
runs in their place, on its own definitions.
"""

from __future__ import annotations

import argparse
import base64
import os
import signal
import sys
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import yaml

from ktrain.api import assets
from ktrain.api.documents import resource_of
from ktrain.api.meta import Key
from ktrain.framework import Client, connect, system_env
from ktrain.framework.errors import NotFound
from ktrain.local.apiserver.front.certificates import self_signed
from ktrain.testing.crds import read_crds, serve_crds
from ktrain.testing.envtest import Settings
from ktrain.testing.programs import Program, free_ports
from ktrain.testing.realserver import real_server

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent.parent
HOST = "127.0.0.1"
PROGRAMS = ("trainer", "jobset")
"""Each has its webhooks in `config/NAME/webhooks.yaml`, under the names and paths that upstream has for them, too."""


def peers() -> Path | None:
    """Return the directory with the programs; None if they were not built."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = Path(os.environ.get("KTRAIN_PEERS") or cache / "ktrain" / "peers")
    return directory if all((directory / f"{name}-manager").exists() for name in PROGRAMS) else None


def missing() -> str:
    """Say what these tests need and is not there; nothing if all is."""
    if Settings.of().binaries is None:
        return "needs a real kube-apiserver: export KUBEBUILDER_ASSETS=$(hack/controlplane/build)"
    return "" if peers() else "needs the real operators: hack/peers/build (Go, minutes)"


class Operator:
    """A program that can be stopped and started. What it prints is in `log`."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        self.webhook_port, self._health_port = free_ports(2)
        self.directory = directory / name
        self.directory.mkdir(parents=True, exist_ok=True)
        self._kubeconfig = directory / "kubeconfig"
        self.log = self.directory / "log"
        self.file = self.directory / "config.yaml"
        # Where controller-runtime looks for a certificate, below TMPDIR.
        self.certificates = self.directory / "k8s-webhook-server" / "serving-certs"
        self.certificates.mkdir(parents=True, exist_ok=True)
        identity = self_signed(HOST, now=datetime.now(UTC))
        (self.certificates / "tls.crt").write_bytes(identity.certificate)
        (self.certificates / "tls.key").write_bytes(identity.key)
        self.ca = base64.b64encode(identity.certificate).decode()
        self.file.write_text(yaml.safe_dump(self._configuration()))
        environment = {**os.environ, "TMPDIR": str(self.directory), "PYTHONPATH": str(ROOT)}
        self._program = Program(self._command(), log=self.log, health_port=self._health_port, environment=environment)

    @property
    def webhooks(self) -> tuple[str, ...]:
        """Whose webhooks it serves."""
        return PROGRAMS if self.name == "ktrain" else (self.name,)

    def start(self) -> None:
        """Return when it is ready."""
        self._program.start()

    def stop(self) -> None:
        """Return when it has ended."""
        self._program.stop()

    def _command(self) -> list[str]:
        if self.name == "ktrain":
            program = [sys.executable, "-m", "ktrain", "operator"]
        else:
            directory = peers()
            assert directory is not None
            program = [str(directory / f"{self.name}-manager")]
        return [*program, "--config", str(self.file), "--kubeconfig", str(self._kubeconfig)]

    def _configuration(self) -> dict[str, Any]:
        group = "jobset.x-k8s.io" if self.name == "jobset" else "trainer.kubeflow.org"
        common: dict[str, Any] = {
            "apiVersion": f"config.{group}/v1alpha1",
            "kind": "Configuration",
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f"{HOST}:{self._health_port}"},
            "webhook": {"host": HOST, "port": self.webhook_port},
        }
        if self.name == "ktrain":
            common["webhook"] |= {"enable": True, "certDir": str(self.certificates)}
            return common | {"jobset": {"enable": True}}
        off: dict[str, Any] = {"enable": False}
        if self.name == "jobset":
            return common | {"internalCertManagement": off, "leaderElection": {"leaderElect": False}}
        return common | {"certManagement": off}


def upstream_crds() -> list[Any]:
    """Return the definitions of the real operators, and those of both PodGroups."""
    directory = peers()
    assert directory is not None
    return [*read_crds([directory / "crds"]), *assets.pod_group_crds()]


async def install(kubeconfig: Path, crds: list[Any]) -> None:
    """Have the API server serve these definitions."""
    transport = await connect(str(kubeconfig))
    try:
        env = system_env()
        await serve_crds(Client(transport, env, field_manager="test"), env, crds)
    finally:
        await transport.aclose()


async def point_webhooks_at(kubeconfig: Path, operator: Operator) -> None:
    """Have the API server ask this operator, and nobody else under these names."""
    transport = await connect(str(kubeconfig))
    try:
        client = Client(transport, system_env(), field_manager="test")
        for name in operator.webhooks:
            for configuration in yaml.safe_load_all((ROOT / "config" / name / "webhooks.yaml").read_text()):
                for webhook in configuration["webhooks"]:
                    path = webhook["clientConfig"]["service"]["path"]
                    url = f"https://{HOST}:{operator.webhook_port}{path}"
                    webhook["clientConfig"] = {"url": url, "caBundle": operator.ca}
                resource = resource_of(configuration)
                with suppress(NotFound):
                    await client.delete(resource, Key("", configuration["metadata"]["name"]))
                await client.create(resource, configuration)
    finally:
        await transport.aclose()


@contextmanager
def control_plane(directory: Path, crds: list[Any]) -> Iterator[Path]:
    """Run a real control plane with these definitions and without operators or a kubelet; yields its kubeconfig."""
    binaries = Settings.of().binaries
    assert binaries is not None
    with real_server(binaries, prepare=lambda server: anyio.run(install, server.kubeconfig, crds)) as server:
        directory.mkdir(parents=True, exist_ok=True)
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(server.kubeconfig.read_text())
        yield kubeconfig


@contextmanager
def running(directory: Path, *, ktrain: bool = False) -> Iterator[dict[str, Operator]]:
    """Run a control plane with the real operators, or with ktrain's; yields them by their names."""
    crds = [*assets.crds(), *assets.pod_group_crds()] if ktrain else upstream_crds()
    with ExitStack() as stack:
        kubeconfig = stack.enter_context(control_plane(directory, crds))
        operators = {name: Operator(directory, name) for name in (("ktrain",) if ktrain else PROGRAMS)}
        for operator in operators.values():
            stack.callback(operator.stop)
            operator.start()
            anyio.run(point_webhooks_at, kubeconfig, operator)
        yield operators


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--ktrain", action="store_true", help="ktrain's operator instead")
    options = parser.parse_args()
    if why := missing():
        raise SystemExit(why)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with running(options.directory.resolve(), ktrain=options.ktrain):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        signal.pause()


if __name__ == "__main__":
    main()
