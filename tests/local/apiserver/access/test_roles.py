"""The kinds of RBAC themselves: what makes one valid, roles that gather others, those that are there from the start."""

from __future__ import annotations

import asyncio

import pytest

GROUP = "rbac.authorization.k8s.io"
HOME = f"/apis/{GROUP}/v1/namespaces/default"
CLUSTER = f"/apis/{GROUP}/v1"
REFERENCE = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"}
PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}


def causes(answer):
    assert answer.status == 422, answer
    return {(cause["field"], cause["message"]) for cause in answer.body["details"]["causes"]}


@pytest.mark.parametrize(
    ("rule", "field", "message"),
    [
        ({**PODS, "verbs": []}, "rules[0].verbs", "Required value: verbs must contain at least one value"),
        (
            {**PODS, "apiGroups": []},
            "rules[0].apiGroups",
            "Required value: resource rules must supply at least one api group",
        ),
        (
            {**PODS, "resources": []},
            "rules[0].resources",
            "Required value: resource rules must supply at least one resource",
        ),
        (
            {"verbs": ["get"], "nonResourceURLs": ["/x"]},
            "rules[0].nonResourceURLs",
            'Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs',
        ),
    ],
)
async def test_a_rule_is_about_something(api, rule, field, message):
    answer = await api.send("POST", f"{HOME}/roles", {"metadata": {"name": "r"}, "rules": [rule]})

    assert causes(answer) == {(field, message)}


async def test_a_rule_is_not_about_both_resources_and_paths(api):
    rule = {**PODS, "nonResourceURLs": ["/x"]}
    answer = await api.send("POST", f"{CLUSTER}/clusterroles", {"metadata": {"name": "r"}, "rules": [rule]})

    text = 'Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs'
    assert causes(answer) == {("rules[0].nonResourceURLs", text)}


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ({"kind": "User"}, {("subjects[0].name", "Required value")}),
        (
            {"kind": "Robot", "name": "r"},
            {("subjects[0].kind", 'Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"')},
        ),
        (
            {"kind": "User", "name": "u", "apiGroup": "x"},
            {("subjects[0].apiGroup", f'Unsupported value: "x": supported values: "{GROUP}"')},
        ),
        (
            {"kind": "ServiceAccount", "name": "s", "namespace": "x", "apiGroup": GROUP},
            {("subjects[0].apiGroup", f'Unsupported value: "{GROUP}": supported values: ""')},
        ),
        ({"kind": "ServiceAccount", "name": "s"}, {("subjects[0].namespace", "Required value")}),
    ],
)
async def test_a_subject_is_somebody(api, subject, expected):
    body = {"metadata": {"name": "b"}, "roleRef": REFERENCE, "subjects": [subject]}

    assert causes(await api.send("POST", f"{CLUSTER}/clusterrolebindings", body)) == expected


async def test_a_subjects_group_is_filled_in(api):
    subjects = [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}]
    body = {"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects}
    created = (await api.send("POST", f"{HOME}/rolebindings", body)).body

    assert created["roleRef"]["apiGroup"] == GROUP
    assert created["subjects"] == [{**subjects[0], "apiGroup": GROUP}, subjects[1]]


@pytest.mark.parametrize(
    ("path", "reference", "expected"),
    [
        (f"{CLUSTER}/clusterrolebindings", {"kind": "Role", "name": "r"}, {"roleRef.kind"}),
        (f"{HOME}/rolebindings", {"kind": "Role", "name": "a/b"}, {"roleRef.name"}),
        (f"{HOME}/rolebindings", {"kind": "Role", "name": "r", "apiGroup": "x"}, {"roleRef.apiGroup"}),
        (f"{HOME}/rolebindings", None, {"roleRef.kind", "roleRef.name"}),
    ],
)
async def test_a_binding_is_to_a_role(api, path, reference, expected):
    body = {"metadata": {"name": "b"}} | ({"roleRef": reference} if reference else {})

    assert {field for field, _ in causes(await api.send("POST", path, body))} == expected


async def test_a_binding_stays_with_its_role(api):
    await api.send(
        "POST", f"{HOME}/rolebindings", {"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"}}
    )
    answer = await api.send("PATCH", f"{HOME}/rolebindings/b", {"roleRef": {"name": "x"}}, api.MERGE)

    shown = f'{{"APIGroup":"{GROUP}","Kind":"Role","Name":"x"}}'
    assert causes(answer) == {("roleRef", f"Invalid value: {shown}: cannot change roleRef")}


