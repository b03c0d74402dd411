"""`ktrain operator` with the file and the Secret of Kubeflow Trainer 2.3: its callers know whom to trust."""

import asyncio
import base64
import contextlib
import socket
import ssl
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import yaml

from ktrain.api.core import SECRETS, untyped
from ktrain.api.documents import resource_of
from ktrain.api.meta import Key
from ktrain.framework.errors import NotFound
from ktrain.framework.webhook.authority import issue
from ktrain.framework.webhook.injection import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS

from ..waiting import until
from .processes import end, operating

pytestmark = pytest.mark.e2e
REGISTRATIONS = Path(__file__).parents[2] / "config" / "trainer" / "webhooks.yaml"
STOCK = Path(__file__).parents[1] / "cli" / "data" / "kubeflow-trainer-2.3.yaml"
SERVICE = "trainer"
SECRET = "kubeflow-trainer-webhook-cert"
KINDS = (MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS)


@pytest.fixture
async def registrations(control_plane):
    """Our manifest, for a Service of this namespace; nobody is there, so the server may go on without an answer."""
    client = control_plane.client()
    documents = list(yaml.safe_load_all(REGISTRATIONS.read_text()))
    for document in documents:
        for webhook in document["webhooks"]:
            webhook["clientConfig"]["service"] |= {"namespace": control_plane.namespace, "name": SERVICE}
            webhook["failurePolicy"] = "Ignore"
        await client.apply(resource_of(document), document)
    yield [(kind, document["metadata"]["name"]) for kind, document in zip(KINDS, documents, strict=True)]
    for kind, document in zip(KINDS, documents, strict=True):
        with contextlib.suppress(NotFound):
            await client.delete(kind, Key("", document["metadata"]["name"]))


@pytest.fixture
async def authority(control_plane):
    """The CA of the certificate that Kubeflow's operator served with, in the Secret that it leaves."""
    made = issue([f"{SERVICE}.{control_plane.namespace}.svc"], now=datetime.now(UTC), lifetime=timedelta(days=3650))
    parts = {"ca.crt": made.ca, "ca.key": b"key", "tls.crt": made.pair.certificate, "tls.key": made.pair.key}
    data = {name: base64.b64encode(part).decode() for name, part in parts.items()}
    metadata = {"name": SECRET, "namespace": control_plane.namespace}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    await control_plane.client().create(untyped(SECRETS), secret)
    return made.ca.decode()


@pytest.fixture
def with_service(control_plane, tmp_path, unused_tcp_port):
    """
    `async with with_service(NAME, *options) as port:` runs the operator for this Service, with its webhooks at a port.

    What the file says is changed where tests on one machine would meet.
    """

    @contextlib.asynccontextmanager
    async def run(service, *more):
        configuration = yaml.safe_load(STOCK.read_text())
        configuration["webhook"] |= {"host": "127.0.0.1", "port": unused_tcp_port}
        configuration["certManagement"]["webhookServiceName"] = service
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(configuration))
        options = ("--config", tmp_path / "config.yaml", "--zap-log-level=2", *more)
        kubeconfig = await control_plane.kubeconfig()
        async with operating(control_plane, kubeconfig, *options, log=tmp_path / "operator.log") as process:
            yield unused_tcp_port
            await end(process)

    return run


async def bundle(client, kind, name):
    """The CA that all webhooks of a configuration are called with, as soon as they have one."""

    async def bundles():
        return {entry["clientConfig"].get("caBundle") for entry in (await client.get(kind, name))["webhooks"]}

    (found,) = await until(bundles, all, within_s=60)
    return base64.b64decode(found).decode()


def served_as(host, port, authorities):
    """Whether somebody is there yet. An SSLError if it is not who it should be."""
    context = ssl.create_default_context(cadata=authorities)
    try:
        with (
            socket.create_connection(("127.0.0.1", port), 10) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except ConnectionRefusedError:
        return False


async def test_api_servers_are_told_whom_to_trust(control_plane, registrations, authority, with_service):
    async with with_service(SERVICE) as port:
        for kind, name in registrations:
            authorities = await bundle(control_plane.client(), kind, name)
            assert authority in authorities
            host = f"{SERVICE}.{control_plane.namespace}.svc"
            await until(partial(asyncio.to_thread, served_as, host, port, authorities))


def readiness(port):
    """Return what `/readyz` answers; empty before there is an answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.read().decode()
    except OSError:
        return ""


async def test_a_service_that_the_registrations_do_not_name_is_reported(
    control_plane, registrations, authority, with_service, unused_tcp_port_factory, tmp_path
):
    port, namespace = unused_tcp_port_factory(), control_plane.namespace
    async with with_service("renamed", f"--health-probe-bind-address=127.0.0.1:{port}"):
        said = await until(
            partial(asyncio.to_thread, readiness, port), lambda text: text.count("calls Service") == 2, within_s=60
        )

    for kind, name in registrations:
        problem = f"{kind.kind} {name} calls Service {namespace}/{SERVICE}, and not Service {namespace}/renamed"
        assert problem in said
        assert problem in (tmp_path / "operator.log").read_text()
        for webhook in (await control_plane.client().get(kind, name))["webhooks"]:
            assert "caBundle" not in webhook["clientConfig"]
