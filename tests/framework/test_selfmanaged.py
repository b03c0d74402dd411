"""Certificates that a webhook manages itself: made, renewed and announced while admission goes on."""

import asyncio
import base64
import ssl
from datetime import UTC, datetime, timedelta

import aiohttp
import anyio
import pytest
import structlog
from cryptography import x509
from prometheus_client import CollectorRegistry

from ktrain.framework.client.client import Client
from ktrain.framework.env import Env, SystemClock, system_env
from ktrain.framework.errors import Forbidden
from ktrain.framework.metrics import Metrics
from ktrain.framework.webhook import (
    Allowed,
    Registrations,
    SelfManagedCertificates,
    WebhookAddress,
    WebhookServer,
)
from ktrain.framework.webhook.authority import split_bundle
from ktrain.framework.webhook.injection import (
    VALIDATING_WEBHOOK_CONFIGURATIONS,
)
from ktrain.local.apiserver.server import ApiServer

from .rotating import SECRET, SERVICE, configuration, entry, on_a_plane


def test_replicas_that_start_at_once_agree_on_one_pair_and_all_registrations_trust_it():
    async def scenario(plane):
        async with anyio.create_task_group() as starting:
            for n in range(8):
                starting.start_soon(plane.replica, n)
        assert len(plane.serving) == 8
        assert len(set(plane.serving.values())) == 1
        assert await plane.trusted()
        data = await plane.secret()
        assert set(data) == {"tls.crt", "tls.key", "ca.crt"}
        return x509.load_pem_x509_certificate(base64.b64decode(data["tls.crt"]))

    certificate = on_a_plane(scenario)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [
        "hook",
        "hook.default",
        "hook.default.svc",
        "hook.default.svc.cluster.local",
    ]


def test_certificates_are_renewed_again_and_again_and_no_admission_fails():
    async def scenario(plane):
        for n in range(3):
            await plane.replica(n, lifetime=timedelta(hours=1), overlap=timedelta(minutes=5))
        seen = set()
        for _ in range(14 * 10):
            await plane.env.clock.sleep(60)
            assert await plane.trusted()
            seen |= {pair.certificate for pair in plane.serving.values()}
        assert len(split_bundle((await plane.bundles())["MutatingWebhookConfiguration"])) <= 2
        return len(seen), len(plane.transport.writes)

    pairs, writes = on_a_plane(scenario)
    assert pairs == 4  # one each three quarters of an hour
    assert writes < pairs * 20


def test_a_new_ca_is_trusted_everywhere_before_its_certificate_is_served():
    async def scenario(plane):
        await plane.replica("a")
        old = plane.serving["a"]
        await plane.env.clock.sleep(4.1 * 3600)
        assert len(split_bundle((await plane.bundles())["ValidatingWebhookConfiguration"])) == 2
        assert set(await plane.secret()) == {"tls.crt", "tls.key", "ca.crt", "next.crt", "next.key"}
        assert plane.serving["a"] == old
        await plane.env.clock.sleep(35 * 60)
        assert plane.serving["a"] != old

    on_a_plane(scenario)


def test_a_certificate_is_not_served_while_its_ca_could_not_be_announced():
    async def scenario(plane):
        await plane.replica("a")
        old = plane.serving["a"]
        plane.transport.refuse = lambda method, path: method in ("PATCH", "PUT") and "mutating" in path
        await plane.env.clock.sleep(5.5 * 3600)
        assert plane.serving["a"] == old
        assert await plane.trusted()
        plane.transport.refuse = None
        await plane.env.clock.sleep(180)
        assert plane.serving["a"] != old
        assert await plane.trusted()

    on_a_plane(scenario)


def test_a_missing_right_ends_the_start_and_is_logged_later():
    async def scenario(plane):
        plane.transport.refuse = lambda method, path: "secrets" in path
        with pytest.raises(Forbidden, match="you may not"):
            await plane.source().run(None)
        plane.transport.refuse = None
        await plane.replica("a")
        plane.transport.refuse = lambda method, path: "secrets" in path
        with structlog.testing.capture_logs() as logs:
            await plane.env.clock.sleep(120)
        return {line["event"] for line in logs}, await plane.trusted()

    events, trusted = on_a_plane(scenario)
    assert events == {"webhook.certificate_unavailable"}
    assert trusted


