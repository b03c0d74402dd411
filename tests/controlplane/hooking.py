"""Webhooks of the framework, served and registered for one test."""

from contextlib import asynccontextmanager

import anyio

from ktrain.api.core import CUSTOM_RESOURCE_DEFINITIONS, untyped
from ktrain.api.meta import Key, Resource
from ktrain.framework.webhook import Registrations, SelfManagedCertificates, WebhookAddress, WebhookServer
from ktrain.framework.webhook.injection import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS

from ..definitions import definition

DEFINITIONS = untyped(CUSTOM_RESOURCE_DEFINITIONS)
RULES = ({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]},)


def serving_webhooks(control_plane):
    """Return `run(validate=..., mutate=..., conversion=...)`: serves them, and registers them for this namespace."""

    @asynccontextmanager
    async def run(*, validate=None, mutate=None, conversion=None, policy="Fail", timeout_s=5, rules=RULES, **rotation):
        client, name = control_plane.client(), control_plane.namespace
        address = WebhookAddress.of_hosts("127.0.0.1")
        wanted = [
            (VALIDATING_WEBHOOK_CONFIGURATIONS, "/validate", validate),
            (MUTATING_WEBHOOK_CONFIGURATIONS, "/mutate", mutate),
        ]
        handlers = {path: handler for _, path, handler in wanted if handler is not None}
        registrations = Registrations(
            validating=(name,) if validate else (),
            mutating=(name,) if mutate else (),
            definitions=(f"sites.{name}.test",) if conversion else (),
        )
        source = SelfManagedCertificates(
            client,
            control_plane.env,
            secret=Key(name, "webhook"),
            address=address,
            registrations=registrations,
            **{"check_s": 0.3, **rotation},
        )
        server = WebhookServer(handlers, source, control_plane.env, host="127.0.0.1", port=0)
        if conversion is not None:
            server.conversion(conversion)
        made = []
        async with anyio.create_task_group() as tasks:
            await tasks.start(server.run)
            url = f"https://127.0.0.1:{server.port}"
            try:
                for resource, path, handler in wanted:
                    if handler is not None:
                        body = configuration(resource, name, f"{url}{path}", policy, timeout_s, rules)
                        made.append((resource, (await client.create(resource, body))["metadata"]["name"]))
                if conversion is not None:
                    await client.create(DEFINITIONS, converted(f"{name}.test", f"{url}/convert"))
                    made.append((DEFINITIONS, f"sites.{name}.test"))
                for resource, one in made:
                    await control_plane.wait_for(resource, one, carries_bundle)
                yield server
            finally:
                with anyio.CancelScope(shield=True):
                    for resource, one in made:
                        await client.delete(resource, Key("", one))
                tasks.cancel_scope.cancel()

    return run


def configuration(resource, name, url, policy, timeout_s, rules):
    entry = {
        "name": "hook.ktrain.test",
        "clientConfig": {"url": url},
        "rules": rules,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": policy,
        "timeoutSeconds": timeout_s,
    }
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "webhooks": [entry],
    }


def converted(group, url):
    """Sites of two versions, between which a webhook converts."""
    sites = Resource(group, "v2", "Site", "sites", namespaced=True, type=dict)
    webhook = {"clientConfig": {"url": url, "caBundle": ""}, "conversionReviewVersions": ["v1"]}
    return definition(sites, others=("v1",), conversion={"strategy": "Webhook", "webhook": webhook})


def carries_bundle(registration):
    if registration is None:
        return False
    if "webhooks" in registration:
        return bool(registration["webhooks"][0]["clientConfig"].get("caBundle"))
    return bool(registration["spec"]["conversion"]["webhook"]["clientConfig"].get("caBundle"))
