"""Requests in another one's name."""

from __future__ import annotations

import json

import pytest

from ktrain.local.apiserver.access.impersonation import Wanted
from ktrain.local.apiserver.errors import StatusError
from ktrain.local.apiserver.requests import ADMIN, Request

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
AUTHENTICATION = "authentication.k8s.io"


async def whoami(server, *headers, user=ADMIN):
    """Ask the server as HTTP does, where headers repeat; returns the code, and the user or the message."""
    named = [(f"impersonate-{name}", value) for name, value in headers]
    answer = await server.handle(Request("POST", SELF, body=b"{}", user=user, impersonation=named))
    body = json.loads(answer.body)
    return answer.status, body["status"]["userInfo"] if answer.status == 201 else body["message"]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]}),
        ([("user", "")], {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]}),
        ([("user", "jane")], {"username": "jane", "groups": ["system:authenticated"]}),
        ([("user", "a"), ("user", "b")], {"username": "a", "groups": ["system:authenticated"]}),
        (
            [("user", "jane"), ("group", "a"), ("group", "b,c"), ("uid", "7"), ("uid", "8")],
            {"username": "jane", "uid": "7", "groups": ["a", "b,c", "system:authenticated"]},
        ),
        ([("user", "jane"), ("group", "")], {"username": "jane", "groups": ["", "system:authenticated"]}),
        (
            [("user", "system:serviceaccount:ns:sa")],
            {
                "username": "system:serviceaccount:ns:sa",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
            },
        ),
        (
            [("user", "system:serviceaccount:ns:sa"), ("group", "g")],
            {"username": "system:serviceaccount:ns:sa", "groups": ["g", "system:authenticated"]},
        ),
        (
            [("user", "system:serviceaccount:a b:sa")],
            {"username": "system:serviceaccount:a b:sa", "groups": ["system:authenticated"]},
        ),
        ([("user", "\udcff\udcfe")], {"username": "\ufffd\ufffd", "groups": ["system:authenticated"]}),
    ],
)
async def test_the_headers_make_a_user(server, headers, expected):
    assert await whoami(server, *headers) == (201, expected)


@pytest.mark.parametrize(
    ("header", "key"),
    [("k", "k"), ("a.b%2fc", "a.b/c"), ("%41b", "Ab"), ("%zz", "%zz"), ("%2", "%2"), ("", ""), ("%0a", "\n")],
)
async def test_keys_of_extra_are_percent_encoded_unless_they_are_not(server, header, key):
    _, user = await whoami(server, ("user", "jane"), (f"extra-{header}", "x"), (f"extra-{header}", "y"))

    assert user["extra"] == {key: ["x", "y"]}


@pytest.mark.parametrize(
    ("headers", "shown"),
    [
        ([("group", "a")], 'Name:"", UID:"", Groups:[]string{"a"}, Extra:map[string][]string(nil)'),
        ([("uid", "7"), ("user", "")], 'Name:"", UID:"7", Groups:[]string(nil), Extra:map[string][]string(nil)'),
        (
            [("extra-k", "v")],
            'Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string{"k":[]string{"v"}}',
        ),
    ],
)
def test_an_identity_needs_a_name(headers, shown):
    with pytest.raises(StatusError) as refused:
        Wanted.of([(f"impersonate-{name}", value) for name, value in headers])

    expected = f"requested &user.DefaultInfo{{{shown}}} without impersonating a user name"
    assert (refused.value.code, refused.value.message) == (400, expected)


async def test_the_anonymous_user_is_nobody_even_in_other_groups(server):
    status, message = await whoami(server, ("user", "system:anonymous"), ("group", "x"))

    assert status == 403
    assert message.startswith('selfsubjectreviews.authentication.k8s.io is forbidden: User "system:anonymous" cannot')


async def test_rights_are_those_of_the_one_impersonated(access):
    answer = await access.as_user(ADMIN, "GET", "/api/v1/nodes", Impersonate_User="jane")

    assert answer.status == 403
    assert 'User "jane" cannot list resource "nodes"' in answer.body["message"]


async def test_without_any_right_the_newer_one_is_said_to_be_missing(access):
    refused = [
        await access.as_user("bob", "GET", "/version", Impersonate_User="jane"),
        await access.as_user("bob", "GET", "/api/v1/nodes", Impersonate_User="system:serviceaccount:a:b"),
        await access.as_user("bob", "GET", "/api/v1/nodes", Impersonate_User="system:node:n"),
        await access.as_user(
            "bob", "GET", "/version", (), ("g",), Impersonate_User="system:node:n", Impersonate_Group="g"
        ),
    ]

    where = "at the cluster scope"
    assert [one.status for one in refused] == [403] * 4
    assert [one.body["message"] for one in refused] == [
        'forbidden: User "bob" cannot impersonate-on:user-info:get path "/version"',
        f"{_cannot('nodes', 'impersonate-on:serviceaccount:list', 'nodes')} {where}",
        f"{_cannot('nodes', 'impersonate-on:arbitrary-node:list', 'nodes')} {where}",
        f"""{_cannot('users "system:node:n"', "impersonate", "users")} {where}""",
    ]


def _cannot(what, verb, resource):
    return f'{what} is forbidden: User "bob" cannot {verb} resource "{resource}" in API group ""'


async def test_each_part_of_an_identity_needs_its_own_right(access):
    names = access.rule("impersonate", "users groups", names="jane a")
    await access.grant("bob", names, access.rule("impersonate", "userextras/k", group=AUTHENTICATION), namespace="")

    async def be(**headers):
        answer = await access.as_user("bob", "POST", SELF, {}, Impersonate_User="jane", **headers)
        return answer.body.get("message", answer.status)

    where = "at the cluster scope"
    assert await be() == 201
    assert await be(Impersonate_Group="a", Impersonate_Extra_k="anything") == 201
    assert await be(Impersonate_Group="b") == (
        f'groups "b" is forbidden: User "bob" cannot impersonate resource "groups" in API group "" {where}'
    )
    assert await be(Impersonate_Uid="7") == (
        'uids.authentication.k8s.io "7" is forbidden: User "bob" cannot impersonate resource "uids" in API group '
        f'"authentication.k8s.io" {where}'
    )
    assert await be(Impersonate_Extra_j="v") == (
        'userextras.authentication.k8s.io "v" is forbidden: User "bob" cannot impersonate resource "userextras/j" in '
        f'API group "authentication.k8s.io" {where}'
    )


async def test_the_newer_right_is_for_one_kind_of_request(access):
    on_request = access.rule("impersonate-on:user-info:create", "*", group="*")
    await access.grant(
        "bob", on_request, access.rule("impersonate:user-info", "users", group=AUTHENTICATION), namespace=""
    )
    created = await access.as_user("bob", "POST", SELF, {}, Impersonate_User="jane")
    listed = await access.as_user("bob", "GET", "/api/v1/nodes", Impersonate_User="jane")
    account = await access.as_user("bob", "POST", SELF, {}, Impersonate_User="system:serviceaccount:a:b")

    assert (created.status, listed.status, account.status) == (201, 403, 403)
    assert "cannot impersonate-on:user-info:list" in listed.body["message"]
