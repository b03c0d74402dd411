"""Built-in kinds: what a real server refuses, too, in its words."""

from __future__ import annotations

import pytest

C = {"name": "c", "image": "x"}


def pod(**spec):
    return {"metadata": {"name": "p"}, "spec": {"containers": [C], **spec}}


def causes(answer):
    assert answer.status == 422, answer
    return {(c["field"], c["reason"].removeprefix("FieldValue")) for c in answer.body["details"]["causes"]}


@pytest.mark.parametrize(
    ("kind", "body", "complaint"),
    [
        (
            "pods",
            pod(priority=2**31),
            "cannot unmarshal number 2147483648 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            "pods",
            pod(activeDeadlineSeconds=2**63),
            "number 9223372036854775808 into Go struct field PodSpec.spec.activeDeadlineSeconds of type int64",
        ),
        ("configmaps", {"metadata": {"name": "c"}, "binaryData": {"a": "*"}}, "illegal base64 data at input byte 0"),
        ("secrets", {"metadata": {"name": "s"}, "data": {"a": "e A=="}}, "illegal base64 data at input byte 1"),
        ("secrets", {"metadata": {"name": "s"}, "data": {"a": 1}}, "cannot unmarshal"),
        (
            "events",
            {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "firstTimestamp": "x"},
            'parsing time "x" as "2006-01-02T15:04:05Z07:00"',
        ),
    ],
)
async def test_what_typed_decoding_cannot_hold_is_a_bad_request(api, kind, body, complaint):
    answer = await api.send("POST", api.path(kind), body)

    assert answer.status == 400, answer
    assert complaint in answer.body["message"]


@pytest.mark.parametrize(
    ("kind", "version", "refused"), [("configmaps", "v1", True), ("leases", "coordination.k8s.io/v1", False)]
)
async def test_finalizers_of_builtin_kinds_have_a_domain(api, kind, version, refused):
    body = {"metadata": {"name": "f", "finalizers": ["plain"]}}
    answer = await api.send("POST", api.path(kind, api=version), body)

    assert (answer.status == 422) is refused
    if refused:
        assert causes(answer) == {("metadata.finalizers[0]", "Invalid")}


async def test_an_event_owns_nothing(api):
    owner = {"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}
    answer = await api.send("POST", api.path("configmaps"), {"metadata": {"name": "o", "ownerReferences": [owner]}})

    assert "/v1, Kind=Event is disallowed from being an owner" in answer.body["message"]


async def test_an_empty_dry_run_is_no_real_run(api):
    made = await api.create("configmaps", {"metadata": {"name": "kept"}})

    answer = await api.send("DELETE", api.path("configmaps", made["metadata"]["name"]), dryRun="")

    assert answer.status == 422
    assert (await api.send("GET", api.path("configmaps", "kept"))).status == 200


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"ports": [{"port": 1}], "selector": {"a b": "c"}}, "spec.selector"),
        ({"ports": [{"port": 1}], "internalTrafficPolicy": "X"}, "spec.internalTrafficPolicy"),
        ({"ports": [{"port": 1}], "clusterIP": "None", "type": "NodePort"}, "spec.clusterIPs[0]"),
    ],
)
async def test_bad_services(api, spec, field):
    answer = await api.send("POST", api.path("services"), {"metadata": {"name": "bad"}, "spec": spec})

    assert field in {name for name, _ in causes(answer)}


