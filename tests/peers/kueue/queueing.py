"""
Kueue's own manager beside `ktrain operator`, on a real kube-apiserver, with JobSets by ktrain or by their own operator.

Kueue is set up as its project does it: its definitions, its webhooks by their Service, certificates that it makes
itself. What a cluster would add is done here: the Service leads to this machine, and the Secret with the certificate
is a file for the manager, which a kubelet would have mounted. The API server's audit log tells who wrote what.
"""

from __future__ import annotations

import base64
import json
import os
import threading
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import yaml

from ktrain.api import core
from ktrain.api.documents import resource_of
from ktrain.framework import Client, connect, system_env
from ktrain.testing.crds import serve_crds
from ktrain.testing.planes import install_crds
from ktrain.testing.programs import Program, free_ports
from ktrain.testing.realserver import RealServer, real_server

from ...waiting import until
from ..stack import Operator, peers, point_webhooks_at
from ..stack import missing as others_missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.testing.envtest import Binaries

ROOT = Path(__file__).parents[3]
HOST = "127.0.0.1"
NAMESPACE, SERVICE, SECRET = "kueue-system", "kueue-webhook-service", "kueue-webhook-server-cert"
CONVERTED = ("localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters")
"""Kinds with several versions, between which Kueue converts."""
READY_WITHIN_S = 120.0
WRITES = ("create", "update", "patch", "delete")


def built() -> Path:
    """The directory with Kueue, beside the other operators."""
    directory = peers()
    assert directory is not None
    return directory


def missing() -> str:
    """Say what these tests need and is not there; nothing if all is."""
    found = others_missing()
    return found or (
        "" if (built() / "kueue-manager").exists() else "needs Kueue: hack/peers/kueue/build (Go, minutes)"
    )


class Plane:
    """A running control plane with both managers."""

    def __init__(self, server: RealServer, directory: Path) -> None:
        self.server = server
        self._directory = directory

    def portable_kubeconfig(self) -> str:
        """Return a kubeconfig that names no file."""
        config = yaml.safe_load(self.server.kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        authority = Path(cluster.pop("certificate-authority")).read_bytes()
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
        return yaml.safe_dump(config)

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


class Trainer(Operator):
    """`ktrain operator` where others see to JobSets."""

    @property
    def webhooks(self) -> tuple[str, ...]:
        """Whose webhooks it serves."""
        return ("trainer",)

    def _configuration(self) -> dict[str, Any]:
        return super()._configuration() | {"jobset": {"enable": False}}


@contextmanager
def plane(binaries: Binaries, directory: Path, configuration: Json, *, own_jobsets: bool) -> Iterator[Plane]:
    """Run everything; `configuration` is laid over Kueue's. Without `own_jobsets` JobSet's own operator runs."""
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"]}
    rules = {"rules": [{"level": "None", "verbs": ["get", "list", "watch"]}, {"level": "Metadata"}]}
    (directory / "policy.yaml").write_text(yaml.safe_dump(policy | rules))
    audit = [f"--audit-policy-file={directory / 'policy.yaml'}", f"--audit-log-path={directory / 'audit.log'}"]
    ports = free_ports(2)
    operators = (
        [Operator(directory, "ktrain")]
        if own_jobsets
        else [Trainer(directory, "ktrain"), Operator(directory, "jobset")]
    )

    def prepare(server: RealServer) -> None:
        (directory / "kubeconfig").write_text(server.kubeconfig.read_text())
        anyio.run(install_crds, server)
        anyio.run(_install, server, ports[0])
        for operator in operators:
            anyio.run(point_webhooks_at, server.kubeconfig, operator)

    with ExitStack() as stack:
        server = stack.enter_context(real_server(binaries, prepare, arguments={"kube-apiserver": audit}))
        for operator in operators:
            stack.callback(operator.stop)
            operator.start()
        stack.enter_context(_mounting(server, directory / "kueue"))
        stack.enter_context(_kueue(server, directory, ports, configuration))
        yield Plane(server, directory)


@contextmanager
def _kueue(server: RealServer, directory: Path, ports: list[int], more: Json) -> Iterator[None]:
    configuration = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"{HOST}:{ports[1]}"},
        "metrics": {"bindAddress": "0"},
        "leaderElection": {"leaderElect": False},
        "webhook": {"host": HOST, "port": ports[0], "certDir": str(directory / "kueue")},
        "internalCertManagement": {"enable": True, "webhookServiceName": SERVICE, "webhookSecretName": SECRET},
        "integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob"]},
        "featureGates": {"VisibilityOnDemand": False},
    }
    (directory / "kueue.yaml").write_text(yaml.safe_dump(configuration | more))
    command = [str(built() / "kueue-manager"), "--config", str(directory / "kueue.yaml"), "--zap-log-level=3"]
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
    kueue = Program(
        command,
        log=directory / "kueue.log",
        health_port=ports[1],
        environment=environment,
        ready_within_s=READY_WITHIN_S,
    )
    try:
        kueue.start()
        yield
    finally:
        kueue.stop()


@contextmanager
def _mounting(server: RealServer, directory: Path) -> Iterator[None]:
    """Do the kubelet's part: the Secret that Kueue fills becomes the files that it serves with."""
    directory.mkdir()
    ended = threading.Event()

    async def mount() -> None:
        transport = await connect(str(server.kubeconfig))
        try:
            client = Client(transport, system_env(), field_manager="kubelet")
            read = partial(client.get, core.untyped(core.SECRETS), SECRET, NAMESPACE)
            secret = await until(read, lambda secret: secret.get("data") or ended.is_set(), within_s=60)
            for name, content in secret.get("data", {}).items():
                (directory / name).write_bytes(base64.b64decode(content))
        finally:
            await transport.aclose()

    thread = threading.Thread(target=anyio.run, args=(mount,))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


async def _install(server: RealServer, port: int) -> None:
    """Create Kueue's kinds, its Service, and its webhooks."""
    documents = [found for found in yaml.safe_load_all((built() / "kueue.yaml").read_text()) if found]
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
        await serve_crds(client, system_env(), [_converted(each, port) for each in definitions])
        for configuration in documents:
            if configuration not in definitions:
                await client.create(resource_of(configuration), _renamed(configuration, port))
    finally:
        await transport.aclose()


def _service(path: str, port: int) -> Json:
    return {"service": {"namespace": NAMESPACE, "name": SERVICE, "path": path, "port": port}}


def _converted(definition: Json, port: int) -> Json:
    """Have Kueue convert between versions, as its kustomization says."""
    if definition["spec"]["names"]["plural"] not in CONVERTED:
        return definition
    webhook = {"clientConfig": _service("/convert", port), "conversionReviewVersions": ["v1"]}
    return definition | {"spec": definition["spec"] | {"conversion": {"strategy": "Webhook", "webhook": webhook}}}


def _renamed(configuration: Json, port: int) -> Json:
    """Put in the names that the kustomization puts in."""
    metadata = {"name": f"kueue-{configuration['metadata']['name']}"}
    webhooks = [
        webhook | {"clientConfig": _service(webhook["clientConfig"]["service"]["path"], port)}
        for webhook in configuration["webhooks"]
    ]
    return configuration | {"metadata": metadata, "webhooks": webhooks}
