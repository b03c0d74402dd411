"""`ktrain top` reads an operator's metrics through the proxy of a real kube-apiserver."""

import socket

import anyio
import pytest
from prometheus_client import CollectorRegistry

from ktrain.api.core import PODS, SERVICES, untyped
from ktrain.api.meta import Key, Resource
from ktrain.cli.top.source import NoMetrics, find_source
from ktrain.framework.metrics import Metrics
from ktrain.framework.metrics.controller import ControllerMetrics
from ktrain.framework.serving.health import MetricsServer

from ..waiting import until

ENDPOINTS = Resource("", "v1", "Endpoints", "endpoints", namespaced=True, type=dict)


def own_address():
    """Return an address of this machine that Endpoints may have: not loopback. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return probe.getsockname()[0]


async def test_the_api_server_fetches_metrics_from_the_service(control_plane):
    if not control_plane.is_real:
        pytest.skip("the embedded server has no proxy of Services")
    client, namespace, registry = control_plane.client(), control_plane.namespace, CollectorRegistry()
    ControllerMetrics.of(Metrics(registry), "trainjob_controller").result("success")
    metrics = MetricsServer(own_address(), 0, registry)
    labels = {"trainer.kubeflow.org/implementation": "ktrain"}
    where = {"name": "manager", "namespace": namespace}
    async with anyio.create_task_group() as tasks:
        await tasks.start(metrics.run)
        port = {"name": "metrics", "port": metrics.port}
        service = {"metadata": {**where, "labels": labels}, "spec": {"ports": [{**port, "port": 8080}]}}
        await client.create(untyped(SERVICES), {"apiVersion": "v1", "kind": "Service", **service})
        pod = {"metadata": where, "spec": {"containers": [{"name": "manager", "image": "i"}]}}
        await client.create(PODS, {"apiVersion": "v1", "kind": "Pod", **pod})
        status = {"podIP": metrics.host, "podIPs": [{"ip": metrics.host}]}
        await client.patch(PODS, Key(namespace, "manager"), {"status": status}, subresource="status")
        # What a controller makes for a Service with a selector; the proxy asks pods only.
        address = {"ip": metrics.host, "targetRef": {"kind": "Pod", "name": "manager", "namespace": namespace}}
        subset = {"addresses": [address], "ports": [port]}
        endpoints = {"apiVersion": "v1", "kind": "Endpoints", "metadata": where, "subsets": [subset]}
        await client.create(ENDPOINTS, endpoints)
        source = await find_source(client)
        found = await until(source.scrape, despite=(NoMetrics,))
        tasks.cancel_scope.cancel()

    assert str(source) == f"/api/v1/namespaces/{namespace}/services/http:manager:metrics/proxy/metrics"
    assert found.total("controller_runtime_reconcile_total", controller="trainjob_controller") == 1
