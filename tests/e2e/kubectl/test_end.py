"""`kubectl delete` with each cascade, and `kubectl wait`."""

import pytest

from ...programs import needs_kubectl_of
from ...waiting import eventually

pytestmark = pytest.mark.e2e


@pytest.fixture
def family(kubectl, config_map):
    """A ConfigMap `owner`, and `child` which it owns."""

    def make(*, blocking=False):
        kubectl.apply(config_map("owner"))
        uid = kubectl.object("cm", "owner")["metadata"]["uid"]
        child = config_map("child")
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        child["metadata"]["ownerReferences"] = [{**reference, "blockOwnerDeletion": blocking}]
        kubectl.apply(child)

    return make


def exists(kubectl, name):
    return kubectl.run("get", name).returncode == 0


def test_background_deletes_dependents_afterwards(kubectl, family):
    family()
    out = kubectl("delete", "cm", "owner", "--cascade=background")

    assert out.startswith('configmap "owner" deleted')
    eventually(lambda: not exists(kubectl, "cm/child"), within_s=30)


def test_foreground_deletes_dependents_first(kubectl, family):
    family(blocking=True)
    kubectl("delete", "cm", "owner", "--cascade=foreground", "--timeout=40s")

    assert not exists(kubectl, "cm/owner")
    assert not exists(kubectl, "cm/child")


def test_orphan_keeps_dependents_without_their_owner(kubectl, family):
    family()
    kubectl("delete", "cm", "owner", "--cascade=orphan", "--timeout=40s")

    assert "ownerReferences" not in kubectl.object("cm", "child")["metadata"]


def test_delete_waits_for_finalizers_unless_told_otherwise(kubectl, config_map):
    held = config_map("held")
    held["metadata"]["finalizers"] = ["kubectl.test/hold"]
    kubectl.apply(held)
    assert "timed out waiting for the condition" in kubectl.fails("delete", "cm", "held", "--timeout=1s")
    kubectl("delete", "cm", "held", "--wait=false")
    assert "deletionTimestamp" in kubectl.object("cm", "held")["metadata"]

    waiting = kubectl.start("wait", "--for=delete", "cm/held", "--timeout=30s")
    kubectl("patch", "cm", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')

    assert waiting.wait(30) == 0
    waiting.communicate()


def test_delete_by_selector_by_file_and_of_everything(kubectl, file, config_map):
    manifest = file(config_map("a", app="x"), config_map("b", app="x"), config_map("c"), config_map("d"))
    kubectl("apply", "-f", manifest)

    kubectl("delete", "cm", "-l", "app=x")
    assert exists(kubectl, "cm/c")
    assert not exists(kubectl, "cm/a")
    kubectl("delete", "cm", "c", "--dry-run=server")
    assert exists(kubectl, "cm/c")
    kubectl("delete", "--ignore-not-found", "-f", manifest)
    assert not exists(kubectl, "cm/d")
    kubectl("apply", "-f", manifest)
    kubectl("delete", "configmaps", "--all")
    assert not exists(kubectl, "cm/a")
    assert 'configmaps "a" not found' in kubectl.fails("delete", "cm", "a")


def test_a_pod_is_deleted_by_force(kubectl, pod):
    kubectl.apply(pod("p", script="trap '' TERM; sleep 600"))
    done = kubectl.run("delete", "pod", "p", "--force", "--grace-period=0")

    assert done.returncode == 0
    assert 'pod "p" force deleted' in done.stdout
    assert not exists(kubectl, "pod/p")


def test_a_job_takes_its_pods_along(kubectl, job):
    kubectl.apply(job("j", script="sleep 600", suspend=False))
    eventually(lambda: kubectl("get", "pods", "-o", "name") != "", within_s=30)
    kubectl("delete", "job", "j")

    eventually(lambda: kubectl("get", "pods", "-o", "name") == "", within_s=30)


def test_a_namespace_takes_everything_along(server, config_map):
    server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "doomed"}})
    inside = server.inside("doomed")
    inside.apply(config_map("c"))
    server("delete", "namespace", "doomed", "--timeout=60s")

    assert 'namespaces "doomed" not found' in server.fails("get", "ns", "doomed")
    assert not exists(inside, "cm/c")


@pytest.mark.parametrize(
    ("condition", "patch"),
    [
        ("jsonpath={.spec.image}=done", '{"spec":{"image":"done"}}'),
        ("jsonpath={.status.phase}", None),
    ],
)
def test_wait_for_what_a_path_leads_to(kubectl, things, condition, patch):
    kubectl.apply(things("t", image="new"))
    assert "timed out waiting" in kubectl.fails("wait", f"--for={condition}", "thing/t", "--timeout=1s")

    waiting = kubectl.start("wait", f"--for={condition}", "thing/t", "--timeout=30s", "-v=6")
    assert any("watch=true" in line for line in waiting.stderr)  # so it sees the change come, not that it was there
    if patch:
        kubectl("patch", "thing", "t", "--type=merge", "-p", patch)
    else:
        kubectl("patch", "thing", "t", "--type=merge", "--subresource=status", "-p", '{"status":{"phase":"Up"}}')
    out, _ = waiting.communicate(timeout=30)

    assert (waiting.returncode, out) == (0, "thing.kubectl.test/t condition met\n")


def test_wait_for_creation(kubectl, job):
    needs_kubectl_of(31, "wait --for=create")
    waiting = kubectl.start("wait", "--for=create", "job/j", "--timeout=30s")
    kubectl.apply(job("j"))
    assert waiting.wait(30) == 0
    waiting.communicate()


def test_wait_for_a_condition_and_for_deletion(kubectl, job):
    kubectl.apply(job("j"))
    assert kubectl("wait", "--for=condition=Suspended", "job/j", "--timeout=30s") == "job.batch/j condition met\n"
    assert "timed out waiting" in kubectl.fails("wait", "--for=condition=Complete", "job/j", "--timeout=1s")
    assert kubectl("wait", "--for=delete", "job/none", "--timeout=1s") == ""
