"""What webhooks are asked, in which version and in which order; here they are functions of this process."""

import base64
import json

import pytest

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/"
WIDGETS = {"apiGroups": ["ex.test"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["widgets", "widgets/*"]}
MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


@pytest.fixture
def hooked(server, api):
    """Register a webhook that notes what it is asked and patches as it is told; return its notes."""

    async def hooked(name, *operations, kind="Mutating", rule=MAPS, **settings):
        asked = []

        async def review(body):
            asked.append(body["request"])
            response = {"uid": body["request"]["uid"], "allowed": True}
            if operations and body["request"]["operation"] != "DELETE":
                patch = base64.b64encode(json.dumps(operations).encode()).decode()
                response |= {"patch": patch, "patchType": "JSONPatch"}
            return {**body, "response": response}

        server.webhook_addresses["default", name, 443] = review
        entry = {
            "name": f"{name}.ktrain.test",
            "clientConfig": {"service": {"namespace": "default", "name": name}},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **settings,
        }
        body = {"metadata": {"name": name}, "webhooks": [entry]}
        made = await api.send("POST", f"{CONFIGURATIONS}{kind.lower()}webhookconfigurations", body)
        assert made.status == 201, made
        return asked

    return hooked


@pytest.fixture
async def widgets(api):
    """A kind with two versions, and a scale subresource in both."""
    body = api.widget_crd(
        subresources={"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}
    )
    body["spec"]["versions"].append({**body["spec"]["versions"][0], "name": "v2", "storage": False})
    made = await api.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    assert made.status == 201, made


def add(path, value):
    return {"op": "add", "path": path, "value": value}


async def test_a_rule_for_one_version_is_asked_about_others_in_its_own(widgets, hooked, api):
    asked = await hooked("hook", add("/spec/image", "x"), rule=WIDGETS)
    body = {**api.widget("a", {"mode": "B"}), "apiVersion": "ex.test/v2"}
    made = await api.create("widgets", body, "ex.test/v2")
    (request,) = asked
    assert request["kind"] == {"group": "ex.test", "version": "v1", "kind": "Widget"}
    assert request["resource"] == {"group": "ex.test", "version": "v1", "resource": "widgets"}
    assert (request["requestKind"]["version"], request["requestResource"]["version"]) == ("v2", "v2")
    assert request["object"]["apiVersion"] == "ex.test/v1"
    assert (made["apiVersion"], made["spec"]["image"]) == ("ex.test/v2", "x")


async def test_an_exact_rule_is_not_asked_about_other_versions(widgets, hooked, api):
    asked = await hooked("hook", rule=WIDGETS, matchPolicy="Exact")
    await api.create("widgets", {**api.widget("a", {}), "apiVersion": "ex.test/v2"}, "ex.test/v2")
    assert asked == []


async def test_events_of_both_apis_are_the_same_to_a_rule(hooked, api):
    asked = await hooked("hook", rule={**MAPS, "resources": ["events"]}, kind="Validating")
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "x/y",
        "reportingInstance": "z",
        "action": "a",
        "reason": "r",
        "type": "Normal",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "n",
    }
    await api.create("events", event, "events.k8s.io/v1")
    assert [(one["object"]["apiVersion"], one["object"]["message"]) for one in asked] == [("v1", "n")]


async def test_scale_is_shown_as_a_scale_without_labels(widgets, hooked, api):
    rule = {**WIDGETS, "resources": ["widgets/scale"]}
    await api.create("widgets", api.widget("a", {}, labels={"a": "b"}), "ex.test/v1")
    selecting = await hooked("selecting", rule=rule, objectSelector={"matchLabels": {"a": "b"}})
    asked = await hooked("hook", add("/spec/replicas", 5), rule=rule)
    path = api.path("widgets", "a", "scale", "ex.test/v1")
    answer = await api.send("PATCH", path, {"spec": {"replicas": 3}}, api.MERGE)
    assert answer.body["spec"] == {"replicas": 5}
    (request,) = asked
    assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (request["resource"]["resource"], request["subResource"]) == ("widgets", "scale")
    assert (request["object"]["spec"], request["oldObject"]["spec"]) == ({"replicas": 3}, {"replicas": 1})
    assert selecting == []


async def test_who_asks_to_is_asked_again_when_a_later_one_changed_the_object(hooked, api):
    again = await hooked("a-first", reinvocationPolicy="IfNeeded")
    once = await hooked("b-once")
    await hooked("c-changes", add("/data/later", "1"))
    await api.create("configmaps", api.config_map("a"))
    assert [one["object"]["data"] for one in again] == [{"k": "v"}, {"k": "v", "later": "1"}]
    assert len(once) == 1
    await api.send("PATCH", api.path("configmaps", "a"), {"data": {"x": "y"}}, api.MERGE)
    assert len(again) == 3  # what it changes is there already


async def test_each_sees_what_those_before_made_of_the_object(hooked, api):
    await hooked("a", add("/metadata/labels", {"by": "a"}))
    selected = await hooked("b", objectSelector={"matchLabels": {"by": "a"}})
    final = await hooked("c", kind="Validating")
    await api.create("configmaps", api.config_map("a"))
    assert [one["object"]["metadata"]["labels"] for one in (*selected, *final)] == [{"by": "a"}] * 2
    assert ["uid" in one["object"]["metadata"] for one in (*selected, *final)] == [False, True]


async def test_options_are_those_that_the_caller_gave(hooked, api):
    asked = await hooked("hook", kind="Validating")
    await api.create("configmaps", api.config_map("a"))
    await api.send("PUT", api.path("configmaps", "a"), api.config_map("a"), fieldManager="m", fieldValidation="Strict")
    await api.send("DELETE", api.path("configmaps", "a"), {"propagationPolicy": "Background"})
    await api.send("POST", api.path("configmaps"), {"metadata": {"generateName": "g-"}}, dryRun="All")
    head = {"apiVersion": "meta.k8s.io/v1"}
    assert [one["options"] for one in asked] == [
        {**head, "kind": "CreateOptions"},
        {**head, "kind": "UpdateOptions", "fieldManager": "m", "fieldValidation": "Strict"},
        {**head, "kind": "DeleteOptions", "propagationPolicy": "Background"},
        {**head, "kind": "CreateOptions", "dryRun": ["All"]},
    ]
    assert [one["dryRun"] for one in asked] == [False, False, False, True]


async def test_mutating_webhooks_see_no_generated_name_but_what_built_in_admission_wrote(hooked, api):
    asked = await hooked("hook", rule={**MAPS, "resources": ["pods"]})
    spec = {"containers": [{"name": "c", "image": "x"}]}
    await api.create("pods", {"metadata": {"generateName": "g-"}, "spec": spec})
    (request,) = asked
    assert "name" not in request
    assert "name" not in request["object"]["metadata"]
    assert request["object"]["spec"]["priority"] == 0
    assert len(request["object"]["spec"]["tolerations"]) == 2


async def test_a_container_that_a_webhook_adds_is_limited_as_well(hooked, api):
    limit = {"type": "Container", "default": {"cpu": "1"}}
    await api.create("limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    await hooked("hook", add("/spec/containers/-", {"name": "d", "image": "y"}), rule={**MAPS, "resources": ["pods"]})
    made = await api.create("pods", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}})
    assert [one["resources"]["limits"] for one in made["spec"]["containers"]] == [{"cpu": "1"}] * 2
    assert len(made["spec"]["tolerations"]) == 2


async def test_nobody_is_asked_about_admission_itself(hooked, api):
    asked = await hooked("hook", rule={**MAPS, "apiGroups": ["*"], "resources": ["*"]}, kind="Validating")
    await hooked("other")
    await api.send("DELETE", f"{CONFIGURATIONS}mutatingwebhookconfigurations/other")
    assert asked == []
