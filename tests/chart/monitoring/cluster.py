"""
A cluster under load with what watches it, as processes.

Kubernetes' own API server, Job controller and scheduler; two replicas of `ktrain operator` with election, webhooks,
certificates of its own and the JobSet controller; kube-state-metrics and Prometheus. Kubelets are simulated, and so are
cAdvisor and DCGM.
"""

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import anyio.from_thread
import yaml

from ktrain.api.core import NAMESPACES, SECRETS, untyped
from ktrain.api.documents import resource_of
from ktrain.framework import Client, connect, system_env
from ktrain.testing.envtest import Settings
from ktrain.testing.planes import install_crds
from ktrain.testing.programs import LOOPBACK, Program, free_ports
from ktrain.testing.realserver import real_server

from ...controlplane.processes import kube_scheduler
from .exporter import exporter
from .kubelet import Kubelets
from .load import Load, install_plugin
from .prometheus import PROMETHEUS, prometheus

ROOT = Path(__file__).parents[3]
SYSTEM, SERVICE, SECRET = "ktrain-system", "ktrain-controller-manager", "ktrain-webhook-cert"
GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
STATE_CONFIG = ROOT / "charts" / "ktrain" / "files" / "kube-state-metrics.yaml"
REPLICAS = ("a", "b")


def missing():
    """Return what the cluster needs and this machine does not have; empty if there is nothing."""
    binaries = Settings.of().binaries
    if binaries is None or not binaries.kube_apiserver.with_name("kube-scheduler").exists():
        return "kube-apiserver and kube-scheduler in KUBEBUILDER_ASSETS (hack/controlplane/build)"
    if PROMETHEUS is None:
        return "prometheus (the Debian package)"
    if state_metrics_program() is None:
        return "kube-state-metrics in KTRAIN_TOOLS (hack/tools/build)"
    return ""


def state_metrics_program():
    places = (os.environ.get("KTRAIN_TOOLS", ""), os.environ["PATH"])
    return shutil.which("kube-state-metrics", path=os.pathsep.join(places))


@contextmanager
def watched_cluster(directory):
    """Run all of it; yields its Prometheus."""
    binaries = Settings.of().binaries
    arguments = {"kube-apiserver": [GATES, "--runtime-config=scheduling.k8s.io/v1alpha2=true"]}
    arguments["kube-controller-manager"] = [GATES]
    with ExitStack() as stack:
        server = stack.enter_context(
            real_server(binaries, lambda one: anyio.run(install_crds, one), arguments=arguments)
        )
        scheduler = binaries.kube_apiserver.with_name("kube-scheduler")
        stack.enter_context(kube_scheduler(scheduler, server, GATES, log=directory / "scheduler.log"))
        ports = free_ports(len(REPLICAS))
        webhooks = [*free_ports(len(REPLICAS))]
        anyio.run(_prepare, server.kubeconfig, webhooks[0])
        plugins = install_plugin(_folder(directory / "plugins"))
        for name, metrics, webhook in zip(REPLICAS, ports, webhooks, strict=True):
            operator = _operator(_folder(directory / name), server.kubeconfig, metrics, webhook, plugins)
            stack.callback(operator.stop)
            operator.start()
        kubelets = stack.enter_context(_under_load(server.kubeconfig))
        pods = stack.enter_context(exporter(lambda: kubelets.running))
        states = stack.enter_context(_state_metrics(server.kubeconfig, directory / "kube-state-metrics.log"))
        jobs = [_operators(ports), _job("kube-state-metrics", states), _job("pods", pods)]
        yield stack.enter_context(prometheus(directory, jobs))


def _folder(path):
    path.mkdir()
    return path


def _operator(directory, kubeconfig, metrics_port, webhook_port, plugins):
    """A replica; only the first one is called by the API server."""
    (health,) = free_ports(1)
    configuration = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": True, "resourceNamespace": SYSTEM},
        "jobset": {"enable": True},
        "metrics": {"bindAddress": f"{LOOPBACK}:{metrics_port}"},
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health}"},
        "webhook": {"enable": True, "host": LOOPBACK, "port": webhook_port},
        "certManagement": {"enable": True, "webhookServiceName": SERVICE, "webhookSecretName": SECRET},
    }
    file = directory / "config.yaml"
    file.write_text(yaml.safe_dump(configuration))
    options = ["--config", str(file), "--kubeconfig", str(kubeconfig)]
    environment = {**os.environ, "POD_NAMESPACE": SYSTEM, "PYTHONPATH": f"{ROOT}{os.pathsep}{plugins}"}
    command = [sys.executable, "-m", "ktrain", "operator", *options]
    return Program(command, log=directory / "operator.log", health_port=health, environment=environment)


async def _prepare(kubeconfig, webhook_port):
    """
    Create the operator's namespace, Secret and webhook configurations.

    Its Service is a name of this machine: an API server without a pod network reaches the webhooks so, and checks their
    certificate by the Service's name all the same.
    """
    transport = await connect(str(kubeconfig))
    try:
        client = Client(transport, system_env(), field_manager="test")
        meta = {"name": SERVICE, "namespace": SYSTEM}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {**meta, "name": SECRET}}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": meta}
        service["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        await client.create(
            untyped(NAMESPACES), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
        )
        await client.create(untyped(SECRETS), secret)
        await client.create(resource_of(service), service)
        for document in yaml.safe_load_all((ROOT / "config" / "trainer" / "webhooks.yaml").read_text()):
            for webhook in document["webhooks"]:
                webhook["clientConfig"]["service"] |= {"name": SERVICE, "namespace": SYSTEM, "port": webhook_port}
            await client.create(resource_of(document), document)
    finally:
        await transport.aclose()


@contextmanager
def _under_load(kubeconfig):
    """Have kubelets and users work in a thread of their own; yields the kubelets."""
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(_load(kubeconfig)) as kubelets,
    ):
        yield kubelets


@asynccontextmanager
async def _load(kubeconfig):
    transport = await connect(str(kubeconfig))
    try:
        client = Client(transport, system_env(), field_manager="test")
        kubelets, load = Kubelets(client), Load(client)
        await load.set_up()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kubelets.run)
            tasks.start_soon(load.run)
            yield kubelets
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await transport.aclose()


@contextmanager
def _state_metrics(kubeconfig, log):
    """Run kube-state-metrics with the configuration that the chart ships; yields its port."""
    port, own = free_ports(2)
    command = [
        state_metrics_program(),
        f"--kubeconfig={kubeconfig}",
        f"--custom-resource-state-config-file={STATE_CONFIG}",
        "--resources=pods,jobs",
        "--metric-labels-allowlist=pods=[jobset.sigs.k8s.io/jobset-name]",
        f"--host={LOOPBACK}",
        f"--port={port}",
        f"--telemetry-host={LOOPBACK}",
        f"--telemetry-port={own}",
    ]
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield port
    finally:
        process.kill()
        process.wait()


def _operators(ports):
    """The scrape configuration of the operators, with labels as the Prometheus operator gives a ServiceMonitor's."""
    static = [
        {"targets": [f"{LOOPBACK}:{port}"], "labels": {"namespace": SYSTEM, "pod": f"{SERVICE}-{name}"}}
        for name, port in zip(REPLICAS, ports, strict=True)
    ]
    return {"job_name": SERVICE, "honor_labels": True, "static_configs": static}


def _job(name, port):
    return {"job_name": name, "honor_labels": True, "static_configs": [{"targets": [f"{LOOPBACK}:{port}"]}]}
