"""ValidatingAdmissionPolicies: what they deny, warn of and overlook, and which are refused."""

import json
from contextlib import asynccontextmanager

import anyio
import pytest

from ..waiting import until

GROUP = "/apis/admissionregistration.k8s.io/v1/"
POLICIES, BINDINGS = f"{GROUP}validatingadmissionpolicies", f"{GROUP}validatingadmissionpolicybindings"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
MERGE = "application/merge-patch+json"


@pytest.fixture
def send(control_plane):
    async def send(method, path, body=None, content_type="application/json", **query):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type}
        answer = await control_plane.transport.request(
            method, path, query=list(query.items()), headers=headers, body=data
        )
        return answer.status, json.loads(answer.body), answer.headers.get("warning", "")

    return send


@pytest.fixture
def maps(control_plane, send):
    """Create a ConfigMap for a moment only: a dry run."""

    async def create(name="c", **data):
        path = f"/api/v1/namespaces/{control_plane.namespace}/configmaps"
        return await send("POST", path, {"metadata": {"name": name}, "data": data}, dryRun="All")

    return create


@pytest.fixture
def bound(control_plane, send, maps):
    """`async with bound(spec, **binding) as name:` has a policy for this namespace, which is in force."""
    name = control_plane.namespace

    @asynccontextmanager
    async def bound(spec, **binding):
        # Upstream learns of policies in its own time: one validation tells when, and is part of none of the tests.
        known = {"expression": "object.metadata.name != 'known'", "message": "known"}
        validations = [*spec.get("validations", []), known]
        spec = {"matchConstraints": {"resourceRules": [RULE]}, **spec, "validations": validations}
        here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
        binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": here, **binding}
        for path, body in ((POLICIES, spec), (BINDINGS, binding)):
            status, answer, _ = await send("POST", path, {"metadata": {"name": name}, "spec": body})
            assert status == 201, answer
        try:
            # It refuses, or warns.
            await until(lambda: maps("known"), lambda answer: answer[0] != 201 or answer[2], within_s=30, every_s=0.2)
            yield name
        finally:
            with anyio.CancelScope(shield=True):
                for path in (BINDINGS, POLICIES):
                    await send("DELETE", f"{path}/{name}")

    return bound


def validation(expression, **more):
    return {"validations": [{"expression": expression, **more}]}


def said(name, text):
    return f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: {text}"


@pytest.mark.parametrize(
    ("spec", "code", "reason", "text"),
    [
        (validation("object.data.x == 'a'"), 422, "Invalid", "failed expression: object.data.x == 'a'"),
        (validation("object.data.x == 'a'", message=" no "), 422, "Invalid", "no"),
        (validation("object.data.x == 'a'", reason="Forbidden"), 403, "Forbidden", "failed expression: object.data.x"),
        (validation("object.data.x == 'a'", messageExpression="'x is ' + object.data.x"), 422, "Invalid", "x is b"),
        (
            validation("object.data.x == 'a'", message="m", messageExpression="string(object.data.q)"),
            422,
            "Invalid",
            "m",
        ),
        (
            validation("object.data.q == 'a'"),
            422,
            "Invalid",
            "expression 'object.data.q == 'a'' resulted in error: no such key: q",
        ),
        (
            {"variables": [{"name": "n", "expression": "int(object.data.x)"}], **validation("variables.n > 1")},
            422,
            "Invalid",
            "expression 'variables.n > 1' resulted in error: composited variable \"n\" fails to evaluate: type",
        ),
    ],
)
async def test_a_policy_denies_with_its_reason_and_message(bound, maps, spec, code, reason, text):
    async with bound(spec) as name:
        status, body, _ = await maps(x="b")
    assert (status, body["reason"]) == (code, reason)
    assert body["message"].startswith(f'configmaps "c" is forbidden: {said(name, text)}')
    assert body["details"]["causes"][0]["message"].startswith(said(name, text))


@pytest.mark.parametrize(
    "spec",
    [
        {"failurePolicy": "Ignore", **validation("object.data.q == 'a'")},
        {"matchConditions": [{"name": "m", "expression": "object.metadata.name != 'c'"}], **validation("false")},
        validation("object == null || request.operation == 'CREATE'"),
        validation("object.?data.?q.orValue('none') == 'none'"),
        validation("namespaceObject.metadata.name == request.namespace && request.dryRun"),
        validation("authorizer.requestResource.check('create').allowed()"),
        {
            "matchConstraints": {"resourceRules": [RULE], "excludeResourceRules": [{**RULE, "resourceNames": ["c"]}]},
            **validation("false"),
        },
    ],
)
async def test_a_policy_lets_pass_what_it_is_not_about_or_content_with(bound, maps, spec):
    async with bound(spec):
        status, body, _ = await maps(x="b")
    assert status == 201, body


