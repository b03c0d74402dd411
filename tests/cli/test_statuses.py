"""Reports of progress in the operator: on with their feature gate, and wired as the file says."""

import socket
import ssl
from base64 import b64decode
from datetime import UTC, datetime, timedelta

import aiohttp
import anyio
import pytest
from msgspec import json

from ktrain.api import assets
from ktrain.api.core import SECRETS, untyped
from ktrain.cli.certificates import manage_certificates
from ktrain.cli.config import CertManagement, Configuration, StatusServer, Webhook
from ktrain.cli.statuses import add_status_server, server_url
from ktrain.controllers import statusserver
from ktrain.framework import Operator, Settings, system_env
from ktrain.framework.election import lease
from ktrain.framework.webhook import Allowed
from ktrain.framework.webhook.authority import issue
from ktrain.local.apiserver.server import ApiServer

from ..waiting import until

PLUGIN = "TrainJobStatus"


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [
        ("", "https://kubeflow-trainer-controller-manager.kubeflow-system.svc:10443"),
        ("ops", "https://kubeflow-trainer-controller-manager.ops.svc:10443"),
    ],
)
def test_pods_reach_the_server_by_the_service_in_the_operators_namespace(monkeypatch, tmp_path, namespace, expected):
    monkeypatch.setenv("POD_NAMESPACE", namespace)
    monkeypatch.setattr(lease, "NAMESPACE_FILE", tmp_path / "namespace")  # outside of a pod

    assert server_url(Configuration()) == expected


def test_service_and_port_are_what_the_file_says(monkeypatch):
    monkeypatch.setenv("POD_NAMESPACE", "ops")
    configuration = Configuration(
        cert_management=CertManagement(webhook_service_name="trainer"), status_server=StatusServer(port=1234)
    )

    assert server_url(configuration) == "https://trainer.ops.svc:1234"


@pytest.mark.parametrize("gates", [{}, {PLUGIN: False}])
async def test_while_the_gate_is_off_there_is_no_server_and_the_plugin_is_told_nothing(gates):
    operator = Operator("x", Settings(owns_process=False), transport=ApiServer(system_env()).transport())
    async with operator as op:
        assert add_status_server(op, Configuration(feature_gates=gates)) == {}
        assert not any(isinstance(one, statusserver.StatusServer) for one in op._runnables)


async def test_with_the_gate_it_serves_in_every_replica_and_pods_are_given_its_ca(tmp_path, monkeypatch):
    monkeypatch.setattr(statusserver.authority, "RELOAD_S", 0.05)
    pairs = [issue(["localhost"], now=datetime.now(UTC), lifetime=timedelta(hours=1)) for _ in range(2)]
    (tmp_path / "tls.crt").write_bytes(pairs[0].pair.certificate)
    (tmp_path / "tls.key").write_bytes(pairs[0].pair.key)
    (tmp_path / "ca.crt").write_bytes(pairs[0].ca)
    configuration = Configuration(
        feature_gates={PLUGIN: True},
        webhook=Webhook(cert_dir=str(tmp_path), host="127.0.0.1"),
        status_server=StatusServer(port=0),
    )
    settings = Settings(owns_process=False, leader_election="lease", namespace="default", health_address="127.0.0.1:0")
    api_server = ApiServer(system_env(), crds=assets.crds())
    async with Operator("x", settings, transport=api_server.transport()) as op, anyio.create_task_group() as tasks:
        plugins = add_status_server(op, configuration)
        server = next(one for one in op._runnables if isinstance(one, statusserver.StatusServer))
        await tasks.start(op.run)
        trusting = ssl.create_default_context(cadata=pairs[0].ca.decode())
        async with aiohttp.ClientSession() as session:
            url = f"https://localhost:{server.port}/apis"
            await until(lambda: server.check() is None, within_s=10)
            async with session.post(url, ssl=trusting) as answer:
                assert (answer.status, json.decode(await answer.read())["message"]) == (404, "Not found")
            for probe in ("healthz", "readyz"):
                url = f"http://127.0.0.1:{op.servers.health.port}/{probe}/status-server-{probe}"
                async with session.get(url) as answer:
                    assert answer.status == 200
        assert plugins[PLUGIN]["ca"] == pairs[0].ca.decode()
        (tmp_path / "ca.crt").write_bytes(pairs[1].ca)
        await until(lambda: plugins[PLUGIN]["ca"] == pairs[1].ca.decode(), within_s=10)
        op.stop()


async def test_with_certificates_of_the_operators_own_it_serves_the_webhooks_and_pods_are_given_their_ca(monkeypatch):
    monkeypatch.setattr(statusserver.authority, "RELOAD_S", 0.05)
    monkeypatch.setenv("POD_NAMESPACE", "default")
    configuration = Configuration(
        feature_gates={PLUGIN: True},
        webhook=Webhook(enable=True, host="127.0.0.1"),
        cert_management=CertManagement(enable=True, webhook_service_name="trainer", webhook_secret_name="certificate"),
        status_server=StatusServer(port=0),
    )
    settings = Settings(owns_process=False, namespace="of-the-lease", webhook_address="127.0.0.1:0")
    api_server = ApiServer(system_env(), crds=assets.crds())
    async with Operator("x", settings, transport=api_server.transport()) as op, anyio.create_task_group() as tasks:
        managed = manage_certificates(op, configuration)
        op.admission("/nothing", lambda _: Allowed())
        plugins = add_status_server(op, configuration, managed)
        server = next(one for one in op._runnables if isinstance(one, statusserver.StatusServer))
        await tasks.start(op.run)
        await until(lambda: server.check() is None and plugins[PLUGIN]["ca"], within_s=10)
        secret = await op.client.get(untyped(SECRETS), "certificate", "default")
        assert b64decode(secret["data"]["ca.crt"]).decode() == plugins[PLUGIN]["ca"]
        trusting = ssl.create_default_context(cadata=plugins[PLUGIN]["ca"])
        certificates = [
            await anyio.to_thread.run_sync(served, port, trusting) for port in (server.port, op.servers.webhooks.port)
        ]
        assert certificates[0] == certificates[1] is not None
        op.stop()


def served(port, trusting):
    """The certificate at a port of this host, in whose name pods and API servers come."""
    with (
        socket.create_connection(("127.0.0.1", port), 10) as plain,
        trusting.wrap_socket(plain, server_hostname="trainer.default.svc") as connection,
    ):
        return connection.getpeercert(binary_form=True)
