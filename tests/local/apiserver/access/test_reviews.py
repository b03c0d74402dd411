"""The kinds that only answer questions."""

from __future__ import annotations

import pytest

from ktrain.framework.env import system_env
from ktrain.local.apiserver.access.account_tokens import ISSUER
from ktrain.local.apiserver.requests import User
from ktrain.local.apiserver.server import ApiServer

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"
SUBJECT = f"{AUTHORIZATION}/subjectaccessreviews"
LOCAL = f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews"
SELF = f"{AUTHORIZATION}/selfsubjectaccessreviews"
RULES = f"{AUTHORIZATION}/selfsubjectrulesreviews"
TOKEN = f"{AUTHENTICATION}/tokenreviews"
LIST_PODS = {"namespace": "default", "verb": "list", "resource": "pods"}
PATH = {"path": "/x", "verb": "get"}


async def ask(api, path, spec, **more):
    return await api.send("POST", path, {"spec": spec, **more})


async def test_somebody_elses_rights(access, api):
    await access.grant("ann", access.rule("list", "pods"))
    answers = [await ask(api, path, {"user": "ann", "resourceAttributes": LIST_PODS}) for path in (SUBJECT, LOCAL)]
    refused = await ask(api, SUBJECT, {"user": "bob", "resourceAttributes": LIST_PODS})

    reason = 'RBAC: allowed by RoleBinding "granted/default" of Role "granted" to User "ann"'
    assert [one.status for one in answers] == [201, 201]
    assert [one.body["status"] for one in answers] == [{"allowed": True, "reason": reason}] * 2
    assert refused.body["status"] == {"allowed": False}


async def test_ones_own_rights(access):
    await access.grant("ann", access.rule("list", "pods"))
    ann = access.client("ann")

    assert (await ask(ann, SELF, {"resourceAttributes": LIST_PODS})).body["status"]["allowed"] is True
    assert (await ask(ann, SELF, {"resourceAttributes": {**LIST_PODS, "verb": "get"}})).body["status"][
        "allowed"
    ] is False
    version = {"path": "/version", "verb": "get"}
    assert (await ask(ann, SELF, {"nonResourceAttributes": version})).body["status"]["allowed"] is True


async def test_groups_alone_are_somebody(api):
    answer = await ask(api, SUBJECT, {"groups": ["system:masters"], "resourceAttributes": LIST_PODS})

    assert answer.body["status"] == {"allowed": True}


async def test_all_rules_of_the_one_who_asks(access):
    await access.grant("ann", access.rule("list", "pods"), access.rule("get", "secrets", names="a"))
    await access.grant("ann", {"verbs": ["get"], "nonResourceURLs": ["/x"]}, namespace="", name="paths")
    status = (await ask(access.client("ann"), RULES, {"namespace": "default"})).body["status"]

    assert status["incomplete"] is False
    assert {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]} in status["resourceRules"]
    named = {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]}
    assert named in status["resourceRules"]
    assert {"verbs": ["get"], "nonResourceURLs": ["/x"]} in status["nonResourceRules"]


async def test_rules_of_no_namespace_are_not_asked_for(api):
    answer = await ask(api, RULES, {})

    assert (answer.status, answer.body["message"]) == (400, "no namespace on request")


