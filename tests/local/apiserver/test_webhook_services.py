"""Webhooks that are named by a Service: a function of this process, an address, a pod behind it, or nothing."""

import pytest

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}


async def configure(api, **service):
    entry = {
        "name": "hook.ktrain.test",
        "clientConfig": {"service": {"namespace": "default", "name": "hook", **service}},
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    body = {"metadata": {"name": "c"}, "webhooks": [entry]}
    made = await api.send("POST", f"{CONFIGURATIONS}validatingwebhookconfigurations", body)
    assert made.status == 201, made


async def failure(api):
    answer = await api.send("POST", api.path("configmaps"), api.config_map("a"))
    assert answer.status == 500, answer
    return answer.body["message"].partition("failed to call webhook: ")[2]


async def test_a_function_of_this_process_may_stand_for_a_service(server, api):
    seen = []

    async def review(body):
        seen.append(body)
        allowed = body["request"]["name"] != "bad"
        response = {"uid": body["request"]["uid"], "allowed": allowed, "warnings": ["careful"]}
        return {**body, "response": response}

    server.webhook_addresses["default", "hook", 443] = review
    await configure(api)
    answer = await api.send("POST", api.path("configmaps"), api.config_map("good"))
    assert (answer.status, answer.warnings) == (201, '299 - "careful"')
    answer = await api.send("POST", api.path("configmaps"), api.config_map("bad"))
    assert answer.status == 400
    assert [one["request"]["name"] for one in seen] == ["good", "bad"]


async def test_a_function_that_fails_is_a_failed_call(server, api):
    async def review(body):
        raise KeyError(body["kind"])

    server.webhook_addresses["default", "hook", 443] = review
    await configure(api)
    assert await failure(api) == "the webhook of this process failed: KeyError('AdmissionReview')"


@pytest.mark.parametrize(
    ("service", "text"),
    [
        (None, 'Post "https://hook.default.svc:8443/x?timeout=10s": service "hook" not found'),
        (
            {"ports": [{"port": 1}]},
            'Post "https://hook.default.svc:8443/x?timeout=10s": no service port 8443 found for',
        ),
        ({"ports": [{"port": 8443}], "selector": {"a": "b"}}, "no endpoints available for service"),
    ],
)
async def test_a_service_that_leads_nowhere_is_named(api, service, text):
    if service is not None:
        await api.create("services", {"metadata": {"name": "hook"}, "spec": service})
    await configure(api, port=8443, path="/x")
    assert text in await failure(api)


async def test_a_ready_pod_that_the_service_selects_is_called(api):
    ports = [{"port": 443, "targetPort": "https"}]
    await api.create("services", {"metadata": {"name": "hook"}, "spec": {"ports": ports, "selector": {"app": "hook"}}})
    container = {"name": "c", "image": "x", "ports": [{"name": "https", "containerPort": 1}]}
    for name, labels in (("other", {}), ("hook", {"app": "hook"})):
        await api.create("pods", {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]}})
        status = {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
        await api.send("PATCH", api.path("pods", name, "status"), {"status": status}, api.MERGE)
    await configure(api)
    # Nobody listens there, but that is where it was looked for.
    assert "dial tcp 127.0.0.1:1: " in await failure(api)
