"""
A cluster in which a Deployment runs: a real API server with the controllers of Deployments and of Services, and a
kubelet that makes processes of pods. The API server calls webhooks at the addresses of pods that are ready.
"""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import replace

import yaml

from ktrain.api.core import untyped
from ktrain.api.trainer import TRAIN_JOBS
from ktrain.framework import Client, HttpTransport, system_env
from ktrain.framework.errors import ApiError
from ktrain.testing.envtest import Settings
from ktrain.testing.realserver import CONTROLLERS, real_server

from ..waiting import anything, until
from .container import Image
from .kubelet import Kubelet
from .network import network
from .programs import ROOT, Program, find

SYSTEM = "kubeflow-system"
PATIENCE_S = 90
KTRAIN = Image(
    (sys.executable, "-m", "ktrain", "operator"),
    {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
)
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted", "Panic"],
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "Request", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
        {"level": "Metadata"},
    ],
}


class Deployed:
    """What a test does to the cluster."""

    def __init__(self, server, client, kubelet, helm, kubectl, audit):
        self.server = server
        self.client = client
        self.kubelet = kubelet
        self._helm = helm
        self._kubectl = kubectl
        self._audit = audit

    async def helm(self, *arguments, values=None):
        """Run Helm as administrator; returns what it printed."""
        given = [] if values is None else ["--values", "-"]
        command = [str(one) for one in (*arguments, "--namespace", SYSTEM, *given)]
        return await asyncio.to_thread(self._helm, *command, stdin=None if values is None else yaml.safe_dump(values))

    async def kubectl(self, *arguments, stdin=None):
        return await asyncio.to_thread(self._kubectl, *arguments, stdin=stdin)

    async def apply(self, *objects):
        return await self.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(objects))

    async def found(self, kinds, *options):
        """Return objects as kubectl reads them."""
        return json.loads(await self.kubectl("get", kinds, "-o", "json", *options))["items"]

    def operators(self):
        """Return the pods that are processes and have not been asked to end."""
        return [one for one in self.kubelet.pods.values() if not one.ending]

    async def rolled_out(self, name):
        """Wait until a Deployment is as it should be, as `kubectl rollout status` does."""
        await self.kubectl("rollout", "status", f"deployment/{name}", "--namespace", SYSTEM, f"--timeout={PATIENCE_S}s")

    async def until_served(self, body):
        """Wait until the API server takes an object, webhooks included; nothing is stored."""
        await until(
            lambda: self.client.create(untyped(TRAIN_JOBS), body, dry_run=True),
            anything,
            despite=(ApiError,),
            within_s=PATIENCE_S,
            every_s=0.5,
        )

    async def until(self, ask, fits=bool):
        return await until(ask, fits, within_s=PATIENCE_S, every_s=0.2)

    def audited(self):
        """Return the writes that the API server has answered, oldest first."""
        lines = self._audit.read_text().splitlines()
        events = [json.loads(line) for line in lines if line.endswith("}")]
        return sorted(events, key=lambda one: one["stageTimestamp"])


@asynccontextmanager
async def deployed(directory, *definitions, audit_policy=AUDIT, api_server=()):
    """
    Start such a cluster, and `kubectl apply` these definitions before its controllers run.

    `api_server`: more arguments for kube-apiserver.
    """
    audit, policy = directory / "audit.log", directory / "policy.yaml"
    policy.write_text(yaml.safe_dump(audit_policy))
    made = []

    def prepare(server):
        # Its certificate is for the addresses that it is bound to, which loopback is not.
        text = server.kubeconfig.read_text()
        server.kubeconfig.write_text(text.replace("127.0.0.1", net.api_server))
        made.append(Program(find("kubectl"), directory / "home", server.kubeconfig))
        made[0].home.mkdir()
        for file in definitions:
            made[0]("apply", "--server-side", "-f", str(file))

    with network() as net:
        options = {
            "kube-apiserver": [
                "--bind-address=0.0.0.0",
                f"--service-cluster-ip-range={net.services}",
                "--enable-aggregator-routing=true",
                f"--audit-policy-file={policy}",
                f"--audit-log-path={audit}",
                *api_server,
            ],
            "kube-controller-manager": [f"--controllers={CONTROLLERS},deployment,replicaset,endpoint,endpointslice"],
        }
        opening = real_server(Settings.of().binaries, prepare, arguments=options)
        server = await asyncio.to_thread(opening.__enter__)
        server = replace(server, url=server.url.replace("127.0.0.1", net.api_server))
        client = Client(HttpTransport(server.endpoint()), system_env(), field_manager="test")
        try:
            (kubectl,) = made
            helm = Program(find("helm"), kubectl.home, server.kubeconfig)
            kubelet = Kubelet(client, net, server, kubectl, directory)
            kubelet.images["ktrain-operator"] = KTRAIN
            async with asyncio.TaskGroup() as tasks:  # a kubelet that fails ends the test
                running = tasks.create_task(kubelet.run())
                yield Deployed(server, client, kubelet, helm, kubectl, audit)
                running.cancel()
        finally:
            await client.transport.aclose()
            await asyncio.to_thread(opening.__exit__, None, None, None)