async def test_a_gathering_role_says_which_roles(api):
    body = {"metadata": {"name": "r"}, "aggregationRule": {}}
    bad = {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Like"}]}]}

    text = "Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"
    url = f"{CLUSTER}/clusterroles"
    assert causes(await api.send("POST", url, body)) == {("aggregationRule.clusterRoleSelectors", text)}
    field = "aggregationRule.clusterRoleSelectors[0]"
    assert causes(await api.send("POST", url, {**body, "aggregationRule": bad})) == {
        (f"{field}.matchExpressions[0].operator", 'Invalid value: "Like": not a valid selector operator'),
        (field, "Invalid value: null: invalid label selector."),
    }


async def test_a_gathering_role_follows_the_roles_it_selects(api):
    selectors = [{"matchLabels": {"a": "b"}}, {"matchExpressions": [{"key": "c", "operator": "Exists"}]}]
    body = {"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": selectors}, "rules": [PODS]}
    await api.send("POST", f"{CLUSTER}/clusterroles", body)
    await rules(api, "all", None)
    nodes, jobs = {**PODS, "resources": ["nodes"]}, {**PODS, "resources": ["jobs"]}
    for name, label, rule in (("two", "a", nodes), ("one", "a", jobs), ("three", "c", nodes)):
        made = {"metadata": {"name": name, "labels": {label: "b"}}, "rules": [rule]}
        await api.send("POST", f"{CLUSTER}/clusterroles", made)
    await rules(api, "all", [jobs, nodes])
    await api.send("DELETE", f"{CLUSTER}/clusterroles/one")
    await rules(api, "all", [nodes])


async def test_what_is_added_to_the_default_roles_reaches_their_users(access):
    await access.bind("view", "ClusterRole", {"kind": "User", "name": "ann"})
    labels = {f"{GROUP}/aggregate-to-view": "true"}
    rule = {"verbs": ["list"], "apiGroups": ["node.k8s.io"], "resources": ["runtimeclasses"]}
    await access.create("clusterroles", {"metadata": {"name": "more", "labels": labels}, "rules": [rule]}, cluster=True)
    for name in ("view", "edit", "admin"):
        await rules(access.api, name, lambda found: rule in found)


async def test_the_default_roles_grow_from_view_to_admin(api):
    view, edit, admin = [
        (await api.send("GET", f"{CLUSTER}/clusterroles/{name}")).body["rules"] for name in ("view", "edit", "admin")
    ]

    assert all(rule in edit for rule in view)
    assert all(rule in admin for rule in edit)
    assert len(view) < len(edit) < len(admin)


async def test_secrets_are_not_for_viewers(access):
    await access.bind("view", "ClusterRole", {"kind": "User", "name": "ann"})
    await access.bind("edit", "ClusterRole", {"kind": "User", "name": "bob"})
    secrets = "/api/v1/namespaces/default/secrets"

    assert (await access.as_user("ann", "GET", secrets)).status == 403
    assert (await access.as_user("bob", "GET", secrets)).status == 200


async def rules(api, name, expected):
    """Wait until a ClusterRole has these rules, or such as the function accepts."""
    async with asyncio.timeout(5):
        while True:
            found = (await api.send("GET", f"{CLUSTER}/clusterroles/{name}")).body["rules"]
            if expected(found) if callable(expected) else found == expected:
                return
            await asyncio.sleep(0)
