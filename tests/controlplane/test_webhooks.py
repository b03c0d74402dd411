"""Webhooks of the framework as an API server calls them: by URL, with certificates that they manage themselves."""

from contextlib import suppress
from datetime import timedelta

import anyio
import pytest

from ktrain.api.core import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, SECRETS, untyped
from ktrain.api.meta import Key, Resource
from ktrain.framework.client.client import Client
from ktrain.framework.errors import ApiError, NotFound, ServerError
from ktrain.framework.webhook import (
    Allowed,
    CannotConvert,
    Conversion,
    Denied,
    SelfManagedCertificates,
    WebhookAddress,
    defaulter,
    keep,
    recall,
)
from ktrain.framework.webhook.injection import VALIDATING_WEBHOOK_CONFIGURATIONS

from ..waiting import until

MAPS = untyped(CONFIG_MAPS)
DEFINITIONS = untyped(CUSTOM_RESOURCE_DEFINITIONS)
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


@pytest.fixture
def create(control_plane, config_map):
    """Create a ConfigMap. An API server learns of a new configuration in its own time, so wait for the first effect."""
    client = control_plane.client()

    async def create(name, *, effect, data=None):
        async def attempt():
            try:
                made = await client.create(MAPS, config_map(name, data))
                if not effect(made):
                    # The configuration may begin to count between the two.
                    await client.delete(MAPS, Key(control_plane.namespace, name))
            except ApiError as error:
                return error
            return made

        return await until(attempt, effect)

    return create


def refuse_bad(request):
    if request.operation == "DELETE":
        return Allowed()
    bad = (request.object.get("data") or {}).get("bad")
    return Denied("bad is not good", 422, "Invalid", ({"field": "data.bad", "message": "no"},)) if bad else Allowed()


def default_color(obj):
    obj["data"] = {"color": "blue", **(obj.get("data") or {})}


async def test_a_mutation_is_stored_and_a_denial_says_why(webhooks, create, control_plane):
    client, namespace = control_plane.client(), control_plane.namespace
    async with webhooks(validate=refuse_bad, mutate=defaulter(default_color)):
        made = await create("a", effect=lambda made: isinstance(made, dict) and "color" in made.get("data", {}))
        assert made["data"] == {"color": "blue"}

        refused = await create("b", data={"bad": "1"}, effect=lambda error: isinstance(error, ApiError))
        assert (refused.code, refused.reason) == (422, "Invalid")
        assert 'admission webhook "hook.ktrain.test" denied the request: bad is not good' in str(refused)
        assert [cause.field for cause in refused.status.details.causes] == ["data.bad"]

        await client.delete(MAPS, Key(namespace, "a"))  # neither defaulted nor refused


async def test_a_handler_that_crashes_or_takes_too_long_refuses_with_its_reason(webhooks, create):
    async def handler(request):
        if request.name == "slow":
            await anyio.sleep(30)
        raise KeyError("oops")

    async with webhooks(validate=handler, timeout_s=1):
        crashed = await create("a", effect=lambda error: "the webhook failed: KeyError('oops')" in str(error))
        assert crashed.code == 500
        slow = await create("slow", effect=lambda error: "the webhook did not decide in 0.9 s" in str(error))
        assert slow.code == 504


async def test_a_handler_sees_who_does_what_to_which_object_and_how(webhooks, create, control_plane):
    client, namespace = control_plane.client(), control_plane.namespace
    seen = []

    def handler(request):
        seen.append(request)
        return Allowed(warnings=("careful",))

    async with webhooks(validate=handler):
        await create("a", data={"w": "0"}, effect=lambda made: bool(seen))
        seen.clear()
        await client.patch(MAPS, Key(namespace, "a"), {"data": {"x": "1"}})
        await client.delete(MAPS, Key(namespace, "a"), propagation="Background")
    update, delete = seen
    assert [(one.operation, one.name, one.namespace) for one in seen] == [
        ("UPDATE", "a", namespace),
        ("DELETE", "a", namespace),
    ]
    assert (update.kind.kind, update.resource.resource, update.sub_resource) == ("ConfigMap", "configmaps", "")
    assert (update.object["data"], update.old_object["data"]) == ({"w": "0", "x": "1"}, {"w": "0"})
    assert (update.options["kind"], update.options["fieldManager"]) == ("UpdateOptions", "test")
    assert (delete.object, delete.old_object["data"]) == (None, {"w": "0", "x": "1"})
    assert (delete.options["kind"], delete.options["propagationPolicy"]) == ("DeleteOptions", "Background")
    assert update.user_info.username
    assert "system:authenticated" in update.user_info.groups


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_a_webhook_that_is_gone_stops_writes_or_not_as_its_policy_says(webhooks, create, control_plane, policy):
    client, name = control_plane.client(), control_plane.namespace
    async with webhooks(validate=refuse_bad, policy=policy):
        await create("b", data={"bad": "1"}, effect=lambda error: isinstance(error, ApiError))
        live = await client.get(VALIDATING_WEBHOOK_CONFIGURATIONS, name)
        live["webhooks"][0]["clientConfig"]["url"] = "https://127.0.0.1:1/validate"
        await client.update(VALIDATING_WEBHOOK_CONFIGURATIONS, live)
        if policy == "Ignore":
            await create("b", data={"bad": "1"}, effect=lambda made: isinstance(made, dict))
        else:
            error = await create("a", effect=lambda error: "failed to call webhook" in str(error))
            assert (error.code, error.reason) == (500, "InternalError")
            assert 'failed calling webhook "hook.ktrain.test": failed to call webhook: Post "https://127' in str(error)