async def test_a_binding_may_only_warn(bound, maps):
    async with bound(validation("object.data.x == 'a'"), validationActions=["Warn", "Audit"]) as name:
        status, _, warning = await maps(x="b")
    assert status == 201
    assert (
        f"Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{name}': failed expression" in warning
    )


PARAMS = {
    "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
    **validation(
        "params == null || int(object.data.x) <= int(params.data.max)", messageExpression="'over ' + params.data.max"
    ),
}


@pytest.mark.parametrize(
    ("reference", "texts"),
    [
        ({"name": "limits", "parameterNotFoundAction": "Deny"}, {"9": "over 3", "3": ""}),
        ({"selector": {"matchLabels": {"a": "b"}}, "parameterNotFoundAction": "Deny"}, {"9": "over 3", "3": ""}),
        (
            {"name": "nope", "parameterNotFoundAction": "Deny"},
            {"1": "failed to configure binding: no params found for policy binding with `Deny` param"},
        ),
        (None, {"9": ""}),
    ],
)
async def test_a_binding_hands_objects_to_its_policy(bound, maps, send, control_plane, reference, texts):
    path = f"/api/v1/namespaces/{control_plane.namespace}/configmaps"
    await send("POST", path, {"metadata": {"name": "limits", "labels": {"a": "b"}}, "data": {"max": "3"}})
    async with bound(PARAMS, **({"paramRef": reference} if reference else {})) as name:
        for x, text in texts.items():
            status, body, _ = await maps(x=x)
            assert status == (422 if text else 201), body
            assert not text or said(name, text) in body["message"]


async def test_a_policy_sees_what_was_there_before(bound, send, control_plane):
    path = f"/api/v1/namespaces/{control_plane.namespace}/configmaps"
    await send("POST", path, {"metadata": {"name": "old"}, "data": {"a": "1"}})
    async with bound(validation("oldObject == null || object.data.a == oldObject.data.a", message="a stays")):
        status, body, _ = await send("PATCH", f"{path}/old", {"data": {"a": "2"}}, MERGE)
        assert (status, body["message"].endswith("denied request: a stays")) == (422, True)
        assert (await send("PATCH", f"{path}/old", {"data": {"b": "2"}}, MERGE))[0] == 200


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        (validation("object =="), "validations[0].expression", "compilation failed: ERROR: <input>:1:10: Syntax error"),
        (validation("foo == 1"), "validations[0].expression", "undeclared reference to 'foo' (in container '')"),
        (validation("object.spec.x"), "validations[0].expression", "must evaluate to bool but got dyn"),
        (validation("params.x == 1"), "validations[0].expression", "undeclared reference to 'params'"),
        (validation("request.foo == 1"), "validations[0].expression", "undefined field 'foo'"),
        (validation("namespaceObject.foo == 1"), "validations[0].expression", "undefined field 'foo'"),
        (validation("variables.a == 1"), "validations[0].expression", "undeclared reference to 'variables'"),
        (
            validation("true", messageExpression="1"),
            "validations[0].messageExpression",
            "must evaluate to string but got int",
        ),
        (
            validation("true", reason="Foo"),
            "validations[0].reason",
            'supported values: "Forbidden", "Invalid", "RequestE',
        ),
        ({"validations": []}, "validations", "validations or auditAnnotations must contain at least one item"),
        (
            {"auditAnnotations": [{"key": "a", "valueExpression": "1"}]},
            "auditAnnotations[0].valueExpression",
            "must evaluate to one of [string null_type] but got int",
        ),
        (
            {"variables": [{"name": "b", "expression": "variables.a"}], **validation("true")},
            "variables[0].expression",
            "undefined field 'a'",
        ),
        ({"matchConstraints": {}, **validation("true")}, "matchConstraints.resourceRules", "Required value"),
    ],
)
async def test_a_policy_that_cannot_work_is_refused(send, spec, field, text):
    spec = {"matchConstraints": {"resourceRules": [RULE]}, **spec}
    status, body, _ = await send("POST", POLICIES, {"metadata": {"name": "bad"}, "spec": spec}, dryRun="All")
    assert status == 422, body
    causes = {one["field"]: one["message"] for one in body["details"]["causes"]}
    assert text in causes[f"spec.{field}"]


async def test_mutating_policies_are_not_served(send, control_plane):
    if not control_plane.is_real:
        answer = await control_plane.transport.request("GET", f"{GROUP}mutatingadmissionpolicies")
        assert answer.status == 404
