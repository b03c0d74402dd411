"""
An API server, and beside it the operator as a process of its own that can be stopped and started.

    python hack/operator_plane.py serve DIR [--real] [--gates RestartJob,...]   until SIGTERM; says `ready` when it is
    python hack/operator_plane.py stop|start|restart DIR                        returns when the deed is done

DIR gets `kubeconfig`. The API server is `ktrain up`, without a JobSet controller of its own, or with --real the
kube-apiserver of `KUBEBUILDER_ASSETS`, which calls the operator's webhooks. For recorded cases (`hack/recorded.py`).
"""

from __future__ import annotations

import argparse
import base64
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import yaml

from ktrain.api.documents import resource_of
from ktrain.framework import Client, connect, system_env
from ktrain.local.apiserver.front.certificates import self_signed
from ktrain.testing.envtest import Settings
from ktrain.testing.planes import install_crds
from ktrain.testing.programs import LOOPBACK, Program, free_ports
from ktrain.testing.realserver import real_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json

ROOT = Path(__file__).resolve().parent.parent
WEBHOOKS = [ROOT / "config" / part / "webhooks.yaml" for part in ("trainer", "jobset")]


def ktrain_operator(directory: Path, gates: str, webhook_port: int, *, webhooks: bool) -> Program:
    """Return `ktrain operator --jobset`, to be started."""
    (health,) = free_ports(1)
    switches = {name: True for name in gates.split(",") if name}
    configuration = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "jobset": {"enable": True, "featureGates": switches},
        "featureGates": {"TrainJobState": False},  # Kubeflow's status has none
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health}"},
        "webhook": {"enable": webhooks, "host": LOOPBACK, "port": webhook_port, "certDir": str(directory)},
    }
    file = directory / "operator.yaml"
    file.write_text(yaml.safe_dump(configuration))
    options = ["--config", str(file), "--kubeconfig", str(directory / "kubeconfig")]
    command = [sys.executable, "-m", "ktrain", "operator", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return Program(command, log=directory / "operator.log", health_port=health, environment=environment)


@contextmanager
def embedded(directory: Path, gates: str) -> Iterator[None]:
    """Run `ktrain up`; its rules for JobSets are those of the webhooks."""
    options = ["--pods", "off", "--no-jobsets", "--feature-gates", gates, "--kubeconfig", str(directory / "kubeconfig")]
    with (directory / "up.log").open("ab") as log:
        command = [sys.executable, "-m", "ktrain", "up", *options]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log)
    try:
        assert process.stdout is not None
        if not process.stdout.readline().startswith(b"ready "):
            raise SystemExit(f"ktrain up did not start:\n{(directory / 'up.log').read_text()[-3000:]}")
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def real(directory: Path) -> Iterator[None]:
    """Run a real control plane without a kubelet."""
    binaries = Settings.of().binaries
    if binaries is None:
        raise SystemExit("--real needs KUBEBUILDER_ASSETS")
    with real_server(binaries, prepare=lambda server: anyio.run(install_crds, server)) as server:
        (directory / "kubeconfig").write_text(server.kubeconfig.read_text())
        yield


async def install_webhooks(directory: Path, port: int) -> None:
    """Have the API server call the operator on this machine."""
    identity = self_signed(LOOPBACK, now=datetime.now(UTC))
    (directory / "tls.crt").write_bytes(identity.certificate)
    (directory / "tls.key").write_bytes(identity.key)
    transport = await connect(str(directory / "kubeconfig"))
    try:
        client = Client(transport, system_env(), field_manager="hack")
        for configuration in (found for file in WEBHOOKS for found in yaml.safe_load_all(file.read_text())):
            for webhook in configuration["webhooks"]:
                webhook["clientConfig"] = local(webhook["clientConfig"], port, identity.certificate)
            await client.create(resource_of(configuration), configuration)
    finally:
        await transport.aclose()


def local(client_config: Json, port: int, certificate: bytes) -> Json:
    url = f"https://{LOOPBACK}:{port}{client_config['service']['path']}"
    return {"url": url, "caBundle": base64.b64encode(certificate).decode()}


def serve(directory: Path, gates: str, *, on_real: bool) -> None:
    """Run until SIGTERM, and do what comes through the socket meanwhile."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        stack.enter_context(real(directory) if on_real else embedded(directory, gates))
        (webhook_port,) = free_ports(1)
        operator = ktrain_operator(directory, gates, webhook_port, webhooks=on_real)
        if on_real:
            anyio.run(install_webhooks, directory, webhook_port)
        stack.callback(operator.stop)
        operator.start()
        address = directory / "control"
        address.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(address))
            listener.listen()
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            while True:
                connection, _ = listener.accept()
                with connection:
                    deed = connection.recv(64).decode()
                    if deed in ("stop", "restart"):
                        operator.stop()
                    if deed in ("start", "restart"):
                        operator.start()
                    connection.sendall(b"done")


def ask(directory: Path, deed: str) -> None:
    """Have the server of a directory do something."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(directory / "control"))
        connection.sendall(deed.encode())
        if connection.recv(64) != b"done":
            raise SystemExit(f"{deed} failed: see {directory}/operator.log")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("deed", choices=["serve", "stop", "start", "restart"])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--real", action="store_true", help="the kube-apiserver of KUBEBUILDER_ASSETS")
    parser.add_argument("--gates", default="", help="feature gates that are on")
    options = parser.parse_args()
    if options.deed == "serve":
        serve(options.directory.resolve(), options.gates, on_real=options.real)
    else:
        ask(options.directory.resolve(), options.deed)


if __name__ == "__main__":
    main()
