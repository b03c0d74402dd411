import asyncio
import base64
import ssl
from datetime import UTC, datetime, timedelta

import aiohttp
import anyio
import msgspec
import pytest
import structlog
from cryptography import x509
from prometheus_client import CollectorRegistry

from ktrain.api.core import SECRETS, untyped
from ktrain.api.meta import Key
from ktrain.framework.client.client import Client
from ktrain.framework.client.transport import Response
from ktrain.framework.env import Env, SystemClock, system_env
from ktrain.framework.errors import ConfigError, Forbidden
from ktrain.framework.metrics import Metrics
from ktrain.framework.metrics.webhook import RotationMetrics
from ktrain.framework.webhook import (
    Allowed,
    Registrations,
    SelfManagedCertificates,
    WebhookAddress,
    WebhookServer,
)
from ktrain.framework.webhook.authority import split_bundle
from ktrain.framework.webhook.injection import (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Injector,
)
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.time import simulate

SECRET = Key("default", "webhook")
SERVICE = WebhookAddress.of_service("default", "hook")
EVERYWHERE = Registrations(validating=("ours",), mutating=("ours",))
HOURS = {"lifetime": timedelta(hours=6), "overlap": timedelta(minutes=30)}
SECRET_RESOURCE = untyped(SECRETS)


def entry(name, **client_config):
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    settings = {"sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": rules}
    return {"name": f"{name}.example.com", "clientConfig": client_config, **settings}


def configuration(resource, *webhooks, name="ours"):
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }


async def register(client):
    ours = entry("ours", service={"namespace": "default", "name": "hook"})
    theirs = entry("theirs", service={"namespace": "default", "name": "other"})
    for resource in (VALIDATING_WEBHOOK_CONFIGURATIONS, MUTATING_WEBHOOK_CONFIGURATIONS):
        await client.create(resource, configuration(resource, theirs, ours))


class Counting:
    """A transport that counts what is not a GET and, while told to, refuses what it is told to."""

    def __init__(self, inner):
        self._inner = inner
        self.writes = []
        self.refuse = None

    async def request(self, method, path, **options):
        if self.refuse is not None and self.refuse(method, path):
            return Response(403, {}, b'{"kind":"Status","message":"you may not"}')
        if method != "GET":
            self.writes.append((method, path))
        await asyncio.sleep(0.01)
        return await self._inner.request(method, path, **options)


class Plane:
    """An embedded API server, and replicas of a webhook beside it."""

    def __init__(self, env, tasks):
        self.env = env
        self.tasks = tasks
        self.server = ApiServer(env)
        self.client = Client(self.server.transport(), env, field_manager="admin")
        self.transport = Counting(self.server.transport())
        self.serving = {}

    def source(self, **options):
        client = Client(self.transport, self.env, field_manager="webhook")
        settings = {"secret": SECRET, "address": SERVICE, "registrations": EVERYWHERE, **HOURS, **options}
        return SelfManagedCertificates(client, self.env, **settings)

    async def replica(self, name, **options):
        async def use(pair):
            self.serving[name] = pair

        return await self.tasks.start(self.source(**options).run, use)

    async def secret(self):
        return (await self.client.get(SECRET_RESOURCE, SECRET.name, SECRET.namespace))["data"]

    async def bundles(self):
        """What the registrations carry for us, by kind."""
        found = {}
        for resource in (VALIDATING_WEBHOOK_CONFIGURATIONS, MUTATING_WEBHOOK_CONFIGURATIONS):
            webhooks = (await self.client.get(resource, "ours"))["webhooks"]
            assert "caBundle" not in webhooks[0]["clientConfig"]
            found[resource.kind] = webhooks[1]["clientConfig"].get("caBundle", "")
        return {kind: base64.b64decode(bundle) for kind, bundle in found.items()}

    async def trusted(self):
        """Whether an API server that knows the registrations would trust every replica now."""
        now = self.env.clock.now()
        for bundle in (await self.bundles()).values():
            authorities = [x509.load_pem_x509_certificate(one) for one in split_bundle(bundle)]
            for pair in self.serving.values():
                certificate = x509.load_pem_x509_certificate(pair.certificate)
                if not any(is_issuer(certificate, one, now) for one in authorities):
                    return False
        return True


