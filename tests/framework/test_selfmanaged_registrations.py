"""Which registrations get the bundle of self-managed certificates."""

import msgspec
import pytest
from structlog.testing import capture_logs

from ktrain.api.meta import Key
from ktrain.framework.client.client import Client
from ktrain.framework.metrics.webhook import RotationMetrics
from ktrain.framework.webhook import (
    Registrations,
    WebhookAddress,
)
from ktrain.framework.webhook.injection import (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Injector,
)
from ktrain.testing.time import simulate

from .rotating import SERVICE, configuration, entry, on_a_plane


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


def test_whoever_may_update_registrations_and_not_patch_them_writes_the_bundle_all_the_same():
    """Roles that were made for operators in Go say so."""

    async def scenario(plane):
        plane.transport.refuse = lambda method, path: method == "PATCH"
        await plane.replica("a")
        await plane.env.clock.sleep(60)
        return await plane.trusted(), [path for method, path in plane.transport.writes if "registration" in path]

    trusted, written = on_a_plane(scenario)
    assert trusted
    assert len(written) == 2


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


def test_a_registration_that_calls_another_service_is_reported_until_it_calls_this_one():
    """Once in the log, and in the check for `/readyz` as long as it is so; the other kind is not concerned."""
    kind = VALIDATING_WEBHOOK_CONFIGURATIONS

    async def scenario(plane):
        source = plane.source()
        await plane.tasks.start(source.run, plane.user("a"))
        right = await plane.client.get(kind, "ours")
        assert source.check() is None
        wrong = [
            {**one, "clientConfig": {"service": {"namespace": "default", "name": "old"}}} for one in right["webhooks"]
        ]
        await plane.client.update(kind, {**right, "webhooks": wrong})
        await plane.env.clock.sleep(200)
        found = source.check()
        stored = await plane.client.get(kind, "ours")
        await plane.client.update(kind, {**stored, "webhooks": right["webhooks"]})
        await plane.env.clock.sleep(70)
        return found, source.check(), await plane.trusted()

    with capture_logs() as logged:
        found, corrected, trusted = on_a_plane(scenario)
    assert found == (
        "ValidatingWebhookConfiguration ours calls Service default/old, and not Service default/hook: it gets no CA, "
        "and the API server cannot call this webhook; correct one of the two names"
    )
    assert (corrected, trusted) == (None, True)
    (event,) = (one for one in logged if one["event"] == "webhook.registration_elsewhere")
    assert (event["log_level"], event["problem"]) == ("warning", found)


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
