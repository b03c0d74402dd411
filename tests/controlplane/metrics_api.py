"""
A stand-in of the resource metrics API (metrics.k8s.io), behind a real kube-apiserver's aggregation layer.

An APIService names a Service of type ExternalName, `localhost`, so kube-apiserver proxies the group to a socket of the
test. The pods are those that the autoscaler's label selector finds; the test says how much each of them uses.
"""

import ssl
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from ktrain.api.core import PODS, untyped
from ktrain.api.meta import Key, Object, Resource, format_time
from ktrain.local.apiserver.front.certificates import self_signed

GROUP = "/apis/metrics.k8s.io/v1beta1"
SERVICES = Resource("", "v1", "Service", "services", namespaced=True, type=Object)
API_SERVICES = Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False, type=Object)
NAME = "v1beta1.metrics.k8s.io"


class MetricsApi:
    """Serves what every pod uses: `usage`, an amount of CPU; None: nothing is known of any pod."""

    def __init__(self, plane) -> None:
        self._plane = plane
        self.usage = None
        self.selectors = set()

    async def resources(self, _request):
        pods = {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
        head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1"}
        return web.json_response({**head, "resources": [pods]})

    async def pods(self, request):
        selector = request.query.get("labelSelector", "")
        self.selectors.add(selector)
        namespace = request.match_info["namespace"]
        found = await self._plane.client().list(untyped(PODS), namespace, label_selector=selector)
        items = [self._metrics(pod) for pod in found.items] if self.usage else []
        return web.json_response(
            {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}
        )

    def _metrics(self, pod):
        containers = [{"name": c["name"], "usage": {"cpu": self.usage}} for c in pod["spec"]["containers"]]
        meta = {key: pod["metadata"][key] for key in ("name", "namespace", "labels")}
        now = format_time(self._plane.env.clock.now())
        return {"metadata": meta, "timestamp": now, "window": "10s", "containers": containers}


@asynccontextmanager
async def serving_metrics(plane):
    """Serve the API and register it; yields the `MetricsApi`."""
    api = MetricsApi(plane)
    app = web.Application()
    app.router.add_get(GROUP, api.resources)
    app.router.add_get(GROUP + "/namespaces/{namespace}/pods", api.pods)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=_tls(plane))
        await site.start()
        ((_, port),) = runner.addresses
        await _register(plane, port)
        try:
            yield api
        finally:
            await plane.client().delete(API_SERVICES, Key("", NAME))
    finally:
        await runner.cleanup()


def _tls(plane):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    identity = self_signed("127.0.0.1", now=plane.env.clock.now())
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "pem"
        file.write_bytes(identity.pem)
        context.load_cert_chain(file)
    return context


async def _register(plane, port):
    client, name = plane.client(), "metrics"
    service = {"type": "ExternalName", "externalName": "localhost"}
    meta = {"name": name, "namespace": plane.namespace}
    await client.create(SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": service})
    spec = {
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "service": {"namespace": plane.namespace, "name": name, "port": port},
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
    }
    head = {"apiVersion": API_SERVICES.api_version, "kind": API_SERVICES.kind}
    await client.create(API_SERVICES, {**head, "metadata": {"name": NAME}, "spec": spec})
    await plane.wait_for(
        untyped(API_SERVICES),
        NAME,
        lambda found: any(
            c["type"] == "Available" and c["status"] == "True"
            for c in ((found or {}).get("status") or {}).get("conditions", ())
        ),
    )
