"""Who one is and what one may: `kubectl auth`, tokens, and acting as somebody else."""

import json

import pytest

pytestmark = pytest.mark.e2e


def test_the_administrator_may_do_everything(kubectl):
    assert kubectl("auth", "can-i", "create", "trainjobs") == "yes\n"
    assert kubectl("auth", "can-i", "*", "*", "--all-namespaces").endswith("yes\n")
    assert "*.*" in kubectl("auth", "can-i", "--list")
    assert "system:masters" in kubectl("auth", "whoami")
    assert "Username" in kubectl("auth", "whoami")


def test_somebody_else_may_do_what_was_granted(kubectl, pod):
    jane = ("--as=jane", "--as-group=system:authenticated")
    assert kubectl.run("auth", "can-i", "get", "pods", *jane).stdout == "no\n"
    refusal = kubectl.fails("get", "pods", *jane)
    assert 'pods is forbidden: User "jane" cannot list resource "pods" in API group ""' in refusal

    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": rules}
    subject = {"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {**role, "kind": "RoleBinding", "metadata": {"name": "b"}, "subjects": [subject], "roleRef": reference}
    del binding["rules"]
    kubectl.apply(role, binding)

    assert kubectl("auth", "can-i", "get", "pods", *jane) == "yes\n"
    assert "No resources found" in kubectl.run("get", "pods", *jane).stderr
    assert 'cannot delete resource "pods"' in kubectl.fails("delete", "pod", "p", *jane)
    assert "pods" in kubectl("auth", "can-i", "--list", *jane)


def test_a_service_account_has_tokens(kubectl):
    kubectl.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    token = kubectl("create", "token", "robot", "--duration=1h").strip()

    assert len(token.split(".")) == 3
    url = kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
    done = kubectl.run(
        "--kubeconfig=/dev/null", f"--server={url}", f"--token={token}", "--insecure-skip-tls-verify",
        "auth", "whoami", "-o", "json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    who = json.loads(done.stdout)["status"]["userInfo"]["username"]
    assert who == f"system:serviceaccount:{kubectl.namespace}:robot"


def test_roles_are_reconciled(kubectl, file):
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
    role["metadata"] = {"name": "r", "namespace": kubectl.namespace}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]

    assert "reconciled" in kubectl("auth", "reconcile", "-f", file({**role, "rules": rules}))
    assert kubectl.object("role", "r")["rules"] == rules