def up(site):
    site["spec"] = {"hosts": [site["spec"]["host"]], **recall(site)}
    return site


def down(site):
    hosts = site["spec"]["hosts"]
    if not hosts:
        raise CannotConvert("it has no host")
    site["spec"] = {"host": hosts[0]}
    return keep(site, {"hosts": hosts}) if len(hosts) > 1 else site


async def test_objects_are_converted_between_versions_and_lose_nothing(webhooks, control_plane):
    client, namespace = control_plane.client(), control_plane.namespace
    group = f"{namespace}.test"
    conversion = Conversion(group, "Site", hub="v2")
    conversion.spoke("v1", to_hub=up, from_hub=down)
    old, new = (Resource(group, version, "Site", "sites", namespaced=True, type=dict) for version in ("v1", "v2"))

    def site(resource, name, spec):
        metadata = {"name": name, "namespace": namespace}
        return {"apiVersion": resource.api_version, "kind": "Site", "metadata": metadata, "spec": spec}

    async def served(resource, body):
        # ServerError: a handler of the kind as it was before the CA came ends with what is under way on it.
        return await until(lambda: client.create(resource, body), despite=(NotFound, ServerError))

    async with webhooks(conversion=conversion):
        await served(old, site(old, "a", {"host": "one"}))
        assert (await client.get(new, "a", namespace))["spec"] == {"hosts": ["one"]}

        await served(new, site(new, "b", {"hosts": ["one", "two"]}))
        seen = await client.get(old, "b", namespace)
        assert seen["spec"] == {"host": "one"}
        await client.update(old, seen | {"spec": {"host": "one"}})
        back = await client.get(new, "b", namespace)
        assert back["spec"] == {"hosts": ["one", "two"]}
        assert "annotations" not in back["metadata"]
        assert {one["spec"]["host"] for one in (await client.list(old, namespace)).items} == {"one"}

        await client.create(new, site(new, "c", {"hosts": []}))
        with pytest.raises(ApiError, match=r"Site .*/c of .* cannot be converted to .*/v1: it has no host"):
            await client.get(old, "c", namespace)


async def test_no_request_fails_while_certificates_rotate_and_the_secret_is_deleted(webhooks, create, control_plane):
    client, namespace = control_plane.client(), control_plane.namespace
    quick = {"lifetime": timedelta(seconds=6), "overlap": timedelta(seconds=1)}
    secret = Resource("", "v1", "Secret", "secrets", namespaced=True, type=dict)
    certificates = set()
    async with webhooks(mutate=defaulter(default_color), **quick):
        await create("first", effect=lambda made: isinstance(made, dict) and "data" in made)
        for n in range(40):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"n{n}", "namespace": namespace}}
            made = await client.create(MAPS, body)
            assert made["data"] == {"color": "blue"}
            with suppress(NotFound):
                certificates.add((await client.get(secret, "webhook", namespace))["data"]["tls.crt"])
            if n == 5:
                await client.delete(untyped(SECRETS), Key(namespace, "webhook"))
            await anyio.sleep(0.2)
    assert len(certificates) >= 3


async def test_replicas_that_start_at_once_agree_on_one_pair(control_plane):
    pairs = []

    async def use(pair):
        pairs.append(pair)

    address = WebhookAddress.of_service(control_plane.namespace, "hook")
    async with anyio.create_task_group() as tasks:
        async with anyio.create_task_group() as starting:
            for n in range(6):
                client = Client(control_plane.transport, control_plane.env, field_manager=f"replica-{n}")
                source = SelfManagedCertificates(
                    client, control_plane.env, secret=Key(control_plane.namespace, "webhook"), address=address
                )

                async def start(source=source):
                    await tasks.start(source.run, use)

                starting.start_soon(start)
        tasks.cancel_scope.cancel()
    assert (len(pairs), len(set(pairs))) == (6, 1)
