import asyncio

import pytest

from ktrain.api.core import CONFIG_MAPS, untyped
from ktrain.framework.client.client import Client
from ktrain.framework.env import system_env
from ktrain.framework.errors import Invalid, ServerError
from ktrain.framework.webhook.injection import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS
from ktrain.local.apiserver.server import ApiServer

NOWHERE = {"url": "https://127.0.0.1:1/"}
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}


def entry(**changes):
    settings = {"name": "hook.ktrain.test", "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    return {**settings, "clientConfig": NOWHERE, "rules": [RULE], **changes}


def calls(*entries, resource=VALIDATING_WEBHOOK_CONFIGURATIONS, labels=None):
    """Whether creating a ConfigMap asks a webhook with these settings. Nobody answers, so it fails if it does."""

    async def scenario():
        async with ApiServer(system_env()).running() as server:
            client = Client(server.transport(), system_env(), field_manager="t")
            head = {"apiVersion": resource.api_version, "kind": resource.kind}
            await client.create(resource, {**head, "metadata": {"name": "c"}, "webhooks": list(entries)})
            meta = {"name": "a", "namespace": "default", "labels": labels or {}}
            try:
                await client.create(untyped(CONFIG_MAPS), {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
            except ServerError as error:
                return "failed to call webhook" in str(error)
            return False

    return asyncio.run(scenario())


SELECTED = {"objectSelector": {"matchLabels": {"a": "b"}}}


@pytest.mark.parametrize("resource", [VALIDATING_WEBHOOK_CONFIGURATIONS, MUTATING_WEBHOOK_CONFIGURATIONS])
@pytest.mark.parametrize(
    ("changes", "called"),
    [
        ({}, True),
        ({"rules": [RULE | {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}, True),
        ({"rules": [RULE | {"resources": ["configmaps/*"]}]}, True),
        ({"rules": [RULE | {"resources": ["configmaps/status"]}]}, False),
        ({"rules": [RULE | {"resources": ["secrets"]}]}, False),
        ({"rules": [RULE | {"operations": ["UPDATE"]}]}, False),
        ({"rules": [RULE | {"apiVersions": ["v2"]}]}, False),
        ({"rules": [RULE | {"scope": "Cluster"}]}, False),
        ({"rules": []}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}, False),
        (SELECTED, False),
        ({"failurePolicy": "Ignore"}, False),
        ({"clientConfig": {"service": {"namespace": "default", "name": "hook"}}}, True),
        ({"matchConditions": [{"name": "x", "expression": "true"}]}, True),
        ({"matchConditions": [{"name": "x", "expression": "object.metadata.name == 'b'"}]}, False),
    ],
)
def test_a_webhook_is_called_for_what_its_settings_cover(resource, changes, called):
    assert calls(entry(**changes), resource=resource) is called


def test_an_object_selector_selects():
    assert calls(entry(**SELECTED), labels={"a": "b"})


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "short"}, "webhooks[0].name"),
        ({"admissionReviewVersions": ["v9"]}, "webhooks[0].admissionReviewVersions"),
        ({"sideEffects": "Some"}, "webhooks[0].sideEffects"),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds"),
        ({"clientConfig": {"url": "http://127.0.0.1/"}}, "webhooks[0].clientConfig.url"),
        ({"clientConfig": {}}, "webhooks[0].clientConfig"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(changes, field):
    with pytest.raises(Invalid) as raised:
        calls(entry(**changes))
    assert [cause.field for cause in raised.value.status.details.causes] == [field]


@pytest.mark.parametrize(
    ("resource", "more"),
    [(VALIDATING_WEBHOOK_CONFIGURATIONS, {}), (MUTATING_WEBHOOK_CONFIGURATIONS, {"reinvocationPolicy": "Never"})],
)
async def test_what_a_configuration_does_not_say_is_filled_in(resource, more):
    server = ApiServer(system_env())
    client = Client(server.transport(), system_env(), field_manager="t")
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "c"}}
    made = await client.create(resource, {**head, "webhooks": [entry()]})
    assert made["webhooks"] == [
        {
            **entry(rules=[{**RULE, "scope": "*"}]),
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "timeoutSeconds": 10,
            **more,
        }
    ]