@pytest.mark.parametrize(
    ("path", "spec", "causes"),
    [
        (
            SUBJECT,
            {},
            {
                (
                    "spec.resourceAttributes",
                    "exactly one of nonResourceAttributes or resourceAttributes must be specified",
                ),
                ("spec.user", "at least one of user or group must be specified"),
            },
        ),
        (
            SELF,
            {"resourceAttributes": LIST_PODS, "nonResourceAttributes": PATH},
            {("spec.nonResourceAttributes", "cannot be specified in combination with resourceAttributes")},
        ),
        (
            LOCAL,
            {"user": "u", "resourceAttributes": {**LIST_PODS, "namespace": "x"}},
            {("spec.resourceAttributes.namespace", "must match metadata.namespace")},
        ),
        (
            LOCAL,
            {"user": "u", "nonResourceAttributes": PATH},
            {("spec.nonResourceAttributes", "disallowed on this kind of request")},
        ),
        (
            SELF,
            {
                "resourceAttributes": {
                    **LIST_PODS,
                    "fieldSelector": {"rawSelector": "a=b", "requirements": [{"key": "a"}]},
                }
            },
            {
                (
                    "spec.resourceAttributes.fieldSelector.rawSelector",
                    "may not specified at the same time as requirements",
                )
            },
        ),
        (
            SELF,
            {"resourceAttributes": {**LIST_PODS, "labelSelector": {"requirements": [{"key": "a", "operator": "In"}]}}},
            {
                (
                    "spec.resourceAttributes.labelSelector.requirements[0].values",
                    "must be specified when `operator` is 'In' or 'NotIn'",
                )
            },
        ),
    ],
)
async def test_a_question_has_to_be_one(api, path, spec, causes):
    answer = await ask(api, path, spec)
    found = {(cause["field"], cause["message"].rpartition(": ")[2]) for cause in answer.body["details"]["causes"]}

    assert (answer.status, found) == (422, causes)
    assert answer.body["message"].startswith('.authorization.k8s.io "" is invalid: ')


async def test_a_question_about_rights_has_no_metadata(api):
    answer = await ask(api, SELF, {"resourceAttributes": LIST_PODS}, metadata={"name": "x"})

    assert answer.body["details"]["causes"][0]["field"] == "metadata"


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", SUBJECT, 405),
        ("DELETE", SUBJECT, 405),
        ("PATCH", SUBJECT, 405),
        ("GET", f"{SUBJECT}/x", 404),
        ("POST", f"{SUBJECT}/x", 404),
        ("POST", f"{AUTHORIZATION}/namespaces/default/subjectaccessreviews", 404),
        ("POST", f"{AUTHORIZATION}/localsubjectaccessreviews", 404),
    ],
)
async def test_there_are_no_objects_of_these_kinds(api, method, path, code):
    assert (await api.send(method, path, {})).status == code


async def test_who_asks(access):
    user = User("ann", ("a", "system:authenticated"), "7", (("k", ("v", "w")),))
    review = (await access.client(user).send("POST", f"{AUTHENTICATION}/selfsubjectreviews", {})).body

    assert review["status"]["userInfo"] == {
        "username": "ann",
        "uid": "7",
        "groups": ["a", "system:authenticated"],
        "extra": {"k": ["v", "w"]},
    }


async def test_whose_a_token_is(api):
    known = User("ann", ("a", "system:authenticated"))
    server = ApiServer(system_env(), tokens={"secret": known})
    api = type(api)(server.transport())

    async def review(**spec):
        return (await ask(api, TOKEN, spec)).body["status"]

    invalid = {"user": {}, "error": "invalid bearer token"}
    assert await review(token="secret") == {"authenticated": True, "user": known.info(), "audiences": [ISSUER]}
    assert await review(token="wrong") == invalid
    assert await review(token="secret", audiences=["elsewhere"]) == invalid
    assert (await ask(api, TOKEN, {})).body["message"] == "token is required for TokenReview in authentication"


async def test_a_token_is_reviewed_for_the_audience_it_is_for(api):
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = (await ask(api, path, {"audiences": ["a", "b"]})).body["status"]["token"]
    meant = (await ask(api, TOKEN, {"token": token, "audiences": ["c", "b"]})).body["status"]
    other = (await ask(api, TOKEN, {"token": token})).body["status"]

    assert (meant["authenticated"], meant["audiences"]) == (True, ["b"])
    assert other["error"] == (
        f'[invalid bearer token, token audiences ["a" "b"] is invalid for the target audiences ["{ISSUER}"]]'
    )
