"""
Kueue's own manager beside `ktrain operator`, on a real kube-apiserver.

Kueue is set up as its project does it: its definitions, its webhooks by their Service, certificates that it makes
itself. What a cluster would add is done here: the Service leads to this machine, and the Secret with the certificate
is a file for the manager, which a kubelet would have mounted. The API server's audit log tells who wrote what.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import yaml

from ktrain.api import core
from ktrain.api.documents import resource_of
from ktrain.framework import Client, connect, system_env
from ktrain.local.apiserver.front.certificates import self_signed
from ktrain.testing.crds import serve_crds
from ktrain.testing.planes import install_crds
from ktrain.testing.realserver import RealServer, real_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.testing.envtest import Binaries

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
NAMESPACE, SERVICE, SECRET = "kueue-system", "kueue-webhook-service", "kueue-webhook-server-cert"
CONVERTED = ("localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters")
"""Kinds with several versions, between which Kueue converts."""
READY_WITHIN_S = 120.0
WRITES = ("create", "update", "patch", "delete")


def built() -> Path | None:
    """The directory where hack/peers/kueue/build left Kueue, if it did."""
    directory = os.environ.get("PEER_ASSETS")
    return Path(directory) if directory and (Path(directory) / "kueue-manager").exists() else None


class Plane:
    """A running control plane with both managers."""

    def __init__(self, server: RealServer, directory: Path) -> None:
        self.server = server
        self._directory = directory

    def log(self, name: str) -> str:
        """What `operator` or `kueue` has said."""
        return (self._directory / f"{name}.log").read_text()

    def writes(self, agent: str, namespace: str) -> list[tuple[str, str, str, int]]:
        """Who sends this user agent wrote, in a namespace: verb, plural with subresource, name, HTTP status."""
        found = []
        for line in (self._directory / "audit.log").read_text().splitlines():
            event = json.loads(line)
            target = event.get("objectRef", {})
            if not event["userAgent"].startswith(agent) or target.get("namespace") != namespace:
                continue
            if event["verb"] in WRITES and "dryRun" not in event["requestURI"]:
                plural = "/".join(filter(None, (target["resource"], target.get("subresource"))))
                found.append((event["verb"], plural, target.get("name", ""), event["responseStatus"]["code"]))
        return found


@contextmanager
def plane(binaries: Binaries, kueue: Path, directory: Path, **configuration: object) -> Iterator[Plane]:
    """Run everything; `configuration` is laid over Kueue's."""
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"]}
    rules = {"rules": [{"level": "None", "verbs": ["get", "list", "watch"]}, {"level": "Metadata"}]}
    (directory / "policy.yaml").write_text(yaml.safe_dump(policy | rules))
    audit = [f"--audit-policy-file={directory / 'policy.yaml'}", f"--audit-log-path={directory / 'audit.log'}"]
    ports = {name: free_port() for name in ("operator", "operator health", "kueue", "kueue health")}

    def prepare(server: RealServer) -> None:
        anyio.run(install_crds, server)
        anyio.run(_install, server, kueue, directory, ports)

    with (
        real_server(binaries, prepare, arguments={"kube-apiserver": audit}) as server,
        _operator(server, directory, ports),
        _mounting(server, directory / "kueue"),
        _kueue(server, kueue, directory, ports, configuration),
    ):
        yield Plane(server, directory)


@contextmanager
def _operator(server: RealServer, directory: Path, ports: dict[str, int]) -> Iterator[None]:
    configuration = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "jobset": {"enable": True},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"{HOST}:{ports['operator health']}"},
        "webhook": {"enable": True, "host": HOST, "port": ports["operator"], "certDir": str(directory)},
    }
    (directory / "operator.yaml").write_text(yaml.safe_dump(configuration))
    options = ["--config", str(directory / "operator.yaml"), "--kubeconfig", str(server.kubeconfig)]
    command = [sys.executable, "-m", "ktrain", "operator", *options]
    with _program("operator", command, directory, ports["operator health"], {}):
        yield


@contextmanager
def _kueue(
    server: RealServer, kueue: Path, directory: Path, ports: dict[str, int], more: dict[str, object]
) -> Iterator[None]:
    configuration = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"{HOST}:{ports['kueue health']}"},
        "metrics": {"bindAddress": "0"},
        "leaderElection": {"leaderElect": False},
        "webhook": {"host": HOST, "port": ports["kueue"], "certDir": str(directory / "kueue")},
        "internalCertManagement": {"enable": True, "webhookServiceName": SERVICE, "webhookSecretName": SECRET},
        "integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob"]},
        "featureGates": {"VisibilityOnDemand": False},
    }
    (directory / "kueue.yaml").write_text(yaml.safe_dump(configuration | more))
    command = [str(kueue / "kueue-manager"), "--config", str(directory / "kueue.yaml"), "--zap-log-level=3"]
    with _program("kueue", command, directory, ports["kueue health"], {"KUBECONFIG": str(server.kubeconfig)}):
        yield


