"""Certificates that a webhook manages itself, on an embedded server and in virtual time."""

import asyncio
import base64
from datetime import timedelta

import anyio
from cryptography import x509

from ktrain.api.core import SECRETS, untyped
from ktrain.api.meta import Key
from ktrain.framework.client.client import Client
from ktrain.framework.client.transport import Response
from ktrain.framework.webhook import (
    Registrations,
    SelfManagedCertificates,
    WebhookAddress,
)
from ktrain.framework.webhook.authority import split_bundle
from ktrain.framework.webhook.injection import (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
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
        return await self.tasks.start(self.source(**options).run, self.user(name))

    def user(self, name):
        async def use(pair):
            self.serving[name] = pair

        return use

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