def is_issuer(certificate, authority, now):
    if authority.subject != certificate.issuer:
        return False
    certificate.verify_directly_issued_by(authority)
    return all(one.not_valid_before_utc <= now < one.not_valid_after_utc for one in (certificate, authority))


def on_a_plane(scenario):
    async def run(env):
        async with anyio.create_task_group() as tasks:
            plane = Plane(env, tasks)
            await register(plane.client)
            result = await scenario(plane)
            tasks.cancel_scope.cancel()
        return result

    return simulate(run)


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
            await plane.replica(n)
        seen = set()
        for _ in range(14 * 60):
            await plane.env.clock.sleep(60)
            assert await plane.trusted()
            seen |= {pair.certificate for pair in plane.serving.values()}
        assert len(split_bundle((await plane.bundles())["MutatingWebhookConfiguration"])) <= 2
        return len(seen), len(plane.transport.writes)

    pairs, writes = on_a_plane(scenario)
    assert pairs == 4  # one each four and a half hours
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
        plane.transport.refuse = lambda method, path: method == "PATCH" and "mutating" in path
        await plane.env.clock.sleep(5.5 * 3600)
        assert plane.serving["a"] == old
        assert await plane.trusted()
        plane.transport.refuse = None
        await plane.env.clock.sleep(180)
        assert plane.serving["a"] != old
        assert await plane.trusted()

    on_a_plane(scenario)


def test_a_secret_deleted_by_hand_comes_back_renewed_and_no_admission_fails():
    async def scenario(plane):
        for n in range(3):
            await plane.replica(n)
        old = plane.serving[0]
        await plane.client.delete(SECRET_RESOURCE, SECRET)
        for _ in range(60):
            await plane.env.clock.sleep(60)
            assert await plane.trusted()
        assert len(set(plane.serving.values())) == 1
        return old, plane.serving[0]

    old, new = on_a_plane(scenario)
    assert old != new


@pytest.mark.parametrize(
    "damage", [{"tls.key": "bm8="}, {"tls.crt": "bm8="}, {"ca.crt": ""}, {"tls.crt": ""}, {"ca.crt": None}]
)
def test_a_damaged_secret_is_repaired(damage):
    async def scenario(plane):
        await plane.replica("a")
        await plane.client.patch(SECRET_RESOURCE, SECRET, {"data": damage})
        for _ in range(60):
            await plane.env.clock.sleep(60)
            assert await plane.trusted()
        return await plane.secret()

    assert set(on_a_plane(scenario)) == {"tls.crt", "tls.key", "ca.crt"}


