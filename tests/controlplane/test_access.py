"""Users, rights and tokens, as both servers see them."""

import pytest
import yaml
from msgspec import json

from ktrain.framework.client.client import Client
from ktrain.framework.client.http import connect
from ktrain.framework.errors import ApiError, Forbidden, Unauthorized

from ..waiting import anything, until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"


class Access:
    """Users and their roles in the test's namespace."""

    def __init__(self, plane):
        self.plane = plane
        self.namespace = plane.namespace
        self.home = f"{RBAC}/namespaces/{plane.namespace}"

    async def user(self, name, *groups):
        return Client(await self.plane.add_user(name, *groups), self.plane.env, field_manager="test")

    async def send(self, method, path, body=None, client=None, **more):
        answer = await (client or self.plane.client()).raw(method, path, body=body, **more)
        return json.decode(answer.body)

    async def grant(self, user, *rules, name="granted"):
        await self.send("POST", f"{self.home}/roles", {"metadata": {"name": name}, "rules": list(rules)})
        subject = {"apiGroup": GROUP, "kind": "User", "name": user}
        reference = {"apiGroup": GROUP, "kind": "Role", "name": name}
        body = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        await self.send("POST", f"{self.home}/rolebindings", body)

    async def token(self, account="default", **spec):
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        # A new namespace gets its account a moment later.
        return (await until_allowed(lambda: self.send("POST", path, {"spec": spec})))["status"]["token"]

    async def with_token(self, token, tmp_path):
        """A client over HTTP whose user has this token."""
        config = yaml.safe_load((await self.plane.kubeconfig()).read_text())
        config["users"][0]["user"] = {"token": token}
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        return await connect(str(tmp_path / "config"))


@pytest.fixture
def access(control_plane):
    return Access(control_plane)


async def until_allowed(attempt):
    """The first answer that is no refusal: a real server learns of roles and accounts in its own time."""
    return await until(attempt, anything, despite=ApiError)


def rule(verbs, resources, group=""):
    return {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}


async def refusal(attempt):
    with pytest.raises(Forbidden) as refused:
        await attempt
    return refused.value.status.message


async def test_a_refusal_says_who_may_not_do_what_and_where(access):
    ann = await access.user("ann")
    where = f'in the namespace "{access.namespace}"'
    pods = f"/api/v1/namespaces/{access.namespace}/pods"

    assert await refusal(access.send("GET", pods, client=ann)) == (
        f'pods is forbidden: User "ann" cannot list resource "pods" in API group "" {where}'
    )
    assert await refusal(access.send("GET", f"{pods}/p/log", client=ann)) == (
        f'pods "p" is forbidden: User "ann" cannot get resource "pods/log" in API group "" {where}'
    )
    assert await refusal(access.send("GET", "/apis/no.such/v1/things", client=ann)) == (
        'things.no.such is forbidden: User "ann" cannot list resource "things" in API group "no.such" '
        "at the cluster scope"
    )
    assert await refusal(access.send("GET", "/nowhere", client=ann)) == (
        'forbidden: User "ann" cannot get path "/nowhere"'
    )


async def test_a_refusal_names_the_roles_that_were_bound_and_are_not_there(access):
    ann = await access.user("ann")
    bob = await access.user("bob")
    subject = {"apiGroup": GROUP, "kind": "User", "name": "ann"}
    for name, kind in (("b", "Role"), ("a", "ClusterRole")):
        reference = {"apiGroup": GROUP, "kind": kind, "name": f"gone-{name}"}
        body = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        await access.send("POST", f"{access.home}/rolebindings", body)
    pods = f"/api/v1/namespaces/{access.namespace}/pods"

    async def told():
        return (await refusal(access.send("GET", pods, client=ann))).count("gone-") == 2

    await until(told, within_s=30)
    message = await refusal(access.send("GET", pods, client=ann))
    assert ": RBAC: [" in message
    for problem in (f'clusterrole.{GROUP} "gone-a" not found', f'role.{GROUP} "gone-b" not found'):
        assert problem in message
    assert "RBAC" not in await refusal(access.send("GET", pods, client=bob))


