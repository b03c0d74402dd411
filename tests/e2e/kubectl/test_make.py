"""`kubectl create KIND`, `run` and `expose`: kubectl sends these as protobuf."""

import base64
import json

import pytest

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("arguments", "made"),
    [
        ("configmap made --from-literal=a=b", "configmap/made"),
        ("secret generic made --from-literal=a=b", "secret/made"),
        ("serviceaccount made", "serviceaccount/made"),
        ("role made --verb=get --resource=pods", "role.rbac.authorization.k8s.io/made"),
        (
            "rolebinding made --clusterrole=view --serviceaccount=default:default",
            "rolebinding.rbac.authorization.k8s.io/made",
        ),
        ("job made --image=none -- true", "job.batch/made"),
        ("service clusterip made --tcp=80:8080", "service/made"),
        ("service externalname made --external-name=example.test", "service/made"),
        ("quota made --hard=pods=10", "resourcequota/made"),
        ("cronjob made --image=none --schedule=@daily -- true", "cronjob.batch/made"),
        ("deployment made --image=none --replicas=0", "deployment.apps/made"),
        ("poddisruptionbudget made --selector=a=b --min-available=1", "poddisruptionbudget.policy/made"),
        ("ingress made --rule=host/path=svc:80", "ingress.networking.k8s.io/made"),
    ],
)
def test_create_in_a_namespace(kubectl, arguments, made):
    out = kubectl("create", *arguments.split())

    assert out == f"{made} created\n"
    assert kubectl("get", made, "-o", "name") == f"{made}\n"


@pytest.mark.parametrize(
    ("arguments", "made"),
    [
        ("namespace kubectl-made", "namespace/kubectl-made"),
        ("clusterrole kubectl-made --verb=get --resource=pods", "clusterrole.rbac.authorization.k8s.io/kubectl-made"),
        (
            "clusterrolebinding kubectl-made --clusterrole=view --user=jane",
            "clusterrolebinding.rbac.authorization.k8s.io/kubectl-made",
        ),
        ("priorityclass kubectl-made --value=10", "priorityclass.scheduling.k8s.io/kubectl-made"),
    ],
)
def test_create_in_the_cluster(server, arguments, made):
    try:
        assert server("create", *arguments.split()) == f"{made} created\n"
        assert server("get", made, "-o", "name") == f"{made}\n"
    finally:
        server.run("delete", made, "--wait=false")


def test_what_is_made_holds_what_was_asked_for(kubectl, tmp_path):
    (tmp_path / "some.txt").write_text("words\n")
    kubectl("create", "cm", "c", "--from-literal=a=b", f"--from-file={tmp_path}/some.txt")
    kubectl("create", "secret", "generic", "s", "--from-literal=password=hunter2", "--type=kubectl.test/kind")
    kubectl("create", "secret", "docker-registry", "d", "--docker-username=u", "--docker-password=p")
    kubectl("create", "job", "j", "--image=none", "--", "echo", "hi")

    assert kubectl.object("cm", "c")["data"] == {"a": "b", "some.txt": "words\n"}
    secret = kubectl.object("secret", "s")
    assert (base64.b64decode(secret["data"]["password"]), secret["type"]) == (b"hunter2", "kubectl.test/kind")
    assert kubectl.object("secret", "d")["type"] == "kubernetes.io/dockerconfigjson"
    (container,) = kubectl.object("job", "j")["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["command"]) == ("none", ["echo", "hi"])


@pytest.mark.parametrize("where", ["client", "server"])
def test_a_dry_run_prints_what_would_be_made(kubectl, where):
    out = kubectl("create", "cm", "c", "--from-literal=a=b", f"--dry-run={where}", "-o", "json")

    assert json.loads(out)["data"] == {"a": "b"}
    assert 'configmaps "c" not found' in kubectl.fails("get", "cm", "c")


def test_run_and_expose_make_a_pod_and_its_service(kubectl):
    assert kubectl("run", "p", "--image=none", "--restart=Never", "--port=80", "--", "true") == "pod/p created\n"
    assert kubectl("expose", "pod", "p", "--port=80", "--name=front") == "service/front exposed\n"

    assert kubectl.object("svc", "front")["spec"]["selector"] == {"run": "p"}
