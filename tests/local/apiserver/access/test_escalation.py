"""Nobody gives away what they do not have."""

from __future__ import annotations

import pytest

GROUP = "rbac.authorization.k8s.io"
HOME = f"/apis/{GROUP}/v1/namespaces/default"
CLUSTER = f"/apis/{GROUP}/v1"


@pytest.fixture
async def writer(access):
    """A user who may write roles and bindings in one namespace, and read pods there."""
    mine = access.rule("create update patch", "roles rolebindings", group=GROUP)
    await access.grant("ann", mine, access.rule("get list", "pods"), name="writer")
    return access.client("ann")


def role(name, *rules, **more):
    return {"metadata": {"name": name}, "rules": list(rules), **more}


def binding(name, reference, kind="Role"):
    subject = {"apiGroup": GROUP, "kind": "User", "name": "bob"}
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": reference},
        "subjects": [subject],
    }


async def test_a_role_may_grant_what_its_writer_has(access, writer):
    assert (await writer.send("POST", f"{HOME}/roles", role("a", access.rule("get", "pods")))).status == 201


async def test_a_role_that_grants_more_is_refused_with_what_is_missing(access, writer):
    wanted = role("a", access.rule("get watch", "pods nodes"), access.rule("list", "jobs", group="batch"))
    refused = await writer.send("POST", f"{HOME}/roles", wanted)

    assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
    assert refused.body["message"] == (
        f'roles.{GROUP} "a" is forbidden: user "ann" (groups=["system:authenticated"]) is attempting to grant RBAC '
        "permissions not currently held:\n"
        '{APIGroups:[""], Resources:["nodes"], Verbs:["get" "watch"]}\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["watch"]}\n'
        '{APIGroups:["batch"], Resources:["jobs"], Verbs:["list"]}'
    )
    assert refused.body["details"] == {"name": "a", "group": GROUP, "kind": "roles"}


@pytest.mark.parametrize("how", ["PUT", "merge", "apply", "dry run"])
async def test_no_way_of_writing_gets_around_it(access, writer, how):
    await access.create("roles", role("a"))
    rules = [access.rule("delete", "nodes")]
    if how == "PUT":
        answer = await writer.send("PUT", f"{HOME}/roles/a", role("a", *rules))
    elif how == "merge":
        answer = await writer.send("PATCH", f"{HOME}/roles/a", {"rules": rules}, writer.MERGE)
    elif how == "apply":
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Role", **role("a", *rules)}
        answer = await writer.send("PATCH", f"{HOME}/roles/a", body, writer.APPLY, fieldManager="m", force="true")
    else:
        answer = await writer.send("POST", f"{HOME}/roles", role("b", *rules), dryRun="All")

    assert answer.status == 403


async def test_a_binding_needs_what_its_role_grants(access, writer):
    await access.create("roles", role("read", access.rule("get", "pods")))
    created = await writer.send("POST", f"{HOME}/rolebindings", binding("a", "read"))
    refused = await writer.send("POST", f"{HOME}/rolebindings", binding("b", "cluster-admin", "ClusterRole"))
    unknown = await writer.send("POST", f"{HOME}/rolebindings", binding("c", "no-such"))

    assert (created.status, refused.status) == (201, 403)
    everything = '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}'
    assert refused.body["message"].endswith(f"permissions not currently held:\n{everything}")
    assert (unknown.status, unknown.body["message"]) == (404, f'rolebindings.{GROUP} "no-such" not found')


async def test_escalate_and_bind_are_rights_to_do_it_all_the_same(access, writer):
    escalate = access.rule("escalate", "roles", group=GROUP)
    bind = access.rule("bind", "clusterroles", group=GROUP, names="view")
    await access.grant("ann", escalate, bind, name="more")

    assert (await writer.send("POST", f"{HOME}/roles", role("a", access.rule("delete", "nodes")))).status == 201
    assert (await writer.send("POST", f"{HOME}/rolebindings", binding("a", "view", "ClusterRole"))).status == 201
    assert (await writer.send("POST", f"{HOME}/rolebindings", binding("b", "edit", "ClusterRole"))).status == 403


async def test_finalizers_of_a_grant_may_be_changed_by_who_lacks_it(access, writer):
    await access.bind("cluster-admin", "ClusterRole", {"kind": "User", "name": "bob"}, name="adm")
    url = f"{HOME}/rolebindings/adm"
    finalized = await writer.send("PATCH", url, {"metadata": {"finalizers": ["a/b"]}}, writer.MERGE)
    labelled = await writer.send("PATCH", url, {"metadata": {"labels": {"a": "b"}}}, writer.MERGE)

    assert (finalized.status, labelled.status) == (200, 403)


async def test_only_who_may_do_everything_gathers_roles(access):
    await access.grant("ann", access.rule("create", "clusterroles", group=GROUP), namespace="")
    gathering = role("all", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    refused = await access.as_user("ann", "POST", f"{CLUSTER}/clusterroles", gathering)
    await access.bind("cluster-admin", "ClusterRole", {"kind": "User", "name": "ann"}, name="adm", cluster=True)
    created = await access.as_user("ann", "POST", f"{CLUSTER}/clusterroles", gathering)

    assert refused.body["message"] == (
        f'clusterroles.{GROUP} "all" is forbidden: must have cluster-admin privileges to use the aggregationRule'
    )
    assert created.status == 201


async def test_a_role_that_is_missing_is_told_with_the_refusal(access, writer):
    await access.bind("gone", "Role", {"kind": "User", "name": "ann"})
    refused = await writer.send("POST", f"{HOME}/roles", role("a", access.rule("get", "nodes")))

    assert refused.body["message"].endswith(f'; resolution errors: [roles.{GROUP} "gone" not found]')
