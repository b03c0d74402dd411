"""What users may do: rules, bindings, refusals."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from ktrain.framework.env import system_env
from ktrain.local.apiserver.access.rbac import Rbac
from ktrain.local.apiserver.requests import User
from ktrain.local.apiserver.server import ApiServer

PODS = "/api/v1/namespaces/default/pods"
HOME = "/api/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
MAPS = "/api/v1/namespaces/default/configmaps"
GROUP = "rbac.authorization.k8s.io"
RBAC = f"{GROUP}/v1"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"


HERE = 'in the namespace "default"'


@pytest.mark.parametrize(
    ("method", "path", "what", "verb", "resource", "group", "where", "details"),
    [
        ("GET", PODS, "pods", "list", "pods", "", HERE, {}),
        ("GET", f"{PODS}?watch=1", "pods", "watch", "pods", "", HERE, {}),
        ("GET", f"{PODS}?fieldSelector=metadata.name=x", 'pods "x"', "list", "pods", "", HERE, {"name": "x"}),
        ("GET", f"{PODS}/p/log", 'pods "p"', "get", "pods/log", "", HERE, {"name": "p"}),
        ("DELETE", PODS, "pods", "deletecollection", "pods", "", HERE, {}),
        ("POST", f"{PODS}/p/binding", 'pods "p"', "create", "pods/binding", "", HERE, {"name": "p"}),
        ("PUT", f"{JOBS}/j/status", 'jobs.batch "j"', "update", "jobs/status", "batch", HERE, {"name": "j"}),
        ("GET", HOME, 'namespaces "default"', "get", "namespaces", "", HERE, {"name": "default"}),
        (
            "PUT",
            f"{HOME}/finalize",
            'namespaces "default"',
            "update",
            "namespaces/finalize",
            "",
            HERE,
            {"name": "default"},
        ),
        ("GET", "/apis/no.such/v1/things", "things.no.such", "list", "things", "no.such", "at the cluster scope", {}),
    ],
)
async def test_refusals_say_who_may_not_do_what_and_where(
    access, method, path, what, verb, resource, group, where, details
):
    plain, _, query = path.partition("?")
    parameters = dict([query.split("=", 1)]) if query else {}
    answer = await access.client("ann").send(method, plain, None, **parameters)

    refused = f'{what} is forbidden: User "ann" cannot {verb} resource "{resource}" in API group "{group}" {where}'
    kind = {"kind": resource.partition("/")[0], **({"group": group} if group else {})}
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    assert (answer.body["message"], answer.body["details"]) == (refused, {**details, **kind})


@pytest.mark.parametrize(
    ("method", "path", "what"),
    [
        ("GET", "/metrics", 'get path "/metrics"'),
        ("GET", "/a%20%22b", 'get path "/a \\"b"'),
        ("POST", "/version", 'post path "/version"'),
        ("GET", "//api", 'get path "//api"'),
    ],
)
async def test_what_is_no_resource_is_refused_as_a_path(access, method, path, what):
    answer = await access.as_user("ann", method, path)

    assert (answer.status, answer.body["details"]) == (403, {})
    assert answer.body["message"] == f'forbidden: User "ann" cannot {what}'


async def test_a_name_cannot_break_out_of_a_refusal(access):
    answer = await access.as_user('a"\n\x00\u200bb', "GET", PODS)

    assert 'User "a\\"\\n\\x00\\u200bb" cannot list' in answer.body["message"]


async def test_a_rule_for_a_resource_does_not_cover_its_subresources(access):
    await access.grant("ann", access.rule("get", "pods"))

    assert (await access.as_user("ann", "GET", f"{PODS}/p")).status == 404
    assert (await access.as_user("ann", "GET", f"{PODS}/p/log")).status == 403


@pytest.mark.parametrize("resources", ["*", "pods/log", "*/log"])
async def test_subresources_are_covered_by_name_or_star(access, resources):
    await access.grant("ann", access.rule("get", resources))

    assert (await access.as_user("ann", "GET", f"{PODS}/p/log")).status == 404


async def test_resource_names_cover_requests_that_name_one_and_lists_of_that_one(access):
    await access.grant("ann", access.rule("get list watch create delete deletecollection", "configmaps", names="mine"))
    api = access.client("ann")

    assert (await api.send("GET", f"{MAPS}/mine")).status == 404
    assert (await api.send("GET", f"{MAPS}/other")).status == 403
    assert (await api.send("GET", MAPS)).status == 403
    assert (await api.send("GET", MAPS, fieldSelector="metadata.name=mine")).status == 200
    assert (await api.send("GET", MAPS, fieldSelector="metadata.name!=mine")).status == 403
    assert (await api.send("POST", MAPS, api.config_map("mine"))).status == 403
    assert (await api.send("DELETE", MAPS, fieldSelector="metadata.name=mine")).status == 403


async def test_an_apply_or_put_that_creates_needs_the_right_to_create(access):
    await access.grant("ann", access.rule("patch update", "roles", group=GROUP))
    body = {"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "a"}}
    api = access.client("ann")
    refusals = [
        await api.send("PATCH", f"{ROLES}/a", body, api.APPLY, fieldManager="m"),
        await api.send("PUT", f"{ROLES}/a", body),
    ]
    await access.create("roles", {"metadata": {"name": "a"}})
    changed = await api.send("PATCH", f"{ROLES}/a", body, api.APPLY, fieldManager="m")

    text = f'roles.{GROUP} "a" is forbidden: User "ann" cannot create resource "roles" in API group "{GROUP}" {HERE}'
    assert [(one.status, one.body["message"]) for one in refusals] == [(403, text)] * 2
    assert changed.status == 200


async def test_rights_follow_bindings_and_roles_at_once(access):
    await access.grant("ann", access.rule("list", "pods"))
    assert (await access.as_user("ann", "GET", PODS)).status == 200
    changed = {"rules": [access.rule("get", "pods")]}
    await access.api.send("PATCH", f"{ROLES}/granted", changed, access.api.MERGE)
    assert (await access.as_user("ann", "GET", PODS)).status == 403
    await access.api.send("PATCH", f"{ROLES}/granted", {"rules": [access.rule("list", "pods")]}, access.api.MERGE)
    assert (await access.as_user("ann", "GET", PODS)).status == 200
    await access.api.send("DELETE", f"{ROLES}/granted")
    assert (await access.as_user("ann", "GET", PODS)).status == 403


async def test_a_binding_taken_away_leaves_what_others_give(access):
    rule = access.rule("list", "pods")
    await access.grant("ann", rule, name="one")
    await access.grant("ann", rule, name="two")
    bindings = ROLES.replace("roles", "rolebindings")
    await access.api.send("DELETE", f"{bindings}/one")
    assert (await access.as_user("ann", "GET", PODS)).status == 200
    await access.api.send("PATCH", f"{bindings}/two", {"subjects": []}, access.api.MERGE)
    assert (await access.as_user("ann", "GET", PODS)).status == 403


async def test_groups_and_service_accounts_are_subjects(access):
    await access.create("roles", {"metadata": {"name": "r"}, "rules": [access.rule("list", "pods")]})
    await access.bind("r", "Role", {"kind": "Group", "name": "readers"}, {"kind": "ServiceAccount", "name": "robot"})

    assert (await access.as_user("ann", "GET", PODS, groups=("readers",))).status == 200
    assert (await access.as_user("readers", "GET", PODS)).status == 403
    assert (await access.as_user("system:serviceaccount:default:robot", "GET", PODS)).status == 200
    assert (await access.as_user("system:serviceaccount:other:robot", "GET", PODS)).status == 403


async def test_a_cluster_role_counts_in_the_namespace_of_its_role_binding_only(access):
    await access.bind("view", "ClusterRole", {"kind": "User", "name": "ann"})

    assert (await access.as_user("ann", "GET", PODS)).status == 200
    assert (await access.as_user("ann", "GET", PODS.replace("default", "kube-system"))).status == 403
    assert (await access.as_user("ann", "GET", "/api/v1/pods")).status == 403
    assert (await access.as_user("ann", "GET", "/api/v1/namespaces/default/secrets")).status == 403


async def test_paths_are_granted_exactly_or_by_prefix(access):
    rule = {"verbs": ["get"], "nonResourceURLs": ["/here", "/debug/*"]}
    await access.grant("ann", rule, namespace="")

    statuses = [(await access.as_user("ann", "GET", p)).status for p in ("/here", "/here/x", "/debug/x", "/debug")]
    assert statuses == [404, 403, 404, 403]


async def test_everybody_may_discover_and_ask_about_themselves(access):
    for path in ("/api", "/apis", "/api/v1", "/version", "/healthz", "/openapi/v3"):
        assert (await access.as_user("ann", "GET", path)).status == 200
    assert (await access.as_user("ann", "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})).status == 201


async def test_a_refusal_is_logged_once_with_the_rule_that_is_missing(access):
    with capture_logs() as logs:
        for _ in range(3):
            await access.as_user("ann", "GET", f"{PODS}/p/log")

    refusals = [entry for entry in logs if entry["event"] == "access.refused"]
    assert [(one["user"], one["rule"]) for one in refusals] == [
        ("ann", '{"apiGroups":[""],"resources":["pods/log"],"verbs":["get"]}')
    ]


async def test_without_authorisation_everybody_may_do_everything(api):
    server = ApiServer(system_env(), authorization="AlwaysAllow")
    answer = await type(api)(server.transport(User("ann"))).send("GET", "/api/v1/nodes")

    assert answer.status == 200


async def test_a_server_reads_the_bindings_that_its_store_has(access):
    """The index begins with what is there, as after a restart with kept objects."""
    await access.grant("ann", access.rule("list", "pods"))
    again = Rbac(access.server.store)
    rules, problems = again.rules_of(User("ann"), "default")

    assert ["list"] in [list(rule.verbs) for rule in rules]
    assert problems == []


async def test_a_stream_in_a_websocket_needs_the_right_to_create_it(access):
    await access.grant("ann", access.rule("get", "pods/exec"))
    plain = await access.as_user("ann", "GET", f"{PODS}/p/exec")
    socket = await access.as_user("ann", "GET", f"{PODS}/p/exec", Upgrade="websocket")

    assert (plain.status, socket.status) == (404, 403)
    assert 'cannot create resource "pods/exec"' in socket.body["message"]