@contextmanager
def _program(name: str, command: list[str], directory: Path, port: int, environment: dict[str, str]) -> Iterator[None]:
    """Run a manager from its readiness to its end."""
    with (directory / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=os.environ | environment)
    try:
        deadline = time.monotonic() + READY_WITHIN_S
        while not _is_ready(port):
            if process.poll() is not None or time.monotonic() > deadline:
                said = (directory / f"{name}.log").read_text()[-3000:]
                raise AssertionError(f"{name} is not ready (exit code {process.poll()}):\n{said}")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/readyz", timeout=2):
            return True
    except OSError:
        return False


@contextmanager
def _mounting(server: RealServer, directory: Path) -> Iterator[None]:
    """Do the kubelet's part: the Secret that Kueue fills becomes the files that it serves with."""
    directory.mkdir()
    ended = threading.Event()

    async def mount() -> None:
        transport = await connect(str(server.kubeconfig))
        try:
            client = Client(transport, system_env(), field_manager="kubelet")
            while not ended.is_set():
                secret = await client.get(core.untyped(core.SECRETS), SECRET, NAMESPACE)
                if data := secret.get("data"):
                    for name, content in data.items():
                        (directory / name).write_bytes(base64.b64decode(content))
                    return
                await anyio.sleep(0.1)
        finally:
            await transport.aclose()

    thread = threading.Thread(target=anyio.run, args=(mount,))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


async def _install(server: RealServer, kueue: Path, directory: Path, ports: dict[str, int]) -> None:
    """Create Kueue's kinds, its Service, and the webhooks of both."""
    documents = [found for found in yaml.safe_load_all((kueue / "kueue.yaml").read_text()) if found]
    identity = self_signed(HOST, now=datetime.now(UTC))
    (directory / "tls.crt").write_bytes(identity.certificate)
    (directory / "tls.key").write_bytes(identity.key)
    transport = await connect(str(server.kubeconfig))
    try:
        client = Client(transport, system_env(), field_manager="installer")
        for document in (
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": NAMESPACE}},
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": SERVICE, "namespace": NAMESPACE},
                "spec": {"type": "ExternalName", "externalName": "localhost"},
            },
        ):
            await client.create(resource_of(document), document)
        definitions = [each for each in documents if each["kind"] == "CustomResourceDefinition"]
        await serve_crds(client, system_env(), [_converted(each, ports["kueue"]) for each in definitions])
        for configuration in documents:
            if configuration not in definitions:
                await client.create(resource_of(configuration), _renamed(configuration, ports["kueue"]))
        for file in ("trainer", "jobset"):
            for found in yaml.safe_load_all((ROOT / "config" / file / "webhooks.yaml").read_text()):
                for webhook in found["webhooks"]:
                    url = f"https://{HOST}:{ports['operator']}{webhook['clientConfig']['service']['path']}"
                    ca = base64.b64encode(identity.certificate).decode()
                    webhook["clientConfig"] = {"url": url, "caBundle": ca}
                await client.create(resource_of(found), found)
    finally:
        await transport.aclose()


def _service(path: str, port: int) -> dict[str, object]:
    return {"service": {"namespace": NAMESPACE, "name": SERVICE, "path": path, "port": port}}


def _converted(definition: dict, port: int) -> dict:
    """Have Kueue convert between versions, as its kustomization says."""
    if definition["spec"]["names"]["plural"] not in CONVERTED:
        return definition
    webhook = {"clientConfig": _service("/convert", port), "conversionReviewVersions": ["v1"]}
    return definition | {"spec": definition["spec"] | {"conversion": {"strategy": "Webhook", "webhook": webhook}}}


def _renamed(configuration: dict, port: int) -> dict:
    """Put in the names that the kustomization puts in."""
    metadata = {"name": f"kueue-{configuration['metadata']['name']}"}
    webhooks = [
        webhook | {"clientConfig": _service(webhook["clientConfig"]["service"]["path"], port)}
        for webhook in configuration["webhooks"]
    ]
    return configuration | {"metadata": metadata, "webhooks": webhooks}


def free_port() -> int:
    with socket.create_server((HOST, 0)) as one:
        return int(one.getsockname()[1])