def test_a_registration_whose_bundle_was_lost_gets_it_back_and_nothing_else_is_written():
    async def scenario(plane):
        for n in range(3):
            await plane.replica(n)
        await plane.env.clock.sleep(120)
        kind = VALIDATING_WEBHOOK_CONFIGURATIONS
        body = await plane.client.get(kind, "ours")
        del body["webhooks"][1]["clientConfig"]["caBundle"]
        plane.transport.writes.clear()
        await plane.client.update(kind, body)
        await plane.env.clock.sleep(600)
        assert await plane.trusted()
        return plane.transport.writes

    (write,) = on_a_plane(scenario)
    assert write == ("PATCH", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/ours")


def test_a_registration_made_later_is_found():
    async def scenario(plane):
        await plane.client.delete(MUTATING_WEBHOOK_CONFIGURATIONS, Key("", "ours"))
        await plane.replica("a")
        ours = entry("ours", service={"namespace": "default", "name": "hook"})
        theirs = entry("theirs", url="https://elsewhere.example.com/")
        kind = MUTATING_WEBHOOK_CONFIGURATIONS
        await plane.client.create(kind, configuration(kind, theirs, ours))
        await plane.env.clock.sleep(70)
        return await plane.trusted()

    assert on_a_plane(scenario)


def test_another_name_means_another_certificate_at_once():
    async def scenario(plane):
        await plane.replica("a")
        old = plane.serving["a"]
        await plane.replica("b", address=WebhookAddress(("new.example.com", *SERVICE.names), SERVICE.service))
        return old, plane.serving["b"], await plane.trusted()

    old, new, trusted = on_a_plane(scenario)
    assert old != new
    assert trusted


def test_an_expired_certificate_is_replaced_at_the_start():
    async def scenario(plane):
        with anyio.CancelScope() as life:
            async with anyio.create_task_group() as plane.tasks:
                await plane.replica("a")
                life.cancel()
        await plane.env.clock.sleep(10 * 3600)
        async with anyio.create_task_group() as plane.tasks:
            await plane.replica("a")
            assert await plane.trusted()
            assert len(split_bundle((await plane.bundles())["MutatingWebhookConfiguration"])) == 1
            plane.tasks.cancel_scope.cancel()

    on_a_plane(scenario)


def test_a_secret_of_somebody_else_is_left_alone_and_an_empty_one_adopted():
    async def scenario(plane):
        meta = {"name": SECRET.name, "namespace": SECRET.namespace}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"tls.crt": "bm8="}}
        await plane.client.create(SECRET_RESOURCE, body)
        with pytest.raises(ConfigError, match="Secret default/webhook holds something else"):
            await plane.source().run(None)
        assert await plane.secret() == {"tls.crt": "bm8="}
        await plane.client.patch(SECRET_RESOURCE, SECRET, {"data": None})
        await plane.replica("a")
        return await plane.trusted()

    assert on_a_plane(scenario)


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


def conversion(strategy="Webhook", **client_config):
    webhook = {"clientConfig": {"service": {"namespace": "default", "name": "hook"}, **client_config}}
    return {"spec": {"conversion": {"strategy": strategy, **({"webhook": webhook} if strategy == "Webhook" else {})}}}


@pytest.mark.parametrize(
    ("definition", "patched"),
    [
        (conversion(), True),
        (conversion(caBundle="Zm9v"), True),
        (conversion(caBundle="YnVuZGxl"), False),
        (conversion("None"), False),
        ({"spec": {}}, False),
    ],
)
def test_a_definition_gets_the_bundle_where_it_converts_by_this_webhook(script, definition, patched):
    async def scenario(env):
        script.answers += [(200, definition), (200, {})]
        registrations = Registrations(definitions=("sites.example.com",))
        client = Client(script, env, field_manager="t")
        return await Injector(client, SERVICE, registrations, RotationMetrics()).inject(b"bundle")

    assert simulate(scenario)
    written = [msgspec.json.decode(call.body) for call in script.calls if call.method == "PATCH"]
    path = "/spec/conversion/webhook/clientConfig/caBundle"
    test = {"op": "test", "path": "/spec/conversion/strategy", "value": "Webhook"}
    assert written == ([[test, {"op": "add", "path": path, "value": "YnVuZGxl"}]] if patched else [])


@pytest.mark.parametrize(
    ("address", "config", "ours"),
    [
        (SERVICE, {"service": {"namespace": "default", "name": "hook"}}, True),
        (SERVICE, {"service": {"namespace": "other", "name": "hook"}}, False),
        (SERVICE, {"url": "https://hook.default.svc/x"}, False),
        (WebhookAddress.of_hosts("Hook.example.com"), {"url": "https://hook.example.com:9443/x"}, True),
        (WebhookAddress.of_hosts("127.0.0.1"), {"url": "https://127.0.0.1:9443"}, True),
        (WebhookAddress.of_hosts("127.0.0.1"), {"service": {"namespace": "default", "name": "hook"}}, False),
        (WebhookAddress.of_hosts("127.0.0.1"), {}, False),
    ],
)
def test_only_entries_that_lead_to_this_webhook_are_its_own(address, config, ours):
    assert address.leads_here(config) is ours


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
