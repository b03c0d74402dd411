"""
A real control plane for tests: etcd, kube-apiserver and, if it is there, kube-controller-manager (`envtest.py` says
where they come from).

Everything binds loopback and lives in one temporary directory; the processes end with the process that started them,
also when that is killed (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from ktrain.framework.client.credentials import Endpoint, StaticToken

from .envtest import ASSETS, Binaries, Settings
from .programs import StartFailed, free_ports
from .users import Authority

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

CONTROLLERS: Final = "job,garbagecollector,namespace,serviceaccount,pvc-protection,pv-protection,ttl-after-finished"
ATTEMPTS: Final = 5
_PR_SET_PDEATHSIG: Final = 1
_PORT_TAKEN: Final = "address already in use"


@dataclass(frozen=True, slots=True)
class RealServer:
    """A running kube-apiserver. `token` and `kubeconfig` are those of an administrator."""

    url: str
    token: str = field(repr=False)
    ca_file: Path
    kubeconfig: Path
    authority: Authority = field(repr=False)
    """Issues client certificates that the server trusts."""

    def endpoint(self) -> Endpoint:
        """How to connect as administrator."""
        return Endpoint(self.url, StaticToken(self.token), ca_file=str(self.ca_file))

    def add_user(self, name: str, groups: tuple[str, ...] = ()) -> Path:
        """
        Make a user, who may do nothing yet but what RBAC grants the name or the groups; return a kubeconfig.

        The same name can be made again, with other groups. The file lives as long as the server.
        """
        directory = self.authority.directory / f"user-{secrets.token_hex(4)}"
        certificate, key = self.authority.issue(name, groups, directory)
        file = directory / "kubeconfig"
        user = {"client-certificate": str(certificate), "client-key": str(key)}
        file.write_text(_kubeconfig(self.url, self.ca_file, user))
        return file


def assets() -> Path | None:
    """The directory named by KUBEBUILDER_ASSETS, None when it is not set."""
    directory = os.environ.get(ASSETS)
    return Path(directory) if directory else None


@contextmanager
def real_server(
    binaries: Path | Binaries,
    prepare: Callable[[RealServer], None] = lambda _: None,
    *,
    settings: Settings | None = None,
    keep_logs: Callable[[], Path | None] = lambda: None,
    arguments: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[RealServer]:
    """
    Start a control plane; stop it and remove its directory at the end.

    `prepare` is called when the API server answers and no controller runs yet. It is the place to install CRDs: the
    garbage collector looks for new kinds only every 30 seconds. `keep_logs` is asked at the end; logs are copied to the
    directory that it names. `arguments` are more of them by program, for example feature gates; those that are repeated
    win over the usual ones.

    Blocks for some seconds, so it belongs into a session fixture, not into a coroutine.

    Raises:
        StartFailed: A process ended, or did not become ready in time; the message has the end of its log.
    """
    found = Binaries.inside(binaries) if isinstance(binaries, Path) else binaries
    plane = _ControlPlane(found, settings or Settings(), arguments or {})
    try:
        server = plane.start()
        prepare(server)
        plane.start_controllers(server)
        yield server
    finally:
        plane.stop()
        if (logs := keep_logs()) is not None:
            plane.copy_logs(logs)
        plane.remove()


class _ControlPlane:
    """Processes and their directory."""

    def __init__(self, binaries: Binaries, settings: Settings, arguments: Mapping[str, Sequence[str]]) -> None:
        self._binaries = binaries
        self._settings = settings
        self._arguments = arguments
        self._directory = Path(tempfile.mkdtemp(prefix="ktrain-real-"))
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> RealServer:
        """Start etcd and the API server, again if another program was faster to take a port."""
        attempts = range(ATTEMPTS)
        for attempt in attempts:
            try:
                return self._start()
            except StartFailed as error:
                if _PORT_TAKEN not in str(error) or attempt == attempts[-1]:
                    raise
                self.stop()
                shutil.rmtree(self._directory / "etcd", ignore_errors=True)
        raise AssertionError("the last attempt returns or raises")

    def start_controllers(self, server: RealServer) -> None:
        if self._binaries.kube_controller_manager is not None:
            options = _manager_options(server, self._directory)
            self._spawn("kube-controller-manager", self._binaries.kube_controller_manager, options)

    def stop(self) -> None:
        """Not asked to end: an API server without etcd takes ten seconds over it, and there is nothing to keep."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            # Killed, it ends when the kernel lets it; its directory is a temporary one.
            with suppress(subprocess.TimeoutExpired):
                process.wait(self._settings.stop_timeout_s)
        self._processes.clear()

    def copy_logs(self, to: Path) -> None:
        to.mkdir(parents=True, exist_ok=True)
        for log in self._directory.glob("*.log"):
            shutil.copy(log, to)

    def remove(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self) -> RealServer:
        directory = self._directory
        clients, peers, secure = free_ports(3)
        token = secrets.token_urlsafe(24)
        (directory / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
        (directory / "sa.key").write_bytes(_private_key())
        ca_file = directory / "certs" / "apiserver.crt"
        url = f"https://127.0.0.1:{secure}"
        authority = Authority.make(directory / "users")
        server = RealServer(url, token, ca_file, directory / "kubeconfig", authority)
        self._spawn("etcd", self._binaries.etcd, _etcd_options(directory, clients, peers))
        options = _apiserver_options(directory, f"http://127.0.0.1:{clients}", secure)
        options.append(f"--client-ca-file={authority.certificate}")
        self._spawn("kube-apiserver", self._binaries.kube_apiserver, options)
        self._wait_ready(server)
        server.kubeconfig.write_text(_kubeconfig(server.url, ca_file, {"token": token}))
        return server

    def _spawn(self, name: str, binary: Path, options: list[str]) -> None:
        with (self._directory / f"{name}.log").open("ab") as log:
            output = None if self._settings.attach_output else log
            process = subprocess.Popen(  # noqa: S603 -- the programs that the environment names
                [binary, *options, *self._arguments.get(name, ())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 -- only a prctl call
            )
        self._processes.append(process)

    def _wait_ready(self, server: RealServer) -> None:
        deadline = time.monotonic() + self._settings.start_timeout_s
        context = ssl.create_default_context()
        # The certificate is written while the server starts; this probe sends nothing secret but a token made for it.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        headers = {"Authorization": f"Bearer {server.token}"}
        request = urllib.request.Request(f"{server.url}/readyz", headers=headers)  # noqa: S310 -- our own URL
        while time.monotonic() < deadline:
            for process in self._processes:
                if process.poll() is not None:
                    raise StartFailed(self._last_words(process))
            try:
                with urllib.request.urlopen(request, timeout=2, context=context):  # noqa: S310 -- our own URL
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise StartFailed(self._last_words(self._processes[-1]))

    def _last_words(self, process: subprocess.Popen[bytes]) -> str:
        name = ("etcd", "kube-apiserver", "kube-controller-manager")[self._processes.index(process)]
        tail = (self._directory / f"{name}.log").read_text(errors="replace")[-2000:]
        return f"{name} did not come up (exit code {process.poll()}):\n{tail}"


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


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _private_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _kubeconfig(url: str, ca_file: Path, user: dict[str, str]) -> str:
    cluster = {"server": url, "certificate-authority": str(ca_file)}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "real",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": "real", "user": user}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "real"}}],
        }
    )