async def test_a_list_of_one_name_needs_the_right_on_that_name(access):
    ann = await access.user("ann")
    await access.grant("ann", {**rule("list", "configmaps"), "resourceNames": ["mine"]})
    url = f"/api/v1/namespaces/{access.namespace}/configmaps"
    mine = [("fieldSelector", "metadata.name=mine")]

    assert (await until_allowed(lambda: access.send("GET", url, client=ann, query=mine)))["items"] == []
    assert "cannot list" in await refusal(access.send("GET", url, client=ann))


async def test_nobody_grants_what_they_do_not_have(access):
    ann = await access.user("ann", "staff")
    await access.grant("ann", rule("create", "roles rolebindings", GROUP), rule("get list", "pods"))
    roles = f"{access.home}/roles"
    mine = {"metadata": {"name": "mine"}, "rules": [rule("get", "pods")]}
    await until_allowed(lambda: access.send("POST", roles, mine, client=ann))
    more = {"metadata": {"name": "more"}, "rules": [rule("get watch", "pods nodes")]}
    refused = await refusal(access.send("POST", roles, more, client=ann))
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": "more"}, "roleRef": reference, "subjects": []}

    assert refused == (
        f'roles.{GROUP} "more" is forbidden: user "ann" (groups=["staff" "system:authenticated"]) is attempting to '
        "grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["nodes"], Verbs:["get" "watch"]}\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["watch"]}'
    )
    assert (await refusal(access.send("POST", f"{access.home}/rolebindings", binding, client=ann))).endswith(
        'not currently held:\n{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}'
    )


async def test_whether_somebody_may_do_something_can_be_asked(access):
    ann = await access.user("ann")
    await access.grant("ann", rule("list", "pods"))
    reviews = "/apis/authorization.k8s.io/v1"

    async def ask(kind, client=None, **spec):
        attributes = {"namespace": access.namespace, "verb": "list", "resource": "pods"}
        body = {"spec": {"resourceAttributes": attributes, **spec}}
        return (await access.send("POST", f"{reviews}/{kind}", body, client=client))["status"]

    async def allowed():
        return (await ask("selfsubjectaccessreviews", ann))["allowed"]

    await until(allowed, within_s=30)
    told = await ask("subjectaccessreviews", user="ann")
    binding = f"granted/{access.namespace}"
    assert told["reason"] == f'RBAC: allowed by RoleBinding "{binding}" of Role "granted" to User "ann"'
    assert await ask("subjectaccessreviews", user="bob") == {"allowed": False}
    mine = await access.send(
        "POST", f"{reviews}/selfsubjectrulesreviews", {"spec": {"namespace": access.namespace}}, client=ann
    )
    assert {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]} in mine["status"]["resourceRules"]


async def test_a_token_is_a_user_until_its_pod_is_gone(access, tmp_path):
    pods = f"/api/v1/namespaces/{access.namespace}/pods"
    # The account is named as neither server admits accounts here.
    spec = {"serviceAccountName": "default", "containers": [{"name": "c", "image": "none"}]}
    pod = {"metadata": {"name": "p"}, "spec": spec}
    uid = (await access.send("POST", pods, pod))["metadata"]["uid"]
    token = await access.token(boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid})
    http = await access.with_token(token, tmp_path)
    client = Client(http, access.plane.env, field_manager="test")
    try:
        review = await access.send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, client=client)
        user = review["status"]["userInfo"]
        assert user["username"] == f"system:serviceaccount:{access.namespace}:default"
        assert user["extra"]["authentication.kubernetes.io/pod-uid"] == [uid]
        await access.send("DELETE", f"{pods}/p", {"gracePeriodSeconds": 0})

        async def refused():
            try:
                await access.send("GET", "/version", client=client)
            except Unauthorized:
                return True
            return False

        await until(refused, within_s=30)  # upstream remembers for ten seconds whom it has let in
    finally:
        await http.aclose()


async def test_a_token_for_others_is_refused_and_reviewed_for_them(access, tmp_path):
    token = await access.token(audiences=["elsewhere"])
    reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
    status = (await access.send("POST", reviews, {"spec": {"token": token, "audiences": ["elsewhere"]}}))["status"]
    http = await access.with_token(token, tmp_path)
    try:
        with pytest.raises(Unauthorized):
            await access.send("GET", "/version", client=Client(http, access.plane.env, field_manager="test"))
    finally:
        await http.aclose()

    assert (status["authenticated"], status["audiences"]) == (True, ["elsewhere"])
