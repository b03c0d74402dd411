"""
A real control plane for tests: etcd, kube-apiserver and, if it is there, kube-controller-manager, from a directory of
binaries (`KUBEBUILDER_ASSETS`, as envtest has it).

Everything binds loopback and lives in one temporary directory; the processes end with the process that started them,
also when that is killed (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ASSETS: Final = "KUBEBUILDER_ASSETS"
START_TIMEOUT_S: Final = 60.0
CONTROLLERS: Final = "job,garbagecollector,namespace,serviceaccount"
_PR_SET_PDEATHSIG: Final = 1


class StartFailed(Exception):
    """The control plane did not come up; the message has the end of the log of the process that is to blame."""


@dataclass(frozen=True, slots=True)
class RealServer:
    """A running kube-apiserver."""

    url: str
    token: str
    ca_file: Path
    kubeconfig: Path


def assets() -> Path | None:
    """The directory named by KUBEBUILDER_ASSETS, None when it is not set."""
    directory = os.environ.get(ASSETS)
    return Path(directory) if directory else None


@contextmanager
def real_server(binaries: Path, prepare: Callable[[RealServer], None] = lambda _: None) -> Iterator[RealServer]:
    """
    Start a control plane; stop it and remove its directory at the end.

    `prepare` is called when the API server answers and no controller runs yet. It is the place to install CRDs: the
    garbage collector looks for new kinds only every 30 seconds.

    Blocks for some seconds, so it belongs into a session fixture, not into a coroutine.

    Raises:
        StartFailed: A process ended, or did not become ready in a minute.
    """
    directory = Path(tempfile.mkdtemp(prefix="ktrain-real-"))
    processes: list[subprocess.Popen[bytes]] = []
    try:
        server = _start(binaries, directory, processes)
        prepare(server)
        if (manager := binaries / "kube-controller-manager").exists():
            processes.append(_spawn(manager, _manager_options(server, directory), directory))
        yield server
    finally:
        # Not asked to end: an API server without etcd takes ten seconds over it, and there is nothing to keep.
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _start(binaries: Path, directory: Path, processes: list[subprocess.Popen[bytes]]) -> RealServer:
    clients, peers, secure = _free_ports(3)
    token = secrets.token_urlsafe(24)
    (directory / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    (directory / "sa.key").write_bytes(_private_key())
    ca_file = directory / "certs" / "apiserver.crt"
    server = RealServer(f"https://127.0.0.1:{secure}", token, ca_file, directory / "kubeconfig")
    processes.append(_spawn(binaries / "etcd", _etcd_options(directory, clients, peers), directory))
    options = _apiserver_options(directory, f"http://127.0.0.1:{clients}", secure)
    processes.append(_spawn(binaries / "kube-apiserver", options, directory))
    _wait_ready(server, processes, directory)
    server.kubeconfig.write_text(_kubeconfig(server))
    return server


def _etcd_options(directory: Path, clients: int, peers: int) -> list[str]:
    client_url, peer_url = f"http://127.0.0.1:{clients}", f"http://127.0.0.1:{peers}"
    return [
        f"--data-dir={directory / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=default={peer_url}",
    ]


def _apiserver_options(directory: Path, etcd_url: str, port: int) -> list[str]:
    return [
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={directory / 'certs'}",
        f"--token-auth-file={directory / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        f"--service-account-issuer=https://127.0.0.1:{port}",
        f"--service-account-key-file={directory / 'sa.key'}",
        f"--service-account-signing-key-file={directory / 'sa.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--disable-admission-plugins=ServiceAccount",
        "--allow-privileged=true",
        "--profiling=false",
    ]


def _manager_options(server: RealServer, directory: Path) -> list[str]:
    return [
        f"--kubeconfig={server.kubeconfig}",
        f"--controllers={CONTROLLERS}",
        "--use-service-account-credentials=false",
        f"--service-account-private-key-file={directory / 'sa.key'}",
        "--leader-elect=false",
        "--secure-port=0",
    ]


def _spawn(binary: Path, options: list[str], directory: Path) -> subprocess.Popen[bytes]:
    with (directory / f"{binary.name}.log").open("ab") as log:
        return subprocess.Popen(  # noqa: S603 -- the binaries of KUBEBUILDER_ASSETS
            [binary, *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 -- only a prctl call
        )


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait_ready(server: RealServer, processes: list[subprocess.Popen[bytes]], directory: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    context = ssl.create_default_context()
    # The certificate is written while the server starts; this probe sends nothing secret but a token made for it.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    request = urllib.request.Request(f"{server.url}/readyz", headers={"Authorization": f"Bearer {server.token}"})  # noqa: S310 -- our own URL
    while time.monotonic() < deadline:
        for process in processes:
            if process.poll() is not None:
                raise StartFailed(_last_words(directory, process))
        try:
            with urllib.request.urlopen(request, timeout=2, context=context):  # noqa: S310 -- our own URL
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise StartFailed(_last_words(directory, processes[-1]))


def _last_words(directory: Path, process: subprocess.Popen[bytes]) -> str:
    name = Path(os.fsdecode(process.args[0])).name if isinstance(process.args, list) else "process"
    tail = (directory / f"{name}.log").read_text(errors="replace")[-2000:]
    return f"{name} did not come up (exit code {process.poll()}):\n{tail}"


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _private_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _kubeconfig(server: RealServer) -> str:
    cluster = {"server": server.url, "certificate-authority": str(server.ca_file)}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "real",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": "real", "user": {"token": server.token}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "real"}}],
        }
    )