async def test_nobody_owns_the_address_families_of_a_service(api):
    body = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}
    made = await api.create("services", body)

    assert made["spec"]["ipFamilies"] == ["IPv4"]
    assert "f:ipFamilies" not in made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    replaced = await api.send("PUT", api.path("services", "s"), body)
    assert (replaced.body["spec"]["ipFamilies"], replaced.body["spec"]["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")


async def test_a_negative_grace_period_is_a_second(api):
    await api.create(
        "pods",
        {"metadata": {"name": "hasty"}, "spec": {**pod(nodeName="n")["spec"], "terminationGracePeriodSeconds": -1}},
    )

    deleted = await api.send("DELETE", api.path("pods", "hasty"))

    assert deleted.body["metadata"]["deletionGracePeriodSeconds"] == 1


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"type": "NodePort", "ports": [{"port": 1, "nodePort": 1}]}, "spec.ports[0].nodePort"),
        ({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30100}]}, "spec.ports[0].nodePort"),
        ({"clusterIP": "10.96.0.77", "ports": [{"port": 1}]}, "spec.clusterIPs"),
    ],
)
async def test_two_services_share_no_address_and_no_port_of_the_nodes(api, spec, field):
    first = {"type": "NodePort", "clusterIP": "10.96.0.77", "ports": [{"port": 1, "nodePort": 30100}]}
    await api.create("services", {"metadata": {"name": "first"}, "spec": first})

    answer = await api.send("POST", api.path("services"), {"metadata": {"name": "second"}, "spec": spec})

    assert causes(answer) == {(field, "Invalid")}
    again = await api.send("PUT", api.path("services", "first"), {"metadata": {"name": "first"}, "spec": first})
    assert again.status == 200, "it keeps its own"


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"activeDeadlineSeconds": 9}, "spec.activeDeadlineSeconds", "Invalid"),
        ({"activeDeadlineSeconds": None}, "spec.activeDeadlineSeconds", "Invalid"),
        ({"terminationGracePeriodSeconds": 1}, "spec", "Forbidden"),
        ({"schedulingGates": [{"name": "other"}]}, "spec.schedulingGates[0].name", "Forbidden"),
        ({"nodeSelector": {"a": "c"}}, "spec.nodeSelector", "Invalid"),
    ],
)
async def test_a_pod_only_gets_narrower(api, change, field, reason):
    gated = pod(activeDeadlineSeconds=5, schedulingGates=[{"name": "g"}], nodeSelector={"a": "b"})
    await api.create("pods", gated)

    answer = await api.send("PATCH", api.path("pods", "p"), {"spec": change}, "application/merge-patch+json")

    assert causes(answer) == {(field, reason)}


async def test_a_binding_is_for_the_pod_of_its_url(api):
    await api.create("pods", pod())
    binding = {"metadata": {"name": "other"}, "target": {"kind": "Node", "name": "n"}}

    answer = await api.send("POST", api.path("pods", "p", "binding"), binding)

    assert (answer.status, answer.body["message"]) == (400, "name in URL does not match name in Binding object")


async def test_an_apply_of_another_kind_says_which(api):
    other = b"apiVersion: v1\nkind: X"
    kind = "application/apply-patch+yaml"

    answer = await api.send("PATCH", api.path("configmaps", "c"), other, kind, fieldManager="m")

    assert (answer.status, answer.body["message"]) == (400, "invalid object type: /v1, Kind=X")


async def test_what_does_not_fit_the_schema_cannot_be_applied(api):
    config = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"b":1}}'
    kind = "application/apply-patch+yaml"

    answer = await api.send("PATCH", api.path("configmaps", "c"), config, kind, fieldManager="m")

    assert answer.status == 500
    assert answer.body["message"].endswith(".data.b: expected string, got &value.valueUnstructured{Value:1}")


SCALED = {"selector": {"matchLabels": {"a": "b"}}}
SCALED["template"] = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.mark.parametrize("type_", ["MERGE", "STRATEGIC"])
@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": 1},
        {"metadata": "x"},
        {"metadata": {"resourceVersion": 1}},
        {"metadata": {"labels": {"a": 1}}},
        {"spec": "x"},
        {"spec": [None]},
        {"spec": 0},
    ],
)
async def test_a_patch_that_makes_no_scale_of_a_scale_is_refused(api, patch, type_):
    await api.create("deployments", {"metadata": {"name": "d"}, "spec": SCALED}, "apps/v1")
    kinds = {"MERGE": "application/merge-patch+json", "STRATEGIC": "application/strategic-merge-patch+json"}
    path = api.path("deployments", "d", "scale", "apps/v1")
    answer = await api.send("PATCH", path, patch, kinds[type_])

    assert answer.status in {400, 422}, answer
    if answer.status == 422:
        assert answer.body["details"]["causes"][0]["field"] == "patch"
    put = await api.send("PUT", path, {"apiVersion": "autoscaling/v1", "kind": "Scale", **patch})
    assert put.status in {400, 422}, put


@pytest.mark.parametrize("size", ["9" * 400, "-" + "9" * 400])
async def test_amounts_larger_than_floats_are_compared(api, size):
    volume = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    made = await api.send("POST", "/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": volume})
    rules = {"tolerance": size, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 1}]}
    spec = {"scaleTargetRef": {"kind": "D", "name": "d"}, "maxReplicas": 2, "behavior": {"scaleUp": rules}}
    scaler = {"metadata": {"name": "h"}, "spec": spec}
    scaled = await api.send("POST", api.path("horizontalpodautoscalers", api="autoscaling/v2"), scaler)

    assert {made.status, scaled.status} <= {201, 422}, (made, scaled)