def test_no_key_is_ever_logged():
    async def scenario(plane):
        with structlog.testing.capture_logs() as logs:
            await plane.replica("a")
            await plane.env.clock.sleep(5 * 3600)
        return logs, plane.serving["a"], repr(plane.serving)

    logs, pair, shown = on_a_plane(scenario)
    assert {"webhook.certificate_rotated", "webhook.certificate_served", "webhook.ca_injected"} <= {
        line["event"] for line in logs
    }
    assert "PRIVATE" not in shown + repr(logs)
    assert b"PRIVATE" in pair.key


def test_steps_injections_and_the_expiry_are_metrics():
    registry = CollectorRegistry()

    async def scenario(plane):
        await plane.replica("a", metrics=Metrics(registry))
        before = registry.get_sample_value("ktrain_webhook_certificate_expiry_timestamp_seconds")
        assert before == plane.env.clock.now().timestamp() // 1 + 6 * 3600
        await plane.env.clock.sleep(5 * 3600)

    on_a_plane(scenario)
    for step in ("created", "announced", "promoted"):
        assert registry.get_sample_value("ktrain_webhook_certificate_steps_total", {"step": step}) == 1
    assert registry.get_sample_value("ktrain_webhook_ca_injections_total") == 4
    assert registry.get_sample_value("ktrain_webhook_ca_injection_errors_total") == 0


def test_an_overlap_must_fit_into_the_time_between_renewal_and_expiry():
    with pytest.raises(ValueError, match="too long"):
        SelfManagedCertificates(
            None, None, secret=SECRET, address=SERVICE, lifetime=timedelta(hours=1), overlap=timedelta(hours=1)
        )


class MovedClock(SystemClock):
    """A wall clock that tests set, and sleeps that end when they say."""

    def __init__(self, now):
        self.at = now
        self.step = asyncio.Event()
        self.asleep = asyncio.Event()

    def now(self):
        return self.at

    async def sleep(self, seconds):
        self.asleep.set()
        await self.step.wait()

    def monotonic(self):
        return self.at.timestamp()

    async def move(self, by):
        self.at += by
        step, self.step, self.asleep = self.step, asyncio.Event(), asyncio.Event()
        step.set()
        await self.asleep.wait()


async def test_requests_that_trust_only_what_is_registered_pass_while_a_real_server_rotates():
    here = WebhookAddress.of_hosts("127.0.0.1")
    registered = Registrations(validating=("ours",))
    clock = MovedClock(datetime.now(UTC) - timedelta(days=61))
    api = ApiServer(system_env())
    client = Client(api.transport(), system_env(), field_manager="t")
    kind = VALIDATING_WEBHOOK_CONFIGURATIONS
    await client.create(kind, configuration(kind, entry("ours", url="https://127.0.0.1/validate")))
    source = SelfManagedCertificates(client, Env(clock), secret=SECRET, address=here, registrations=registered)
    server = WebhookServer({"/validate": lambda _: Allowed()}, source, system_env(), host="127.0.0.1", port=0)
    request = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u"}}
    passed, certificates = 0, set()

    async def admit():
        bundle = (await client.get(kind, "ours"))["webhooks"][0]["clientConfig"]["caBundle"]
        tls = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
        tls.verify_flags |= ssl.VERIFY_X509_STRICT
        url = f"https://127.0.0.1:{server.port}/validate"
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session,
            session.post(url, json=request) as answer,
        ):
            assert (await answer.json())["response"]["allowed"]
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls)
        certificates.add(writer.get_extra_info("peercert")["serialNumber"])
        writer.transport.abort()

    async with anyio.create_task_group() as tasks:
        await tasks.start(server.run)
        await clock.asleep.wait()
        for by in (timedelta(), timedelta(days=61), *[timedelta(minutes=20)] * 5):
            await clock.move(by)
            await admit()
            passed += 1
        tasks.cancel_scope.cancel()
    assert (passed, len(certificates)) == (7, 2)
